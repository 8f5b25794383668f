# shellcheck shell=bash
# Prepares the environment of a Go test; sourced. It has a Go that is new enough, Tenon installed
# for pkg-config, and no network. If something is missing, the caller ends with 77 and a reason.
# CTest sets the variables on the next line.
: "${TENON_SOURCE_DIR:?}" "${TENON_BUILD_DIR:?}"

skip() {
  echo "skipped: $*"
  exit 77
}

command -v go >/dev/null || skip "there is no go in PATH"
command -v pkg-config >/dev/null || skip "there is no pkg-config in PATH"
go_proxy="$(go env GOPROXY)"
export go_proxy
export GOTOOLCHAIN=local GOPROXY=off GOWORK=off CGO_ENABLED=1
# The name of the C compiler is part of the key of each package that uses cgo. All tests use one
# name, so that they share these packages.
CC="$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$TENON_BUILD_DIR/CMakeCache.txt")"
export CC
go_version="$(go env GOVERSION)"
[[ "$go_version" =~ ^go1\.([0-9]+) ]] || skip "go says version '$go_version'"
((BASH_REMATCH[1] >= 24)) || skip "$go_version is older than 1.24"
if [[ ! -w "${HOME:-/nonexistent}" ]]; then
  export GOCACHE="$TENON_BUILD_DIR/go/cache" GOPATH="$TENON_BUILD_DIR/go/path"
fi

# Tests run side by side, so a lock makes one of them install and the others wait.
go_prefix="$TENON_BUILD_DIR/go/prefix"
mkdir -p "$TENON_BUILD_DIR/go"
exec 9>"$TENON_BUILD_DIR/go/lock"
flock 9
"${CMAKE:-cmake}" --install "$TENON_BUILD_DIR" --prefix "$go_prefix" \
  >"$TENON_BUILD_DIR/go/install.log" 2>&1 ||
  { cat "$TENON_BUILD_DIR/go/install.log" >&2; exit 1; }
go_libdir="$(dirname "$(find "$go_prefix" -name libtenon.so)")"
go_library_path="${LD_LIBRARY_PATH:-}"  # as the caller had it: where a driver of CUDA is, for one
export go_library_path PKG_CONFIG_PATH="$go_libdir/pkgconfig" LD_LIBRARY_PATH="$go_libdir"

# The key of a package in Go's cache does not include the output of pkg-config, nor C headers
# outside of the package. So Go would reuse objects of another build or of an older header. The
# compiler's option -D does nothing in these packages, but is part of the key.
go_flags_for() {
  local key
  key="$({ echo "$1" && cat "$(find "$1" -name tenon.h -printf '%h')"/*.h; } | cksum |
    cut -d ' ' -f 1)"
  echo "-buildvcs=false -gcflags=libtenon/...=-D=$key"
}
GOFLAGS="$(go_flags_for "$go_prefix")"
export GOFLAGS

# share_wrapper: compiles the standard library and the wrapper into Go's cache, for all tests. Two
# processes of Go that begin at the same time would both compile them, so the caller holds the lock.
# `go vet` comes first, because the compilation then reuses vet's output of cgo. After a `go build`,
# vet would run cgo again, which takes most of the time. The test go.vet reports what vet finds.
share_wrapper() {
  local wrapper="$TENON_SOURCE_DIR/wrappers/go" stamp="$TENON_BUILD_DIR/go/shared" key
  key="$go_version $(go env GOCACHE) $CC $GOFLAGS"
  if [[ "$(cat "$stamp" 2>/dev/null)" == "$key" ]] &&
    [[ -z "$(find "$wrapper" -name '*.go' -newer "$stamp")" ]]; then return; fi
  if (cd "$wrapper" && go vet .) >"$TENON_BUILD_DIR/go/shared.log" 2>&1 9>&-; then
    echo "$key" >"$stamp"
  fi
}
share_wrapper
flock -u 9
exec 9>&-

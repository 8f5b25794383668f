# shellcheck shell=bash
# What every Go test needs, sourced: a Go that is new enough, Tenon installed for pkg-config, and no
# network. Ends the caller with 77 and a reason if something is missing. CTest sets the variables on
# the next line.
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
# The name of the C compiler is part of the key of each package that uses cgo. All tests take the
# same name, so that they share these packages.
CC="$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$TENON_BUILD_DIR/CMakeCache.txt")"
export CC
go_version="$(go env GOVERSION)"
[[ "$go_version" =~ ^go1\.([0-9]+) ]] || skip "go says version '$go_version'"
((BASH_REMATCH[1] >= 24)) || skip "$go_version is older than 1.24"
if [[ ! -w "${HOME:-/nonexistent}" ]]; then
  export GOCACHE="$TENON_BUILD_DIR/go/cache" GOPATH="$TENON_BUILD_DIR/go/path"
fi

# Tests run side by side, and the first one installs.
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

# Go's cache does not see what pkg-config says, nor C headers outside of the package: without a word
# about them it would take what another build, or an older header, left there. The compiler's -D has
# no meaning to these packages, but is part of the key.
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
# `go vet` uses the output of cgo for the compilation as well. After a `go build`, it would run cgo
# again, which takes most of the time. What vet finds is for the test go.vet to report.
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

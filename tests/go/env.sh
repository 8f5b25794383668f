# shellcheck shell=bash
# What every Go test needs, sourced: a Go that is new enough, Tenon installed for pkg-config, and no network. Ends the caller with 77 and a reason if
# something is missing. CTest sets the variables on the next line.
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
go_version="$(go env GOVERSION)"
[[ "$go_version" =~ ^go1\.([0-9]+) ]] || skip "go says version '$go_version'"
((BASH_REMATCH[1] >= 24)) || skip "$go_version is older than 1.24"
if [[ ! -w "${HOME:-/nonexistent}" ]]; then export GOCACHE="$TENON_BUILD_DIR/go/cache" GOPATH="$TENON_BUILD_DIR/go/path"; fi

# Tests run side by side, and the first one installs.
go_prefix="$TENON_BUILD_DIR/go/prefix"
mkdir -p "$TENON_BUILD_DIR/go"
exec 9>"$TENON_BUILD_DIR/go/lock"
flock 9
"${CMAKE:-cmake}" --install "$TENON_BUILD_DIR" --prefix "$go_prefix" >"$TENON_BUILD_DIR/go/install.log" 2>&1 ||
  { cat "$TENON_BUILD_DIR/go/install.log" >&2; exit 1; }
go_libdir="$(dirname "$(find "$go_prefix" -name libtenon.so)")"
flock -u 9
exec 9>&-
go_library_path="${LD_LIBRARY_PATH:-}"  # as the caller had it: where a driver of CUDA is, for one
export go_library_path PKG_CONFIG_PATH="$go_libdir/pkgconfig" LD_LIBRARY_PATH="$go_libdir"

# Go's cache does not see what pkg-config says, nor C headers outside of the package: without a word about them it would take what another
# build, or an older header, left there. The compiler's -D has no meaning to these packages, but is part of the key.
go_flags_for() {
  local key
  key="$({ echo "$1" && cat "$(find "$1" -name tenon.h -printf '%h')"/*.h; } | cksum | cut -d ' ' -f 1)"
  echo "-buildvcs=false -gcflags=libtenon/...=-D=$key"
}
GOFLAGS="$(go_flags_for "$go_prefix")"
export GOFLAGS

#!/usr/bin/env bash
# usage: go.sh
#
# Follows the README of wrappers/go in an empty folder. First it builds and installs the C library
# from a checkout, and finds the module by `replace`. Then the program has the archive inside, the
# module is vendored, and the repository is gone.
set -euo pipefail
# shellcheck source=tests/packages/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

need go
need pkg-config
unset PKG_CONFIG_PATH LD_LIBRARY_PATH GOFLAGS
export GOTOOLCHAIN=local GOPROXY=off GOWORK=off CGO_ENABLED=1
# The standard library comes from the user's cache, where the tests of the wrapper have put it. The
# wrapper must be compiled anew. Go's cache does not see the output of pkg-config, so the wrapper's
# key belongs to this run alone.
if [[ ! -w "${HOME:-/nonexistent}" ]]; then export GOCACHE="$work/cache"; fi
export GOFLAGS="-gcflags=libtenon/...=-D=${work##*/}"
[[ "$(go env GOVERSION)" =~ ^go1\.([0-9]+) ]] || skip "go says version '$(go env GOVERSION)'"
((BASH_REMATCH[1] >= 24)) || skip "go 1.${BASH_REMATCH[1]} is older than 1.24"
# apache-tvm-ffi is installed in this environment. A user has such an environment active, as
# docs/dependencies.md asks.
VIRTUAL_ENV="$(dirname "$(dirname "$TENON_PYTHON")")"
export VIRTUAL_ENV PATH="$VIRTUAL_ENV/bin:$PATH"

repository="$work/tenon" prefix="$work/prefix"
copy_repository "$repository"
readme="$work/README.md"
cp "$repository/wrappers/go/README.md" "$readme"

# as_told N: runs the commands of a block with this test's prefix. ldconfig is left out, because it
# is for prefixes that the loader knows.
as_told() {
  block "$readme" "$1" |
    sed "s|/usr/local|$prefix|; s| && ldconfig||; s|/where/the/checkout/is|$repository|" \
      >"$work/commands"
  logged bash -euo pipefail "$work/commands"
}
cd "$repository"
as_told 1
libdir="$(dirname "$(find "$prefix" -name libtenon.so)")"
export PKG_CONFIG_PATH="$libdir/pkgconfig" LD_LIBRARY_PATH="$libdir"

mkdir "$work/project"
cd "$work/project"
as_told 2
block "$readme" 1 go >main.go
expect_output "[1 2 3 42]" go run .

cd "$repository"
as_told 3
cd "$work/project"
logged go mod vendor
mv "$repository" "$work/away"
rm -rf "$work/away"
logged go build -tags tenon_static -o hello .
unset LD_LIBRARY_PATH
rm -rf "$prefix"
if ldd hello | grep -E 'libtenon|not found'; then fail "the program needs the libraries above"; fi
expect_output "[1 2 3 42]" ./hello
report_objects "the C library, and the archive"
echo "ok"

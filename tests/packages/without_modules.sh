#!/usr/bin/env bash
# usage: without_modules.sh
#
# Builds the library without modules (TENON_MODULES=OFF) and compares it with the library of the
# wheel, which has modules. Both must export the same names, and neither may exceed its size limit.
# Then programs of the tests of the C API, and Python, load the smaller library in place of their
# own. All sharing works there, and modules are refused. Most objects come from the compiler's
# cache.
set -euo pipefail
# shellcheck source=tests/packages/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
: "${CMAKE:?}" "${TENON_DLPACK_INCLUDE_DIR:?}"
most_nbytes=1450000 most_nbytes_with_modules=3850000

need strip
need nm
build="$work/build"
logged "$CMAKE" -S "$TENON_SOURCE_DIR" -B "$build" -DTENON_MODULES=OFF \
  -DTENON_DLPACK_INCLUDE_DIR="$TENON_DLPACK_INCLUDE_DIR"
logged "$CMAKE" --build "$build"
report_objects "the library without modules"

with_modules="$("$TENON_PYTHON" -c 'import pathlib, tenon
print(pathlib.Path(tenon.__file__).with_name("libtenon.so.1"))')"
[[ -f "$with_modules" ]] || fail "there is no $with_modules"

# check_size LIBRARY BYTES: checks the size of the stripped library, which packages ship.
check_size() {
  local nbytes
  strip --strip-unneeded -o "$work/stripped" "$1"
  nbytes="$(stat -c %s "$work/stripped")"
  echo "$1: $nbytes bytes"
  ((nbytes <= $2)) || fail "$1 has $nbytes bytes, and may have $2"
}
check_size "$build/libtenon.so.1" "$most_nbytes"
check_size "$with_modules" "$most_nbytes_with_modules"

exports() { nm -D --defined-only --with-symbol-versions "$1" | cut -d ' ' -f 2- | sort; }
diff <(exports "$with_modules") <(exports "$build/libtenon.so.1") ||
  fail "< is exported with modules alone, > without modules alone"

# A program takes the library from this folder, because the loader reads LD_LIBRARY_PATH before
# RUNPATH.
export LD_LIBRARY_PATH="$build" TENON_MANAGER="$build/tenon-manager"
logged "$TENON_BUILD_DIR/tests/packages/without_modules"
expect_output "the last element is now 42" "$TENON_BUILD_DIR/examples/c/lend_and_modify"
tested=0
for source in "$TENON_SOURCE_DIR"/tests/api/capi/*.c; do
  topic="$(basename "$source" .c)"
  if [[ "$topic" =~ ^(archive|module|package|value|weights|shared_weights) ]]; then continue; fi
  logged "$TENON_BUILD_DIR/tests/api/capi/capi_$topic"
  tested=$((tested + 1))
done
((tested >= 24)) || fail "only $tested topics of tests/api/capi were tested"

cd "$work"
logged "$TENON_PYTHON" - <<'PROGRAM'
import tenon

one, other = tenon.pair()
weight = tenon.zeros((2, 3))
with one, other:
    one.send({"weight": weight})
    other.recv()["weight"].numpy()[0, 0] = 42
assert weight.numpy()[0, 0] == 42
for refused in (lambda: tenon.Module("__torch__.Model"), lambda: tenon.import_module("model.pt")):
    try:
        refused()
    except tenon.Unsupported as error:
        assert "this build of Tenon has no modules" in str(error), error
    else:
        raise AssertionError("this library has modules")
PROGRAM

# refuses WORD...: the program `tenon` must say that this build has no modules.
refuses() {
  if "$build/cli/tenon" "$@" 2>"$work/error"; then fail "tenon $* succeeded"; fi
  grep -q "model.pt was not read: this build of Tenon has no modules" "$work/error" ||
    fail "tenon $*: $(cat "$work/error")"
}
if [[ -x "$build/cli/tenon" ]]; then
  logged "$build/cli/tenon" ls --json
  printf 'PK\3\4' >model.pt
  refuses inspect model.pt
  refuses inspect --ops model.pt
  refuses verify model.pt
  refuses export model.pt new.pt
fi
echo "ok: $tested topics of tests/api/capi"

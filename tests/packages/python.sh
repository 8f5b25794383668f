#!/usr/bin/env bash
# usage: python.sh checkout|sdist
#
# Follows the README of Tenon's Python package in an empty environment: from a checkout, or from an
# sdist whose repository is gone.
set -euo pipefail
# shellcheck source=tests/packages/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case="${1:?}"
unset PYTHONPATH
export PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

repository="$work/package/core"
export TMPDIR="$work/tmp" SKBUILD_BUILD_DIR="$repository/build/python"
mkdir "$TMPDIR"
copy_repository "$repository"
readme="$work/README.md"
cp "$repository/wrappers/python/README.md" "$readme"
grep -q 'pip install ./wrappers/python' "$readme" || fail "$readme does not say how to install"

if [[ "$case" == checkout ]]; then
  logged "$TENON_PYTHON" -m venv "$work/user"
  (cd "$repository" && logged "$work/user/bin/pip" install ./wrappers/python)
else
  logged "$TENON_PYTHON" -m venv "$work/maker"
  logged "$work/maker/bin/pip" install build
  logged "$work/maker/bin/python3" -m build --sdist --outdir "$work/sdist" \
    "$repository/wrappers/python"
  rm -rf "$work/package" "$work/maker"
  sdist="$work/sdist/libtenon-$(version).tar.gz"
  [[ "$(echo "$work"/sdist/*)" == "$sdist" ]] ||
    fail "not one sdist of this version: $(ls "$work/sdist")"
  mkdir "$work/package"
  tar -x -f "$sdist" -C "$work/package" --strip-components 1
  logged "$TENON_PYTHON" -m venv "$work/user"
  logged "$work/user/bin/pip" wheel --no-deps --wheel-dir "$work/wheel" "$work/package"
  logged "$work/user/bin/pip" install "$work"/wheel/libtenon-*.whl
fi
rm -rf "$work/package"

mkdir "$work/empty"
cd "$work/empty"
expect_output "$(version)" "$work/user/bin/python3" -c 'import tenon; print(tenon.__version__)'
# The README's first program looks at its tensor with numpy.
logged "$work/user/bin/pip" install numpy
{
  block "$readme" 1
  echo 'print(weight.tolist())'
} >program.py
expect_output "[[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]" "$work/user/bin/python3" program.py
expect_output "tenon $(version)" "$work/user/bin/tenon" --version
folder="$("$work/user/bin/python3" -c \
  'import pathlib, tenon; print(pathlib.Path(tenon.__file__).parent)')"
[[ -x "$folder/bin/tenon-manager" ]] || fail "there is no tenon-manager in $folder/bin"
# A wheel is built with the driver's header. Whether this machine has CUDA does not matter.
"$work/user/bin/python3" - <<'PROGRAM' || fail "the wheel was built without CUDA"
import tenon
try:
    tenon.require_cuda()
except tenon.Unsupported as error:
    assert "this build of Tenon" not in str(error), error
PROGRAM
# The dynamic loader must find all parts of Tenon in the package itself.
if ldd "$folder"/*.so "$folder/bin/tenon-manager" | grep -E 'libtenon|not found' |
  grep -v "$folder/"; then
  fail "the libraries above are not in the package"
fi
report_objects "the wheel"
echo "ok: $case"

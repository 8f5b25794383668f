#!/usr/bin/env bash
# usage: tests/process/gpu/package.sh BUILD PYTHON FOLDER
#
# Makes FOLDER/tenon, the Python package as plain files for any Python from 3.11 on, with BUILD's
# libtenon.so. Also makes FOLDER/../python_more with the other packages that the tests import, taken
# from PYTHON, which needs cffi. Exit status 77: something that is needed for this is missing.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)"
build="$1" python="$2" folder="$3"
wrapper="$root/wrappers/python"
library="$(readlink -f "$build/libtenon.so.1" 2>/dev/null || true)"

skip() {
  echo "skipped: $*"
  exit 77
}

[[ -f "$library" ]] || skip "there is no $build/libtenon.so.1"
# Tests run in parallel, and the first one makes the package.
mkdir -p "$build/gpu"
exec 9>"$build/gpu/lock"
flock 9
stamp="$folder/made"
if [[ -f "$stamp" && -z "$(find "$library" "$wrapper/src" "$wrapper/native" "$root/capi/include" \
  "${BASH_SOURCE[0]}" -newer "$stamp" -type f -name '*.[choips]*' -print -quit)" ]]; then
  exit 0
fi
command -v "${CC:-cc}" >/dev/null || skip "no C compiler"
"$python" -c 'import cffi' 2>/dev/null || skip "$python has no cffi"
headers="$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')"
[[ -f "$headers/Python.h" ]] || skip "no Python.h in $headers"
dlpack="$(sed -n 's/^TENON_DLPACK_INCLUDE_DIR:[A-Z]*=//p' "$build/CMakeCache.txt")"

rm -rf "$folder" "$folder/../python_more"
mkdir -p "$folder/tenon" "$folder/../python_more"
cp "$wrapper"/src/tenon/*.py "$folder/tenon/"
strip --strip-debug -o "$folder/tenon/libtenon.so.1" "$library"
source="$folder/_cffi.c"
"$python" "$wrapper/native/generate.py" --compiler "${CC:-cc}" --include "$root/capi/include" \
  --include "$build/include" "$source"
# extension NAME SOURCE...
extension() {
  local name="$1"
  shift
  "${CC:-cc}" -O1 -fPIC -shared -fvisibility=hidden -DPy_LIMITED_API=0x030b0000 \
    "-I$headers" "-I$root/capi/include" "-I$build/include" ${dlpack:+"-I$dlpack"} "$@" \
    -o "$folder/tenon/$name.abi3.so" "$folder/tenon/libtenon.so.1" "-Wl,-rpath,\$ORIGIN"
}
extension _cffi "$source"
extension _native_ext "$wrapper"/native/*.c
rm -f "$source"

"$python" - "$folder/../python_more" <<'END'
import importlib.util, pathlib, shutil, sys
for name in (
    "_cffi_backend", "pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments"
):
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        continue
    origin, to = pathlib.Path(spec.origin), pathlib.Path(sys.argv[1])
    if origin.name == "__init__.py":
        unwanted = shutil.ignore_patterns("__pycache__")
        shutil.copytree(origin.parent, to / name, ignore=unwanted, dirs_exist_ok=True)
    else:
        shutil.copy(origin, to)
END
touch "$stamp"

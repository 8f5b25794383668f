#!/usr/bin/env bash
# usage: tests/process/gpu/pack.sh BUILD FILE [DIR]
#
# run.sh --pack calls this program. It packs the files of BUILD that run.sh needs into FILE, a
# .tar.gz, without symbols. DIR holds Python packages to add.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../../.." && pwd)"
build="$1" file="$2" with="${3:-}"
most=$((64 * 1000 * 1000))

stage="$(mktemp -d "${TMPDIR:-/tmp}/tenon-gpu-XXXXXX")"
trap 'rm -rf "$stage"' EXIT
top="$stage/tenon-gpu"
to="$top/build/dev"
archive=tests/peers/golden/module/2.2.0
mkdir -p "$top/tests/process/gpu" "$top/wrappers/python/tests" "$top/$archive" "$to/gpu"

"$here/package.sh" "$build" "${TENON_PYTHON:-$root/build/venv/bin/python3}" "$build/gpu/python" || {
  echo "tests/process/gpu/run.sh --pack: the Python package was not made, so the archive would" \
    "lack most of the suite" >&2
  exit 1
}
cp -r "$build/gpu/python" "$build/gpu/python_more" "$to/gpu/"

if [[ -n "$with" ]]; then cp -r "$with"/. "$to/gpu/python_more/"; fi
# Packs the C module that cffi's modules import, for each Python version that may be on the target.
# A Python loads the file whose name has its version.
python="${TENON_PYTHON:-$root/build/venv/bin/python3}" machine="$(uname -m)" have=() lack=() said=""
cffi="$("$python" -c 'import cffi; print(cffi.__version__)')"
for version in 3.11 3.12 3.13 3.14; do
  backend="_cffi_backend.cpython-${version/./}-$machine-linux-gnu.so"
  wheels="$stage/wheels-$version"
  if [[ ! -f "$to/gpu/python_more/$backend" ]]; then
    if log="$("$python" -m pip download --quiet --no-deps --disable-pip-version-check \
      --only-binary :all: --implementation cp --python-version "$version" \
      --platform "manylinux2014_$machine" --platform "manylinux_2_17_$machine" \
      --dest "$wheels" "cffi>=$cffi" 2>&1)"; then
      "$python" -m zipfile -e "$wheels"/cffi-*.whl "$wheels/all"
      cp "$wheels/all/$backend" "$to/gpu/python_more/"
    else
      said="$(tail -n 1 <<<"$log")"
    fi
  fi
  if [[ -f "$to/gpu/python_more/$backend" ]]; then have+=("$version"); else lack+=("$version"); fi
done
cp "$here"/*.sh "$here"/*.py "$top/tests/process/gpu/"
cp "$root/$archive/net.pt" "$top/$archive/"
cp "$root"/wrappers/python/tests/{cuda_kit,dlpack_kit}.py \
  "$root"/wrappers/python/tests/cuda_*programs.py "$top/wrappers/python/tests/"

# The libraries keep the names that a loader looks for.
strip --strip-debug -o "$to/libtenon.so.1" "$(readlink -f "$build/libtenon.so.1")"
missing=()
for name in tests/support/fake_cuda/{fake_cuda_rules,driver-{13,hidden}/libcuda.so.1} \
  tests/process/cuda/cuda_{cuda,device,channel,module,internal,available,weights}_tests \
  tests/languages/cpp/cpp_test examples/c/cuda_weights cli/tenon; do
  if [[ -f "$build/$name" ]]; then
    mkdir -p "$(dirname "$to/$name")"
    strip -o "$to/$name" "$build/$name"
  else
    missing+=("$name")
  fi
done
git -C "$root" describe --always --dirty >"$top/packed" 2>/dev/null || date -u >"$top/packed"

tar -C "$stage" --owner=0 --group=0 --exclude=__pycache__ -czf "$file" tenon-gpu
nbytes="$(stat -c %s "$file")"
if [[ "$nbytes" -gt "$most" ]]; then
  echo "tests/process/gpu/run.sh --pack: $file has $nbytes bytes, and $most are the most" >&2
  exit 1
fi
echo "$file: $nbytes bytes; unpack it there and run tenon-gpu/tests/process/gpu/run.sh"
echo "for Python ${have[*]}, and others that have cffi"
if [[ ${#lack[@]} -gt 0 ]]; then
  echo "cffi's module for Python ${lack[*]} is not in it, as pip could not fetch that;" \
    "--with takes one: $said"
fi
if [[ ${#missing[@]} -gt 0 ]]; then echo "left out, as they are not built: ${missing[*]}"; fi

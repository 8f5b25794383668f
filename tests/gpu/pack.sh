#!/usr/bin/env bash
# usage: tests/gpu/pack.sh BUILD FILE [DIR]
#
# Called by run.sh --pack: FILE becomes a .tar.gz of what run.sh runs, out of BUILD, without symbols; DIR: Python packages to be added.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
build="$1" file="$2" with="${3:-}"
most=$((64 * 1000 * 1000))

stage="$(mktemp -d "${TMPDIR:-/tmp}/tenon-gpu-XXXXXX")"
trap 'rm -rf "$stage"' EXIT
top="$stage/tenon-gpu"
to="$top/build/dev"
archive=tests/golden/module/2.2.0
mkdir -p "$top/tests/gpu" "$top/wrappers/python/tests" "$top/$archive" "$to/gpu"

"$here/package.sh" "$build" "${TENON_PYTHON:-$root/build/venv/bin/python3}" "$build/gpu/python" || {
  echo "tests/gpu/run.sh --pack: the Python package was not made, so the archive would lack most of the suite" >&2
  exit 1
}
cp -r "$build/gpu/python" "$build/gpu/python_more" "$to/gpu/"
if [[ -n "$with" ]]; then cp -r "$with"/. "$to/gpu/python_more/"; fi
cp "$here"/*.sh "$here"/*.py "$top/tests/gpu/"
cp "$root/$archive/net.pt" "$top/$archive/"
cp "$root"/wrappers/python/tests/cuda_{kit,programs}.py "$top/wrappers/python/tests/"

# Libraries keep the names that a loader looks for.
strip --strip-debug -o "$to/libtenon.so.1" "$(readlink -f "$build/libtenon.so.1")"
missing=()
for name in tests/fake_cuda/fake_cuda_rules tests/fake_cuda/driver-13/libcuda.so.1 \
  tests/cuda/cuda_{driver,error,available,fork,share,share_refused,torch,torch_segment,transport,event,archive,connection,arena,pinned} examples/c/cuda_weights \
  tests/cpp/cpp_test cli/tenon; do
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
  echo "tests/gpu/run.sh --pack: $file has $nbytes bytes, and $most are the most" >&2
  exit 1
fi
echo "$file: $nbytes bytes; unpack it there and run tenon-gpu/tests/gpu/run.sh"
if [[ ${#missing[@]} -gt 0 ]]; then echo "left out, as they are not built: ${missing[*]}"; fi

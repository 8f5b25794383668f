#!/usr/bin/env bash
# usage: package.sh FOLDER [cargo package's options...]
#
# Makes libtenon-sys-VERSION.crate and libtenon-VERSION.crate in FOLDER/target/package. The crate
# libtenon-sys contains the sources of the C++ library and DLPack's header, so that it builds
# without the repository. Everything is staged below FOLDER, and the working tree is not changed.
# The search for DLPack's header is that of CMake: TENON_DLPACK_INCLUDE_DIR, else the PyPI package
# apache-tvm-ffi.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
folder="${1:?usage: package.sh FOLDER}"
shift

dlpack=""
for place in "${TENON_DLPACK_INCLUDE_DIR:-}" \
  "$root"/build/venv/lib/python3*/site-packages/tvm_ffi/include \
  "${VIRTUAL_ENV:-/nonexistent}"/lib/python3*/site-packages/tvm_ffi/include \
  "$HOME"/.local/lib/python3*/site-packages/tvm_ffi/include \
  /usr/local/include /usr/include; do
  if [[ -f "$place/dlpack/dlpack.h" ]] &&
    grep -qE '^#define DLPACK_MAJOR_VERSION +[1-9]' "$place/dlpack/dlpack.h"; then
    dlpack="$place/dlpack/dlpack.h"
    break
  fi
done
if [[ -z "$dlpack" ]]; then
  echo "package.sh: no dlpack/dlpack.h of version 1.0 or newer: install the PyPI package" \
    "apache-tvm-ffi, or set TENON_DLPACK_INCLUDE_DIR" >&2
  exit 1
fi

stage="$folder/stage"
rm -rf "$stage"
mkdir -p "$stage"
cp -rL "$here/libtenon-sys" "$here/libtenon" "$stage/"
# The members outside of this folder need the repository.
sed '/"\.\.\//d' "$here/Cargo.toml" >"$stage/Cargo.toml"
cp "$here/Cargo.lock" "$stage/"

vendor="$stage/libtenon-sys/vendor"
mkdir -p "$vendor/capi" "$vendor/dlpack/include/dlpack"
cp -r "$root/CMakeLists.txt" "$root/LICENSE" "$root/cmake" "$root/impl" "$vendor/"
cp -r "$root/capi/include" "$root/capi/src" "$root/capi/tenon.map" "$vendor/capi/"
cp "$dlpack" "$vendor/dlpack/include/dlpack/"

unset TENON_LIB_DIR TENON_INCLUDE_DIR TENON_DLPACK_INCLUDE_DIR
CARGO_TARGET_DIR="$folder/target" cargo package --manifest-path "$stage/Cargo.toml" \
  --workspace --allow-dirty "$@"

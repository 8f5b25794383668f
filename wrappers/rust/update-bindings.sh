#!/usr/bin/env bash
# Writes libtenon-sys/src/bindings.rs anew from the headers of the repository. It needs libclang,
# and everything that a build of the C++ library needs.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
target="$(mktemp -d)"
trap 'rm -rf "$target"' EXIT
unset TENON_LIB_DIR TENON_INCLUDE_DIR
CARGO_TARGET_DIR="$target" cargo build --manifest-path "$here/Cargo.toml" -p libtenon-sys \
  --features bindgen,vendored
cp "$target"/debug/build/libtenon-sys-*/out/bindings.rs "$here/libtenon-sys/src/bindings.rs"

#!/usr/bin/env bash
# usage: packages.sh checkout|crate
#
# Follows the README of wrappers/rust/libtenon in an empty folder: builds a cargo project with
# Tenon's repository beside it, or with the two .crate files and no repository anywhere.
set -euo pipefail
# shellcheck source=tests/packages/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../packages/common.sh"

case="${1:?}"
need cargo
unset TENON_LIB_DIR TENON_INCLUDE_DIR TENON_DLPACK_INCLUDE_DIR CARGO_TARGET_DIR
unset LD_LIBRARY_PATH PKG_CONFIG_PATH
export CARGO_BUILD_JOBS=2 CARGO_TERM_COLOR=never
# apache-tvm-ffi is installed in this environment. A user has such an environment active, as the
# README asks.
VIRTUAL_ENV="$(dirname "$(dirname "$TENON_PYTHON")")"
export VIRTUAL_ENV

copy_repository "$work/tenon"
readme="$work/README.md"
cp "$work/tenon/wrappers/rust/libtenon/README.md" "$readme"

mkdir -p "$work/project/src"
cd "$work/project"
printf '[package]\nname = "hello"\nversion = "0.1.0"\nedition = "2021"\n\n' >Cargo.toml
if [[ "$case" == checkout ]]; then
  block "$readme" 1 toml >>Cargo.toml
else
  logged "$work/tenon/wrappers/rust/package.sh" "$work/packaged" --no-verify
  rm -rf "$work/tenon"
  unset VIRTUAL_ENV
  mkdir "$work/crates"
  for crate in "$work"/packaged/target/package/*.crate; do
    tar -x -z -f "$crate" -C "$work/crates"
  done
  rm -rf "$work/packaged"
  number="$(version)"
  printf '[dependencies]\nlibtenon = { path = "../crates/libtenon-%s" }\n\n' "$number" >>Cargo.toml
  # As with a registry, one crate finds the other by its version.
  printf '[patch.crates-io]\nlibtenon-sys = { path = "../crates/libtenon-sys-%s" }\n' "$number" \
    >>Cargo.toml
fi
block "$readme" 1 rust >src/main.rs
logged cargo build
program="$work/project/target/debug/hello"
expect_output "the last element is now 42" "$program"
# The library must be inside of the program.
if ldd "$program" | grep -E 'libtenon|not found'; then
  fail "the program needs the libraries above"
fi
report_objects "the archive"
echo "ok: $case"

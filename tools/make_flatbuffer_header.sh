#!/usr/bin/env bash
# usage: tools/make_flatbuffer_header.sh [FILE]
#
# Makes impl/flatbuffer/module_generated.h from module.fbs, or writes it to FILE. It takes flatc 2.0.8, which
# Debian 12 has in flatbuffers-compiler: a header of another version does not fit the library's.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
folder="$root/impl/flatbuffer"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
flatc --cpp --scoped-enums --cpp-std c++17 -o "$work" "$folder/module.fbs"
{
  printf '// Made from module.fbs by tools/make_flatbuffer_header.sh. Do not edit.\n// clang-format off\n#pragma GCC system_header\n'
  sed 's|^#include "\(.*\)"|#include <\1>|' "$work/module_generated.h"
} >"${1:-$folder/module_generated.h}"

#!/usr/bin/env bash
# usage: tools/make_flatbuffer_header.sh [FOLDER]
#
# Makes <schema>_generated.h of each schema in impl/modules/flatbuffer, there or in FOLDER. It needs
# flatc 2.0.8, which Debian 12 has in flatbuffers-compiler: a header of another version does not fit
# the library's.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
folder="$root/impl/modules/flatbuffer"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
for schema in "$folder"/*.fbs; do
  name="$(basename "$schema" .fbs)"
  flatc --cpp --scoped-enums --cpp-std c++17 -o "$work" "$schema"
  {
    printf '// Made from %s.fbs by tools/make_flatbuffer_header.sh. Do not edit.\n' "$name"
    printf '// clang-format off\n#pragma GCC system_header\n'
    sed 's|^#include "\(.*\)"|#include <\1>|' "$work/${name}_generated.h"
  } >"${1:-$folder}/${name}_generated.h"
done

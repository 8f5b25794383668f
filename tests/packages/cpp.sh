#!/usr/bin/env bash
# usage: cpp.sh find_package|pkg_config
#
# Follows the README of wrappers/cpp in an empty folder: builds a C++ project on an installed Tenon
# whose tree was moved.
set -euo pipefail
# shellcheck source=tests/packages/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
: "${CMAKE:?}" "${CXX:?}"

case="${1:?}"
unset PKG_CONFIG_PATH CMAKE_PREFIX_PATH LD_LIBRARY_PATH
readme="$TENON_SOURCE_DIR/wrappers/cpp/README.md"
logged "$CMAKE" --install "$TENON_BUILD_DIR" --prefix "$work/first"
mkdir "$work/moved to"
mv "$work/first" "$work/moved to/tenon"
prefix="$work/moved to/tenon"
libdir="$(dirname "$(find "$prefix" -name libtenon.so)")"

mkdir "$work/project"
cd "$work/project"
block "$readme" 1 cpp >program.cc
if [[ "$case" == find_package ]]; then
  {
    printf 'cmake_minimum_required(VERSION 3.25)\nproject(hello LANGUAGES CXX)\n'
    block "$readme" 1
  } >CMakeLists.txt
  logged "$CMAKE" -S . -B build -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$CXX"
  logged "$CMAKE" --build build
  program=build/program
else
  # The command stands in the README. The compiler is this build's, and the folder is the moved one.
  # shellcheck disable=SC2016
  line="$(sed -n 's/^or `c++ \(-std=c++20 program.cc [^`]*\)`.*/\1/p' "$readme")"
  [[ -n "$line" ]] || fail "$readme does not say how to compile with pkg-config"
  need pkg-config
  export PKG_CONFIG_PATH="$libdir/pkgconfig" LD_LIBRARY_PATH="$libdir"
  flags=()
  # pkg-config quotes the blank in the path for the shell.
  eval "flags=($(pkg-config --cflags --libs tenon))"
  words="${line/\$(pkg-config --cflags --libs tenon)/}"
  [[ "$words" != "$line" ]] || fail "$readme: no pkg-config in: $line"
  read -r -a words <<<"$words"
  logged "$CXX" "${words[@]}" "${flags[@]}"
  program=./a.out
fi
expect_output "the last element is now 42" "$program"
echo "ok: $case"

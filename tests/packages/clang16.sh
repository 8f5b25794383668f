#!/usr/bin/env bash
# usage: clang16.sh
#
# Compiles the library, the manager, and the examples in C and C++ without a warning by the oldest
# clang that is promised, and runs the examples. Only this build compiles the sources of a folder in
# another order (other_order.cmake). The objects stay in TENON_BUILD_DIR/clang16.
set -euo pipefail
# shellcheck source=tests/packages/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
: "${CMAKE:?}" "${TENON_DLPACK_INCLUDE_DIR:?}"

need clang-16
need clang++-16
build="$TENON_BUILD_DIR/clang16"
# A compiler's cache would not help: it does not keep objects with a precompiled header, and no
# other build compiles the same.
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER
logged "$CMAKE" -S "$TENON_SOURCE_DIR" -B "$build" \
  -DCMAKE_C_COMPILER=clang-16 -DCMAKE_CXX_COMPILER=clang++-16 \
  -DCMAKE_BUILD_TYPE=None -DTENON_CCACHE=OFF \
  -DCMAKE_PROJECT_tenon_INCLUDE="$TENON_SOURCE_DIR/tests/packages/other_order.cmake" \
  -DTENON_WERROR=ON -DTENON_BUILD_TESTS=OFF -DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON \
  -DTENON_DLPACK_INCLUDE_DIR="$TENON_DLPACK_INCLUDE_DIR"
logged "$CMAKE" --build "$build" --parallel 2
grep -q 'CMAKE_CXX_COMPILER_VERSION "16\.' "$build"/CMakeFiles/*/CMakeCXXCompiler.cmake ||
  fail "clang++-16 is another version"

example() {
  bash "$TENON_SOURCE_DIR/tests/api/capi/check_example.sh" "$build/examples/$language/$1" "${@:2}"
}
for language in c cpp; do
  example lend_and_modify "the last element is now 42"
  example read_only_lend "the third weight is 2.5" "cannot write" "lent once"
  example weak_cache "the same storage: yes" "expired after the last release: yes"
  example by_name "the other process wrote 998001" "the name is gone"
  example arena_and_leases "one worker was killed, and there is room" "a worker still reads 42" \
    "0 blocks are lent"
done
echo "ok"

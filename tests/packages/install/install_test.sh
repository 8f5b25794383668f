#!/usr/bin/env bash
# usage: install_test.sh CASE. Called by CTest, which sets the variables below.
set -euo pipefail

: "${TENON_SOURCE_DIR:?}" "${TENON_BUILD_DIR:?}" "${TENON_VERSION:?}"
: "${CMAKE:?}" "${CC:?}" "${CXX:?}"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
work="$(mktemp -d "${TMPDIR:-/tmp}/tenon-install.XXXXXX")"
trap 'rm -rf "$work"' EXIT

# shellcheck source=tests/packages/functions.sh
source "$here/../functions.sh"

# Installs Tenon in one place and moves the tree to another, whose name has a blank in it. So no
# file can depend on the first place.
install_and_move() {
  logged "$CMAKE" --install "$TENON_BUILD_DIR" --prefix "$work/first"
  mkdir "$work/moved to"
  mv "$work/first" "$work/moved to/tenon"
  tree="$work/moved to/tenon"
  libdir="$(dirname "$(find "$tree" -name libtenon.so)")"
}

case_tree() {
  install_and_move
  local place file wanted
  # Unstripped binaries name source files in their debug tables. No other file may name a place.
  strip --strip-debug "$libdir/libtenon.so.$TENON_VERSION" "$tree/bin/tenon" \
    "$tree/libexec/tenon/tenon-manager"
  for place in "$TENON_SOURCE_DIR" "$TENON_BUILD_DIR" "$work"; do
    if grep -rlF -- "$place" "$tree"; then fail "the files above name $place"; fi
  done
  for file in "$TENON_SOURCE_DIR"/capi/include/tenon/*.h; do
    cmp "$file" "$tree/include/tenon/$(basename "$file")"
  done
  for wanted in "$tree/include/tenon/version.h" "$libdir/cmake/tenon/tenonConfig.cmake" \
    "$libdir/cmake/tenon/tenonConfigVersion.cmake" "$libdir/pkgconfig/tenon.pc" \
    "$tree/share/doc/tenon/LICENSE"; do
    [[ -f "$wanted" ]] || fail "$wanted is not installed"
  done
  expect_output "tenon $TENON_VERSION" "$tree/bin/tenon" --version
  expect_output "tenon-manager $TENON_VERSION" "$tree/libexec/tenon/tenon-manager" --version
  for wanted in share/man/man1/tenon.1 lib/systemd/system/tenon-weights@.service \
    lib/sysusers.d/tenon-weights.conf; do
    [[ -f "$tree/$wanted" ]] || fail "$wanted is not installed"
  done
  if find "$tree" -name '*.in' -o -name '*.a' | grep .; then
    fail "the files above should not be installed"
  fi
  readelf -d "$libdir/libtenon.so" >"$work/dynamic"
  grep -q 'SONAME.*\[libtenon\.so\.1\]' "$work/dynamic" || fail "SONAME is not libtenon.so.1"
  grep -q 'NODELETE' "$work/dynamic" || fail "libtenon.so can be unloaded"
  if grep -E 'RPATH|RUNPATH' "$work/dynamic"; then fail "libtenon.so has a search path"; fi
  local libraries='libc\.so\.6|libstdc\+\+\.so\.6|libgcc_s\.so\.1|libm\.so\.6|ld-linux[^]]*'
  if grep NEEDED "$work/dynamic" | grep -vE "\[($libraries)\]"; then
    fail "libtenon.so needs the libraries above"
  fi
}

case_find_package() {
  install_and_move
  logged "$CMAKE" -S "$here/consumer" -B "$work/build" -DCMAKE_PREFIX_PATH="$tree" \
    -DCMAKE_C_COMPILER="$CC" -DCMAKE_CXX_COMPILER="$CXX"
  logged "$CMAKE" --build "$work/build"
  expect_output "tenon $TENON_VERSION" "$work/build/use_c"
  expect_output "tenon $TENON_VERSION" "$work/build/use_cc"
  # find_package must refuse a version that this one does not promise to serve.
  sed 's/find_package(tenon 0.1 /find_package(tenon 0.2 /' "$here/consumer/CMakeLists.txt" \
    >"$work/CMakeLists.txt"
  cp "$here"/consumer/use.* "$work"
  if "$CMAKE" -S "$work" -B "$work/build2" -DCMAKE_PREFIX_PATH="$tree" >"$work/log" 2>&1; then
    fail "find_package(tenon 0.2) was served by $TENON_VERSION"
  fi
}

case_pkg_config() {
  install_and_move
  export PKG_CONFIG_PATH="$libdir/pkgconfig"
  expect_output "$TENON_VERSION" pkg-config --modversion tenon
  local flags
  # pkg-config quotes the blank in the path for the shell.
  flags="$(pkg-config --cflags --libs tenon)"
  eval "\"\$CC\" -std=c99 -Wall -Wextra -pedantic -Werror" \
    "\"$here/consumer/use.c\" -o \"$work/use_c\" $flags"
  eval "\"\$CXX\" -std=c++11 -Wall -Wextra -pedantic -Werror" \
    "\"$here/consumer/use.cc\" -o \"$work/use_cc\" $flags"
  LD_LIBRARY_PATH="$libdir" expect_output "tenon $TENON_VERSION" "$work/use_c"
  LD_LIBRARY_PATH="$libdir" expect_output "tenon $TENON_VERSION" "$work/use_cc"
}

case_plain_cc() {
  install_and_move
  "$CC" -std=c99 -pedantic -Wall -Wextra -Werror -I"$tree/include" "$here/consumer/use.c" \
    -o "$work/use_c" -L"$libdir" -ltenon -Wl,-rpath,"$libdir"
  expect_output "tenon $TENON_VERSION" "$work/use_c"
}

case_subproject() {
  local generator=()
  if command -v ninja >/dev/null; then generator=(-G Ninja); fi
  # With the options of the wheel and of the other packages, the library is compiled only once.
  # shellcheck source=tests/packages/objects.sh
  source "$here/../objects.sh"
  share_objects
  count_objects "$work/ccache.log"
  logged "$CMAKE" "${generator[@]}" -S "$here/subproject" -B "$work/build" \
    -DCMAKE_BUILD_TYPE=Release -DTENON_SOURCE_DIR="$TENON_SOURCE_DIR" \
    -DCONSUMER_DIR="$here/consumer" -DTENON_DLPACK_INCLUDE_DIR="${TENON_DLPACK_INCLUDE_DIR:-}" \
    -DCMAKE_C_COMPILER="$CC" -DCMAKE_CXX_COMPILER="$CXX"
  logged "$CMAKE" --build "$work/build"
  expect_output "tenon $TENON_VERSION" "$work/build/use_c"
  expect_output "tenon $TENON_VERSION" "$work/build/use_cc"
  local tests
  tests="$(cd "$work/build" && ctest -N | sed -n 's/^Total Tests: //p')"
  [[ "$tests" == 2 ]] || fail "the outer project sees $tests tests, not its own 2"
  report_objects "the subproject"
}

"case_${1:?}"

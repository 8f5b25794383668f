#!/usr/bin/env bash
# usage: musl.sh
#
# Builds Tenon for musl, in programs that need no dynamic loader and so cannot have CUDA. So this is
# also the test of the library without cuda.h. Zig, a package on PyPI, brings clang with musl and
# libc++. Zig builds the archive and the manager, then the examples in C and the tests of the C API,
# and all of them run. At last a C program with musl lends to one with this build's libc and to
# PyTorch, and borrows from both, in the matrix. Zig and the compiled files stay in
# TENON_BUILD_DIR/musl.
set -euo pipefail
# shellcheck source=tests/packages/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
: "${CMAKE:?}" "${TENON_DLPACK_INCLUDE_DIR:?}"
: "${TENON_LIBDEFLATE_INCLUDE_DIR:?}" "${TENON_LIBDEFLATE_LIBRARY:?}"

need readelf
# Zig starts slowly under a compiler's cache, and has a cache of its own.
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER
kept="$TENON_BUILD_DIR/musl" pinned=ziglang==0.17.1 target="$(uname -m)-linux-musl"
mkdir -p "$kept/libdeflate"
if [[ "$(cat "$kept/pinned" 2>/dev/null)" != "$pinned" ]]; then
  rm -rf "$kept/venv" "$kept/cache" "$kept/build"
  logged "$TENON_PYTHON" -m venv "$kept/venv"
  "$kept/venv/bin/pip" install --disable-pip-version-check --no-input \
    --only-binary :all: "$pinned" >"$work/log" 2>&1 ||
    skip "$pinned cannot be installed: $(tail -n 1 "$work/log")"
  echo "$pinned" >"$kept/pinned"
fi
zig="$("$kept/venv/bin/python3" -c \
  'import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).with_name("zig"))')"
export ZIG_GLOBAL_CACHE_DIR="$kept/cache" ZIG_LOCAL_CACHE_DIR="$kept/cache"
# Zig compiles the C and C++ libraries once for each set of linker flags, which takes two cores half
# a minute. So everything is linked with the same flags, also what CMake links to learn the
# compiler's name.
link=(-static -s)
export CC="$zig cc -target $target ${link[*]}" CXX="$zig c++ -target $target ${link[*]}"

# Debian's libdeflate needs only malloc and mem* of its libc. Its header is copied so that the
# compiler finds no other header of /usr/include.
cp "$TENON_LIBDEFLATE_INCLUDE_DIR/libdeflate.h" "$kept/libdeflate"
# Nothing is optimised, because the compiler takes most of the test's time. In Release the library
# would add -O2 by itself. Without -O, Zig adds a sanitizer, which is left out. C has these options
# too: CMake links a program in C to learn the compiler's name, and Zig would compile the
# sanitizer's runtime for it.
quick=(-O0 -fno-sanitize=undefined)
logged "$CMAKE" -S "$TENON_SOURCE_DIR" -B "$kept/build" -DCMAKE_BUILD_TYPE=None \
  -DCMAKE_C_FLAGS="${quick[*]}" -DCMAKE_CXX_FLAGS="${quick[*]}" \
  -DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY \
  -DTENON_CUDA_INCLUDE_DIR=OFF -DTENON_FLATBUFFERS_INCLUDE_DIR=OFF -DTENON_JSON_INCLUDE_DIR=OFF \
  -DTENON_WERROR=ON -DTENON_BUILD_TESTS=OFF -DTENON_BUILD_EXAMPLES=OFF -DTENON_CCACHE=OFF \
  -DTENON_DLPACK_INCLUDE_DIR="$TENON_DLPACK_INCLUDE_DIR" \
  -DTENON_LIBDEFLATE_INCLUDE_DIR="$kept/libdeflate" \
  -DTENON_LIBDEFLATE_LIBRARY="$TENON_LIBDEFLATE_LIBRARY"
logged "$CMAKE" --build "$kept/build" --target tenon_internal tenon-manager

# compile PROGRAM WORD...: compiles C with Tenon's archive, which needs a C++ linker.
compile() {
  logged "$zig" c++ -target "$target" "${link[@]}" -std=c99 "${quick[@]}" -Wall -Wextra -Werror \
    -I "$TENON_SOURCE_DIR/capi/include" -I "$kept/build/include" -I "$TENON_SOURCE_DIR/tests" \
    -x c "${@:2}" \
    -x none "$kept/build/libtenon_internal.a" "$TENON_LIBDEFLATE_LIBRARY" -o "$1"
}

is_static() {
  if readelf -lW "$1" | grep INTERP || readelf -dW "$1" | grep NEEDED; then
    fail "$1 needs what is above"
  fi
}

mkdir -p "$kept/example" "$kept/capi" "$kept/matrix"
is_static "$kept/build/tenon-manager"
# example NAME TEXT...: an example must print the texts.
example() {
  compile "$kept/example/$1" "$TENON_SOURCE_DIR/examples/c/$1.c"
  is_static "$kept/example/$1"
  bash "$TENON_SOURCE_DIR/tests/api/capi/check_example.sh" "$kept/example/$1" "${@:2}"
}
example lend_and_modify "the last element is now 42"
example read_only_lend "the third weight is 2.5" "cannot write" "lent once"
example weak_cache "the same storage: yes" "expired after the last release: yes"
example by_name "the other process wrote 998001" "the name is gone"
example arena_and_leases "one worker was killed, and there is room" "a worker still reads 42" \
  "0 blocks are lent"

# All tests of the C API are one program, which Zig compiles and links in one call. Each file's main
# gets its topic's name. The environment says which one to run, because check.h starts the program
# again without its arguments.
wrapped="$kept/capi/sources" topics=()
rm -rf "$wrapped"
mkdir -p "$wrapped"
for source in "$TENON_SOURCE_DIR"/tests/api/capi/*.c; do
  topic="$(basename "$source" .c)"
  topics+=("$topic")
  printf '#define main main_%s\n#include "%s"\n' "$topic" "$source" >"$wrapped/$topic.c"
done
((${#topics[@]} >= 28)) || fail "only ${#topics[@]} topics in tests/api/capi"
{
  printf '#include <stdlib.h>\n#include <string.h>\n'
  printf 'int main_%s(void);\n' "${topics[@]}"
  printf 'int main(void) {\n  const char *topic = getenv("CAPI_TOPIC");\n'
  printf '  if (topic == NULL) return 2;\n'
  for topic in "${topics[@]}"; do
    printf '  if (strcmp(topic, "%s") == 0) return main_%s();\n' "$topic" "$topic"
  done
  printf '  return 2;\n}\n'
} >"$wrapped/main.c"
# CMSG_NXTHDR in musl's header compares signed with unsigned numbers.
compile "$kept/capi/all" -Wno-sign-compare -include "$TENON_SOURCE_DIR/tests/packages/musl.h" \
  -isystem "$TENON_DLPACK_INCLUDE_DIR" "$wrapped"/*.c
is_static "$kept/capi/all"
for topic in "${topics[@]}"; do
  logged env CAPI_TOPIC="$topic" TENON_MANAGER="$kept/build/tenon-manager" "$kept/capi/all"
  echo "capi.$topic"
done

# This text comes only from a library without CUDA (tests/api/capi/by_cuda.c).
grep -qaF "this build of Tenon has no CUDA" "$kept/build/libtenon_internal.a" ||
  fail "the library was built with CUDA"

# matrix.py takes the programs and tenon-manager from a build folder.
peer="$kept/matrix/peer"
compile "$peer" "$TENON_SOURCE_DIR"/tests/languages/matrix/c/*.c
is_static "$peer"
mkdir -p "$kept/build/matrix"
printf '{"produce": ["%s", "produce"], "consume": ["%s", "consume"], %s}\n' "$peer" "$peer" \
  '"build": [], "environment": {}' >"$kept/build/matrix/musl.json"
cp "$TENON_BUILD_DIR"/matrix/{c,torch-1.13}.json "$kept/build/matrix/"
TENON_BUILD_DIR="$kept/build" "$TENON_PYTHON" -B \
  "$TENON_SOURCE_DIR/tests/languages/matrix/matrix.py" musl c torch-1.13
echo "ok"

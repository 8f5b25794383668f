#!/usr/bin/env bash
# Compiles each public header alone, twice in one file, and beside an old and a new dlpack.h. Then
# links two files that include all of them. At the end some headers are wrong on purpose: if one of
# these passes, the checks prove nothing.
set -euo pipefail

cc=cc cxx=c++ dlpack='' work=''
includes=()
while (($# > 0)); do
  case $1 in
    --cc) cc=$2 ;;
    --cxx) cxx=$2 ;;
    --include) includes+=("$2") ;;
    --dlpack) dlpack=$2 ;;
    --work) work=$2 ;;
    *) echo "unknown option: $1" >&2; exit 2 ;;
  esac
  shift 2
done
here=$(cd "$(dirname "$0")" && pwd)
[[ -f $dlpack/dlpack/dlpack.h ]] || { echo "no dlpack/dlpack.h in '$dlpack'" >&2; exit 2; }
mkdir -p "$work"

strict=(-Wall -Wextra -pedantic -Werror -Wundef -Wshadow)
own=()
for folder in "${includes[@]}"; do own+=(-I "$folder"); done
runs=0

# compile c|c++ NAME [flag...]: compiles the text on standard input.
compile() {
  local language=$1 name=$2
  shift 2
  runs=$((runs + 1))
  if [[ $language == c ]]; then
    cat >"$work/$name.c"
    "$cc" -std=c99 -Wstrict-prototypes -Wmissing-prototypes -Wc++-compat \
      "${strict[@]}" "${own[@]}" "$@" -c "$work/$name.c" -o "$work/$name.c.o"
  else
    cat >"$work/$name.cc"
    "$cxx" -std=c++11 "${strict[@]}" "${own[@]}" "$@" -c "$work/$name.cc" -o "$work/$name.cc.o"
  fi
}

both() {
  local name=$1 text
  shift
  text=$(cat)
  compile c "$name" "$@" <<<"$text" || return 1 # said aloud: under "if", errexit is off
  compile c++ "$name" "$@" <<<"$text"
}

headers=()
for folder in "${includes[@]}"; do
  while IFS= read -r file; do
    headers+=("${file#"$folder"/}")
  done < <(find "$folder" -name '*.h' | sort)
done
((${#headers[@]} >= 10)) || { echo "only ${#headers[@]} headers found" >&2; exit 1; }

for header in "${headers[@]}"; do
  name=${header//\//_}
  both "alone_$name" <<<"#include <$header>
int tenon_headers_use(void);
int tenon_headers_use(void) { return 0; }"
  both "twice_$name" <<<"#include <$header>
#include <$header>
int tenon_headers_use(void);
int tenon_headers_use(void) { return 0; }"
done

# Includes DLPack's own header in every order. It is a system header here, so that its warnings do
# not count.
for kind in old new; do
  folder=$dlpack
  [[ $kind == old ]] && folder=$here/old
  both "dlpack_${kind}_before" -isystem "$folder" <<<'#include <dlpack/dlpack.h>
#include <tenon/tenon.h>
int tenon_headers_use(DLManagedTensor *managed, tenon_tensor **out);
int tenon_headers_use(DLManagedTensor *managed, tenon_tensor **out) {
  return tenon_tensor_from_dlpack_legacy(managed, out, 0);
}'
  both "dlpack_${kind}_after" -isystem "$folder" <<<'#include <tenon/tenon.h>
#include <dlpack/dlpack.h>
int tenon_headers_use(DLManagedTensor *managed, tenon_tensor **out);
int tenon_headers_use(DLManagedTensor *managed, tenon_tensor **out) {
  return tenon_tensor_from_dlpack_legacy(managed, out, 0);
}'
done
both dlpack_versioned -isystem "$dlpack" <<<'#include <tenon/dlpack.h>
#include <dlpack/dlpack.h>
#include <tenon/dlpack.h>
int tenon_headers_use(DLManagedTensorVersioned *managed, tenon_tensor **out);
int tenon_headers_use(DLManagedTensorVersioned *managed, tenon_tensor **out) {
  return tenon_tensor_from_dlpack(managed, out, 0);
}'

# Two files of one program include all headers, one of them in reverse order. Nothing may be defined
# twice.
all='' reversed=''
for header in "${headers[@]}"; do
  all+="#include <$header>"$'\n'
  reversed="#include <$header>"$'\n'$reversed
done
both two_first <<<"$all
#ifdef __cplusplus
extern \"C\"
#endif
int tenon_headers_second(void);
int main(void) { return tenon_headers_second(); }"
both two_second <<<"$reversed
#ifdef __cplusplus
extern \"C\"
#endif
int tenon_headers_second(void);
int tenon_headers_second(void) { return TENON_OK; }"
"$cc" "$work/two_first.c.o" "$work/two_second.c.o" -o "$work/two_c" && "$work/two_c"
"$cxx" "$work/two_first.cc.o" "$work/two_second.cc.o" -o "$work/two_cc" && "$work/two_cc"
"$cxx" "$work/two_first.c.o" "$work/two_second.cc.o" -o "$work/two_mixed" && "$work/two_mixed"

# Proves that the checks can fail: each of these headers has one thing that a public header must not
# have.
wrong=(
  'int tenon_wrong();'
  'enum tenon_wrong { TENON_WRONG = 1, };
struct tenon_wrong_s { int class; };'
  'static inline int tenon_wrong(int unused) { return 0; }'
  'size_t tenon_wrong(void);'
  'int tenon_wrong = 1; int tenon_wrong = 1;'
  'typedef struct { int a[]; } tenon_wrong;'
)
for i in "${!wrong[@]}"; do
  echo "${wrong[$i]}" >"$work/wrong_$i.h"
  if both "wrong_$i" -I "$work" <<<"#include <wrong_$i.h>
int tenon_headers_use(void);
int tenon_headers_use(void) { return 0; }" 2>/dev/null; then
    echo "a wrong header passed: ${wrong[$i]}" >&2
    exit 1
  fi
done

echo "${#headers[@]} headers, $runs compilations, ${#wrong[@]} wrong headers refused"

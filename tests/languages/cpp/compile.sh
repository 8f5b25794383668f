#!/usr/bin/env bash
# usage: compile.sh --cxx COMPILER [--cxx COMPILER...] --include FOLDER... --dlpack FOLDER
#        headers|refused
#
# headers: compiles each header of the wrapper alone with the last compiler, with precompiled
# headers of the standard library. Also compiles all headers together with each compiler, in C++20
# with and without exceptions, and in C++23. std_includes.py reports headers that lack an include of
# the standard library. refused: checks that wrong code does not compile, and for the right reason.
set -euo pipefail
here="$(dirname "$0")"

cxx=() flags=(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor -Werror
  -fsyntax-only -x c++)
wrapper='' what=''
while (($# > 0)); do
  case $1 in
    --cxx)
      if command -v "$2" >/dev/null; then cxx+=("$2"); fi
      shift
      ;;
    --include)
      flags+=(-I "$2")
      if [[ -d $2/tenon/cpp ]]; then wrapper=$2; fi
      shift
      ;;
    --dlpack) flags+=(-isystem "$2"); shift ;;
    *) what=$1 ;;
  esac
  shift
done
[[ -n $wrapper && ${#cxx[@]} -gt 0 ]] || { echo "no compiler, or no wrapper" >&2; exit 2; }
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
runs=0

compile() { # COMPILER FLAG...: standard input
  runs=$((runs + 1))
  "$1" "${flags[@]}" "${@:2}" -
}

headers() {
  local compiler header standard mode modes
  "${TENON_PYTHON:-python3}" -B "$here/std_includes.py" "$wrapper"
  grep -rhoE '^#include <[a-z_]+>' "$wrapper" | sort -u | grep -v stdfloat >"$scratch/std.hpp"
  "${cxx[-1]}" -std=c++20 -x c++-header "$scratch/std.hpp" -o "$scratch/std.hpp.gch"
  while IFS= read -r header; do
    compile "${cxx[-1]}" -std=c++20 -include "$scratch/std.hpp" <<<"#include <$header>
#include <$header>"
  done < <(cd "$wrapper" && find . -name '*.hpp' -printf '%P\n' | sort)
  ((runs >= 26)) || { echo "only $runs headers found" >&2; exit 1; }
  for compiler in "${cxx[@]}"; do
    for standard in c++20 c++23; do
      modes=('' -fno-exceptions -DTENON_NO_EXCEPTIONS)
      if [[ $standard == c++23 ]]; then
        modes=('')
        compile "$compiler" -std=c++23 <<<'' 2>/dev/null || standard=c++2b
      fi
      for mode in "${modes[@]}"; do
        compile "$compiler" -std="$standard" ${mode:+"$mode" -fno-rtti} \
          <<<'#include <dlpack/dlpack.h>
#include <tenon/tenon.hpp>
template <class Managed>
tenon::Result<tenon::Tensor> through(const tenon::Tensor& tensor) {
  tenon::Result<tenon::DlpackPtr<Managed>> out = tenon::try_to_dlpack<Managed>(tensor);
  if (!out) return out.error();
  return tenon::try_from_dlpack(std::move(*out));
}
template tenon::Result<tenon::Tensor> through<DLManagedTensor>(const tenon::Tensor&);
template tenon::Result<tenon::Tensor> through<DLManagedTensorVersioned>(const tenon::Tensor&);
template class tenon::Result<tenon::Storage>;
tenon::Code use(tenon::Tensor& tensor);
tenon::Code use(tenon::Tensor& tensor) { return tensor.try_view_mut<float>().code(); }
template tenon::Result<std::map<std::string, std::vector<double>>>
tenon::Value::try_as<std::map<std::string, std::vector<double>>>() const&;
tenon::Result<tenon::ExportReport> write(const tenon::Module& module);
tenon::Result<tenon::ExportReport> write(const tenon::Module& module) {
  if (const auto table =
          tenon::Value::try_make(std::map<std::string, std::vector<std::optional<int>>>());
      !table)
    return table.error();
  return tenon::try_export_module_to(
      module, [](std::span<const std::byte>) -> tenon::Result<void> { return {}; });
}'
      done
    done
  done
  echo "$runs compilations by ${cxx[*]}"
}

# The headers that the snippets use. tenon/tenon.hpp would take twice as long.
snippet_headers='#include <tenon/cpp/connection.hpp>
#include <tenon/cpp/object.hpp>
#include <tenon/cpp/descriptor.hpp>
#include <tenon/cpp/value.hpp>'
frame_arguments="tenon::Tensor& tensor, const tenon::Tensor& reader, tenon::Storage& storage,"
frame_arguments+=" tenon::Message& message, tenon::Connection& connection"

# frame NUMBER: prints a function whose body is standard input. Compilers call it snippet_NUMBER.
frame() {
  printf '%s\n' "void use_$1($frame_arguments);" "void use_$1($frame_arguments) {" \
    '  (void)tensor, (void)reader, (void)storage, (void)message, (void)connection;' \
    "#line 1 \"snippet_$1\"" "$(cat)" "#line 1 \"after_$1\"" '}'
}

names=() patterns=() bodies=''
# refused NAME PATTERN: adds a snippet, the body of a function, from standard input. check_refused
# compiles it with the other snippets since the last check. The compiler's messages about it must
# match PATTERN.
refused() {
  bodies+="$(frame "${#names[@]}")"$'\n'
  names+=("$1") patterns+=("$2")
}

# words_about NUMBER: selects the compiler's messages about that snippet from standard input. Notes
# and source lines follow their error, whatever file they name.
words_about() {
  awk -v own="^snippet_$1:" '/^(snippet|after)_[0-9]+:/ { inside = $0 ~ own } inside'
}

# check_refused [FLAG...]: compiles all snippets in one process of each compiler. Each snippet must
# have its own error, in its own line, for its own reason.
check_refused() {
  local compiler number said about every_word
  for compiler in "${cxx[@]}"; do
    # Clang stops after 20 errors unless it gets this flag. Colour codes would stand between the
    # words.
    every_word=(-fno-diagnostics-color)
    if compile "$compiler" -ferror-limit=0 <<<'' 2>/dev/null; then every_word+=(-ferror-limit=0); fi
    if said=$(compile "$compiler" -std=c++20 "${every_word[@]}" "$@" 2>&1 <<<"$snippet_headers
$bodies"); then
      echo "$compiler takes all of: ${names[*]}" >&2
      exit 1
    fi
    runs=$((runs + 1))
    for number in "${!names[@]}"; do
      about=$(words_about "$number" <<<"$said")
      if ! grep -qE "^snippet_$number:[0-9:]+ (fatal )?error: " <<<"$about"; then
        echo "${names[$number]}: $compiler takes it. It says of all snippets: $said" >&2
        exit 1
      fi
      grep -qE -- "${patterns[$number]}" <<<"$about" || {
        echo "${names[$number]}: $compiler refuses it for another reason: $about" >&2
        exit 1
      }
    done
  done
  checked=$((checked + ${#names[@]}))
  names=() patterns=() bodies=''
}


all_refused() {
  local compiler said checked=0
  # The frame itself must compile. Otherwise the refusals below would prove nothing.
  for compiler in "${cxx[@]}"; do
    compile "$compiler" -std=c++20 <<<"$snippet_headers
$(frame 0 <<<'  (void)tensor.try_view_mut<float>();')" || {
      echo "the frame does not compile" >&2
      exit 1
    }
  done
  local readonly_words='read-only|cannot assign|cannot be assigned|const-qualified'
  local deleted='deleted function|deleted copy|explicitly deleted|attempt to use a deleted'
  refused 'write through a reader' "$readonly_words" <<<'  tensor.view<float>()[0] = 1;'
  refused 'write through the bytes to read' \
    "$readonly_words|no match for .operator=.|no viable overloaded" \
    <<<'  storage.bytes()[0] = std::byte{1};'
  refused 'view_mut of a const tensor' 'discards qualifiers|not viable|no matching' \
    <<<'  (void)reader.view_mut<float>();'
  refused 'bytes_mut of a const storage' 'discards qualifiers|not viable' \
    <<<'  (void)std::as_const(storage).bytes_mut();'
  refused 'view_mut of a const view' \
    'discards qualifiers|not viable|no matching|cannot convert .const' \
    <<<'  const auto view = tensor.view(); (void)view.view_mut<float>();'
  refused 'view of a temporary' "$deleted" <<<'  (void)tenon::zeros<float>({2}).view<float>();'
  refused 'view_mut of a temporary' "$deleted" <<<'  (void)message["weight"].view_mut<float>();'
  refused 'bytes of a temporary' "$deleted" <<<'  (void)tensor.storage().bytes();'
  refused 'views of a temporary' "$deleted" \
    <<<'  for (const auto& view : connection.recv().views()) (void)view;'
  refused 'user bytes of a temporary' "$deleted" <<<'  (void)connection.recv().user_bytes();'
  refused 'descriptor bytes of a temporary' "$deleted" \
    <<<'  (void)tenon::Descriptor::make(message).bytes();'
  refused 'copy of a message' "$deleted" <<<'  tenon::Message copy = message; (void)copy;'
  refused 'copy of a connection' "$deleted" <<<'  tenon::Connection copy = connection; (void)copy;'
  refused 'view as bool' 'constraint|no matching' <<<'  (void)tensor.view<bool>();'
  refused 'view as a type with an owner' 'constraint|no matching' \
    <<<'  (void)tensor.view<std::string>();'
  refused 'an element of another size' 'constraint|no matching|incomplete|undefined' \
    <<<'  struct wide { double a, b; }; (void)tensor.view<wide>();'
  refused 'a text of a temporary value' "$deleted" \
    <<<'  (void)tenon::Value::none().as<std::string_view>();'
  refused 'a value compared with a number' 'no match for .operator==|invalid operands' \
    <<<'  const tenon::Value value = 1; (void)(value == 1);'
  refused 'the items of a temporary object' "$deleted" \
    <<<'  for (const auto& item : connection.recv_object().items()) (void)item;'
  refused 'a text of a temporary object' "$deleted" \
    <<<'  (void)connection.recv_object().as<std::string_view>();'
  refused 'an unsigned 64-bit int as an object' \
    'no viable|conversion from .* requested|could not convert' \
    <<<'  const tenon::Object object = std::uint64_t{1}; (void)object;'
  refused 'a result that nobody looks at' 'nodiscard' <<<'  storage.try_freeze();'
  check_refused
  refused 'a throwing form without exceptions' \
    'has no member named|no member named|is not a member' \
    <<<'  storage.freeze();'
  check_refused -fno-exceptions
  for compiler in "${cxx[@]}"; do
    # The header itself refuses C++17, before any snippet.
    if said=$(compile "$compiler" -std=c++17 -Wfatal-errors \
      <<<'#include <tenon/tenon.hpp>' 2>&1); then
      echo "C++17: $compiler takes it" >&2
      exit 1
    fi
    grep -q 'needs C++20' <<<"$said" || {
      echo "C++17: $compiler refuses it for another reason: $said" >&2
      exit 1
    }
  done
  echo "$checked snippets refused, $runs compilations by ${cxx[*]}"
}

case $what in
  headers) headers ;;
  refused) all_refused ;;
  *) echo "headers or refused?" >&2; exit 2 ;;
esac

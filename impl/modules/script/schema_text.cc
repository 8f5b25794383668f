#include "modules/script/schema_text.h"

#include <cstddef>

namespace tenon::script {
namespace {

// The length of the first argument. It ends at a comma or a '>' outside of parentheses, lists and
// strings.
size_t argument_size(std::string_view text) noexcept {
  int depth = 0;
  bool in_default = false;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '=') {
      in_default = true;
    } else if (c == '(' || (c == '[' && in_default)) {
      // "size[": a '[' before the '=' may be the mark of a list, which has no end.
      ++depth;
    } else if (c == ')' || (c == ']' && in_default)) {
      --depth;
    } else if (depth == 0 && (c == ',' || c == '>')) {
      return i;
    }
  }
  return text.size();
}

// Whether a type is a list that may take all positional arguments that are left: "int[]" and
// "Tensor(a!)[]", but not "t[]", "t[](a!)", "int[2]" or "int[]?".
bool is_open_list(std::string_view type) noexcept {
  const size_t alias = type.rfind('(');
  if (type.ends_with(')') && alias != std::string_view::npos && alias > 0)
    type = type.substr(0, alias);
  if (!type.ends_with("[]")) return false;
  type.remove_suffix(2);
  if (!type.starts_with('t')) return true;
  return type.find_first_of("(?[") != std::string_view::npos;
}

}  // namespace

bool next_schema_word(std::string_view* text, SchemaWord* out) noexcept {
  if (text->empty() || text->front() == '>') return false;
  const size_t size = argument_size(*text);
  std::string_view word = text->substr(0, size);
  text->remove_prefix(size);
  if (text->starts_with(',')) text->remove_prefix(1);
  *out = {};
  const size_t equals = word.find('=');
  out->has_default = equals != std::string_view::npos;
  if (out->has_default) {
    out->default_text = word.substr(equals + 1);
    word = word.substr(0, equals);
  }
  const size_t space = word.rfind(' ');
  if (space != std::string_view::npos) {
    out->type = word.substr(0, space);
    out->name = word.substr(space + 1);
    out->takes_rest = is_open_list(out->type);
    return true;
  }
  out->takes_rest = word.ends_with('[');
  if (out->takes_rest) word.remove_suffix(1);
  out->name = word;
  return true;
}

}  // namespace tenon::script

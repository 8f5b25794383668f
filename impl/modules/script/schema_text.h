// Splits a line of the schema table into its arguments. parse_schema() and Formals::parse() use
// these functions. The forms of the text are described in tools/make_schema_table.py.
#pragma once

#include <string_view>

namespace tenon::script {

// One argument as the text has it. For the words "*" and "..." the name is the word itself.
struct SchemaWord {
  std::string_view type;  // empty: the line has no types
  std::string_view name;
  std::string_view default_text;  // without the '='; empty where the line has no types
  bool has_default = false;
  bool takes_rest = false;  // a list that may take all positional arguments that are left
};

// Takes the first argument off `text`. False: `text` begins with '>' or is empty, so no argument is
// left.
bool next_schema_word(std::string_view* text, SchemaWord* out) noexcept;

}  // namespace tenon::script

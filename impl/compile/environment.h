// Environment: what the names of a function stand for while it is compiled. Every block opens a
// mark. What changed since then is taken back at the end of the block, so that two ways through the
// function can be compared.
#pragma once

#include <string_view>
#include <utility>

#include "compile/graph.h"
#include "script/undo_log.h"

namespace tenon::compile {

struct Local {
  GraphValue* value = nullptr;  // null: not set on every way that leads here
  value::TypeRef declared;      // of `x : T = ...`; null: what is assigned first decides
  // How deep the block that made the variable is: 1 for the function's body, and one more for each
  // branch and loop around. 0: the compiler's own flag.
  size_t frame = 0;
  // The value's type counts from now on and not the declared one: the variable was assigned again,
  // or a condition told more of it.
  bool is_narrow = false;
};

class Environment : public script::UndoLog<Local> {
 public:
  void set(std::string_view name, Local local) { change(id_of(name), std::move(local)); }
};

}  // namespace tenon::compile

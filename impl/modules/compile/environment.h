// Environment: the values of a function's local variables while the function is compiled. The
// function compiler opens a mark for every block and undoes the changes at the end of the block, so
// that it can compare two paths through the function (script/undo_log.h).
#pragma once

#include <string_view>
#include <utility>

#include "modules/compile/graph.h"
#include "modules/script/undo_log.h"

namespace tenon::compile {

struct Local {
  GraphValue* value = nullptr;  // null: some path to this point does not set the variable
  value::TypeRef declared;      // the T of `x : T = ...`; null: the first assignment decides
  // The depth of the block that made the variable: 1 for the function's body, and one more for each
  // branch and loop around it. 0: the variable is one of the compiler's own.
  size_t frame = 0;
  // The type of `value` counts here and not the declared type, because the variable was assigned
  // again or a condition says more about its type.
  bool is_narrow = false;
};

class Environment : public script::UndoLog<Local> {
 public:
  void set(std::string_view name, Local local) { change(id_of(name), std::move(local)); }
};

}  // namespace tenon::compile

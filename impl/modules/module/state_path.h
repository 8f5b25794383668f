// Finds places by paths to the states of objects and into them: "conv.state", "conv.state[0]",
// "fc.packed.state[1]['w']". The part after "state" has the form in which messages name a value
// (value/path.h). Below an object that has a state, "state" always means this state.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "modules/module/module.h"

namespace tenon::module {

// The place holds while the tree is not changed. `code` is borrowed.
struct StatePlace {
  std::string name;         // the path from "state" on
  ValueRef object;          // the owner of the state
  CodeSet* code = nullptr;  // the code in which the object's class is looked up
  // the index of the child at each level (Value::child); none: the whole state
  std::vector<size_t> steps;
  ValueRef value;
  TypeRef type;  // the declared type; null: none is declared
};

// Finds the place in a state to which a path below `root` leads. Gives nullopt if the path leads
// into no state. NOT_FOUND if that state has no such place.
Result<std::optional<StatePlace>> find_state_place(const ValueRef& root, CodeSet* around,
                                                   std::string_view path);

// Gives `value` in the form in which it can take that place. INVALID_ARGUMENT if it cannot: it must
// fit the declared type, or else the type of the value that is there. A tensor that one of
// PyTorch's C++ classes reads keeps its element type.
Result<ValueRef> check_state_value(const StatePlace& place, std::string_view path,
                                   const ValueRef& value);
// Checks the element type of a tensor that takes the place of `held` in the state of `object`.
Status check_state_tensor(const value::Value& object, const value::Value& held,
                          const value::Value& given, std::string_view path);

// Gives a copy of the whole state with `value` in that place.
Result<ValueRef> state_with(const StatePlace& place, ValueRef value);

}  // namespace tenon::module

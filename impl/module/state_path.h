// Paths to the states of objects and into them: "conv.state", "conv.state[0]", "fc.packed.state[1]['w']".
// What stands behind "state" is what messages say of a value (value/path.h). Below an object that has a
// state, "state" always means that.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "module/module.h"

namespace tenon::module {

struct StatePlace {
  std::string name;           // the path from "state" on
  ValueRef object;            // whose state it is
  CodeSet* code = nullptr;    // in which the object's class is looked up
  std::vector<size_t> steps;  // which child each time (Value::child); none: the whole state
  ValueRef value;
  TypeRef type;  // declared; null: nobody declares it
};

// Where a path below `root` leads in a state; nullopt: it leads into none. NOT_FOUND if that state has no
// such place.
Result<std::optional<StatePlace>> find_state_place(const ValueRef& root, CodeSet* around, std::string_view path);

// `value` as it can take that place, or INVALID_ARGUMENT. Without a declared type it has the type of what
// is there; and what a C++ class of PyTorch reads keeps its element type.
Result<ValueRef> check_state_value(const StatePlace& place, std::string_view path, const ValueRef& value);
// Of tensors in the state of `object`.
Status check_state_tensor(const value::Value& object, const value::Value& held, const value::Value& given, std::string_view path);

// The whole state, with `value` in that place.
Result<ValueRef> state_with(const StatePlace& place, ValueRef value);

}  // namespace tenon::module

// Lists the places below a module that have a path: those of tensors, and those of states.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "modules/module/module.h"

namespace tenon::module {

// A parameter or buffer in a tree of modules, or a tensor in the state of one of its objects. It
// holds while the tree is not changed. `code` is borrowed.
struct TensorPlace {
  std::string path;
  ValueRef object;
  size_t index = 0;  // the index of the attribute; SIZE_MAX: the tensor is in the object's state
  CodeSet* code = nullptr;
  TypeRef type;
  ValueRef held;
  bool in_state() const noexcept { return index == SIZE_MAX; }
};
// Lists these places in the order of the tree. A tensor that is shared has a place under each of
// its paths. A parameter or buffer may be None. RESOURCE_EXHAUSTED beyond a million paths or 128
// MiB of them. INVALID_ARGUMENT if a state is nested too deep. CORRUPT or NOT_FOUND if a class
// cannot be parsed or is missing.
Result<std::vector<TensorPlace>> tensor_places(const ValueRef& root, CodeSet* around);

// Lists the paths of all states of modules, of objects that are attributes of modules, and of
// objects in such states.
Result<std::vector<std::string>> state_paths(const ValueRef& root, CodeSet* around);

}  // namespace tenon::module

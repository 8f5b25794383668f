// Lists every parameter, buffer and tensor in a state below a module as a Member, whose name is its
// path.
#pragma once

#include <vector>

#include "base/status.h"
#include "modules/module/module.h"

namespace tenon::module {

// Gives the members in the order of tensor_places(), with kind and declared type. Parameters and
// buffers that are None are left out. The errors are those of tensor_places().
Result<std::vector<Member>> tensor_members(const Module& module);

}  // namespace tenon::module

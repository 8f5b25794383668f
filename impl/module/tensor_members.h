// Every parameter and buffer below a module as a member, whose name is its path.
#pragma once

#include <vector>

#include "base/status.h"
#include "module/module.h"

namespace tenon::module {

// In the order of tensor_places(), with kind and declared type; those that are None are left out.
Result<std::vector<Member>> tensor_members(const Module& module);

}  // namespace tenon::module

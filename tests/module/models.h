// Modules that are built by hand, for PyTorch to run.
#pragma once

#include <string>
#include <vector>

#include "module/module.h"

namespace tenon::module {

// By name; NOT_FOUND for none. Parameters have the values of ramp() in order.
Result<Ref<Module>> build_model(const std::string& name);
std::vector<std::string> model_names();

// A tensor of floats that differ: element i is (i % 17 - 8) / 16, plus `first`.
ValueRef ramp(std::vector<int64_t> sizes, float first = 0, bool requires_grad = true);

}  // namespace tenon::module

// Whether PyTorch can make the objects of a class from their states.
#pragma once

#include <string_view>

#include "base/status.h"
#include "script/declarations.h"

namespace tenon::module {

// Checks a class that has both __getstate__ and __setstate__: their parameters, that one takes the
// type which the other returns, and that __setstate__ assigns every attribute that must have a
// value.
Status check_state_methods(const script::Declarations& declarations, std::string_view class_name);

}  // namespace tenon::module

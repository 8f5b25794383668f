// Checks whether PyTorch can make the objects of a class from their states.
#pragma once

#include <string_view>

#include "base/status.h"
#include "modules/script/declarations.h"

namespace tenon::module {

// Checks a class that has both __getstate__ and __setstate__: that their parameters are right, that
// __setstate__ takes the type that __getstate__ returns, and that it assigns every attribute that
// must have a value. Otherwise INVALID_ARGUMENT, with line and caret.
Status check_state_methods(const script::Declarations& declarations, std::string_view class_name);

}  // namespace tenon::module

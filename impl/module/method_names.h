// Names of methods in one text, such as "forward,predict".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tenon::module {

// The names between the commas. An empty name is INVALID_ARGUMENT.
Result<std::vector<std::string>> split_method_names(std::string_view list);

}  // namespace tenon::module

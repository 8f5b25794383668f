// Splits a list of method names in one text, such as "forward,predict".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tenon::module {

// Gives the names between the commas. INVALID_ARGUMENT if one is empty.
Result<std::vector<std::string>> split_method_names(std::string_view list);

}  // namespace tenon::module

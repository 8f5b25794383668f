// ByName is a map from names that can be searched with a string_view.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/keyed_hash.h"

namespace tenon::module {

template <typename T>
using ByName = std::unordered_map<std::string, T, KeyedHash, std::equal_to<>>;

}  // namespace tenon::module

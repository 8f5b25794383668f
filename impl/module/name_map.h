// A map with names as keys that is asked with a view of a name.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tenon::module {

struct NameHash {
  using is_transparent = void;
  size_t operator()(std::string_view name) const noexcept { return std::hash<std::string_view>()(name); }
};
template <typename T>
using ByName = std::unordered_map<std::string, T, NameHash, std::equal_to<>>;

}  // namespace tenon::module

// Which names a record may have.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tenon::archive {

inline constexpr size_t kMostNameNbytes = 4096;

// What is wrong with it, as the end of a sentence; null if nothing is. A name is UTF-8 without
// control characters or backslashes, and its components, between single slashes, are neither empty
// nor "." nor "..".
const char* find_name_fault(std::string_view name) noexcept;

// The same of a name of one component.
const char* find_prefix_fault(std::string_view prefix) noexcept;

// A name like this one in which find_name_fault finds nothing: backslashes separate, an empty
// component and "." go, ".." and bytes that no name has become "_". It is cut at kMostNameNbytes.
std::string safe_name(std::string_view name);

}  // namespace tenon::archive

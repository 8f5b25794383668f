// Decides which names a record may have. The readers and writers of archives call it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tenon::archive {

inline constexpr size_t kMostNameNbytes = 4096;

// Returns the fault of a name as the end of a sentence, or null if there is none. A good name has 1
// to kMostNameNbytes bytes of UTF-8 without ASCII control characters or backslashes. Its
// components, between single slashes, are neither empty nor "." nor "..".
const char* find_name_fault(std::string_view name) noexcept;

// Does the same for a prefix, which is a name of one component.
const char* find_prefix_fault(std::string_view prefix) noexcept;

// Returns a similar name in which find_name_fault() finds no fault. Backslashes become separators,
// empty components and "." are removed, and ".." and forbidden bytes become "_". The component with
// which the name would get longer than kMostNameNbytes, and all behind it, are dropped. The result
// is "_" if nothing is left.
std::string safe_name(std::string_view name);

}  // namespace tenon::archive

// Names of tensors, and UTF-8 at large.
#pragma once

#include <cstddef>
#include <string_view>

namespace tenon::tensor {

inline constexpr size_t kMaxNameNbytes = 4096;

// At most kMaxNameNbytes of well-formed UTF-8 (no overlong forms, no surrogates, nothing above
// U+10FFFF) without NUL. May be empty.
bool is_valid_name(std::string_view name) noexcept;

// The same well-formed UTF-8, of any length, NUL included.
bool is_utf8(std::string_view text) noexcept;

}  // namespace tenon::tensor

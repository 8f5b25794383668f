// Checks names of tensors, and UTF-8 in general. Messages, descriptors, objects, module archives
// and the C API use these functions.
#pragma once

#include <cstddef>
#include <string_view>

namespace tenon::tensor {

inline constexpr size_t kMaxNameNbytes = 4096;

// Whether the name is at most kMaxNameNbytes of well-formed UTF-8 (no overlong forms, no
// surrogates, nothing above U+10FFFF) without NUL. A name may be empty.
bool is_valid_name(std::string_view name) noexcept;

// Whether the text is well-formed UTF-8. It may have any length and contain NUL.
bool is_utf8(std::string_view text) noexcept;

}  // namespace tenon::tensor

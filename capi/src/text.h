// Reads and writes the text of C callers (rule 7 of tenon.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "base/status.h"
#include "boundary.h"
#include "tensor/name.h"

namespace tenon::capi {

// The result is a view into the caller's text. INVALID_ARGUMENT for NULL and for a text that is no
// UTF-8.
inline Result<std::string_view> read_text(const char* text, const char* name) {
  if (text == nullptr) return Status(Code::kInvalidArgument, format("%s is NULL", name));
  const std::string_view whole(text);
  if (!tensor::is_utf8(whole))
    return Status(Code::kInvalidArgument, format("%s is no UTF-8", name));
  return whole;
}

// Writes as much of the text as there is room for, and sets *nbytes to the whole length. A text
// that is cut may end within a character. `nbytes` may be null.
inline Status publish_text(std::string_view text, char* out, size_t capacity, size_t* nbytes) {
  TENON_TRY(check_argument(out != nullptr || capacity == 0, "out is NULL"));
  if (capacity > 0) {
    const size_t count = std::min(text.size(), capacity - 1);
    std::memcpy(out, text.data(), count);
    out[count] = '\0';
  }
  if (nbytes != nullptr) *nbytes = text.size();
  return Status::ok();
}

}  // namespace tenon::capi

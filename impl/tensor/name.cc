#include "tensor/name.h"

#include <cstdint>
#include <cstring>

namespace tenon::tensor {
namespace {

// The length of the well-formed sequence of two to four bytes at the start of `rest`. 0 if there is
// none. The ranges are from Unicode's table 3-7. Only the second byte has a range of its own, which
// excludes overlong forms, surrogates and too large numbers.
size_t multibyte_length(std::string_view rest) noexcept {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(rest[i]); };
  const uint8_t lead = byte(0);
  size_t length = 0;
  uint8_t low = 0x80;
  uint8_t high = 0xbf;
  if (lead >= 0xc2 && lead <= 0xdf) {
    length = 2;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    length = 3;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    length = 4;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
  } else {
    return 0;
  }
  if (rest.size() < length || byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  return length;
}

// Checks eight bytes at once, because nearly all names are ASCII. The subtraction borrows into a
// high bit exactly where a byte is 0.
bool is_plain_ascii(uint64_t word) noexcept {
  constexpr uint64_t kHighBits = 0x8080808080808080U;
  constexpr uint64_t kOnes = 0x0101010101010101U;
  return ((word | (word - kOnes)) & kHighBits) == 0;
}

bool is_text(std::string_view text, bool with_nul) noexcept {
  while (!text.empty()) {
    uint64_t word = 0;
    if (text.size() >= sizeof(word)) {
      std::memcpy(&word, text.data(), sizeof(word));
      if (is_plain_ascii(word)) {
        text.remove_prefix(sizeof(word));
        continue;
      }
    }
    const auto lead = static_cast<uint8_t>(text[0]);
    if (lead == 0 && !with_nul) return false;
    const size_t length = lead < 0x80 ? 1 : multibyte_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace

bool is_valid_name(std::string_view name) noexcept {
  return name.size() <= kMaxNameNbytes && is_text(name, false);
}

bool is_utf8(std::string_view text) noexcept { return is_text(text, true); }

}  // namespace tenon::tensor

// A check for padding and unused fields of records from outside. Writers set them to 0, and
// decoders refuse a record where they are not, so that a later version can give them a meaning.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace tenon {

inline bool is_zero(std::span<const std::byte> bytes) noexcept {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](std::byte each) { return each == std::byte{0}; });
}

}  // namespace tenon

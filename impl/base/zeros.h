// Padding, and fields that nobody uses: a writer leaves them 0, and a reader checks that.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace tenon {

inline bool is_zero(std::span<const std::byte> bytes) noexcept {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte each) { return each == std::byte{0}; });
}

}  // namespace tenon

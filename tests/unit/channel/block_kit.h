// The tests of device blocks and lease blocks use this helper to change single fields of encoded
// blocks.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

namespace tenon::channel {

using Bytes = std::vector<std::byte>;

template <typename T>
Bytes with(Bytes bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
  return bytes;
}

}  // namespace tenon::channel

// CRC-32 as zip has it: polynomial 0x04C11DB7, reflected, begun and ended with all bits set.
#pragma once

#include <cstdint>

namespace tenon::archive {

// That of nothing is 0; crc32(crc32(0, a), b) is that of a and b together.
uint32_t crc32(uint32_t crc, const void* data, uint64_t nbytes) noexcept;

// That of two parts together, from that of each and the length of the second.
uint32_t crc32_combine(uint32_t first, uint32_t second, uint64_t second_nbytes) noexcept;

}  // namespace tenon::archive

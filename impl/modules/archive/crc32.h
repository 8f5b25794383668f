// The CRC-32 checksum of the zip format. The readers and writers of archives call it. The
// polynomial is 0x04C11DB7, bits are reflected, and the register begins and ends with all bits
// inverted.
#pragma once

#include <cstdint>

namespace tenon::archive {

// Continues the checksum `crc` over the next bytes. The checksum of no bytes is 0, so
// crc32(crc32(0, a), b) is the checksum of a followed by b.
uint32_t crc32(uint32_t crc, const void* data, uint64_t nbytes) noexcept;

// The checksum of two parts together, from the checksum of each and the length of the second.
uint32_t crc32_combine(uint32_t first, uint32_t second, uint64_t second_nbytes) noexcept;

}  // namespace tenon::archive

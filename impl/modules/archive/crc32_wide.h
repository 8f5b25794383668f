// CRC-32 by carry-less multiplication of 256 or 512 bits at a time. crc32.cc chooses one of these
// functions if the processor has the instructions.
#pragma once

#include <cstdint>

namespace tenon::archive {

using Crc32Function = uint32_t (*)(uint32_t crc, const void* data, uint64_t nbytes) noexcept;

// Null if the processor or the operating system does not support the instructions.
Crc32Function crc32_by_256_bits() noexcept;
Crc32Function crc32_by_512_bits() noexcept;

}  // namespace tenon::archive

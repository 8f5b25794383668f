// CRC-32 by carry-less multiplication of 256 and 512 bits at a time, for the processors that have
// it.
#pragma once

#include <cstdint>

namespace tenon::archive {

using Crc32Function = uint32_t (*)(uint32_t crc, const void* data, uint64_t nbytes) noexcept;

// Null where the processor, or the system, has it not.
Crc32Function crc32_by_256_bits() noexcept;
Crc32Function crc32_by_512_bits() noexcept;

}  // namespace tenon::archive

// The signatures, sizes and flags of the zip format. docs/format/archive.md has the tables.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tenon::archive::zip {

static_assert(std::endian::native == std::endian::little,
              "a zip file's numbers are read and written as they lie");

inline constexpr uint32_t kLocalSignature = 0x04034B50;
inline constexpr uint32_t kDescriptorSignature = 0x08074B50;
inline constexpr uint32_t kCentralSignature = 0x02014B50;
inline constexpr uint32_t kEndSignature = 0x06054B50;
inline constexpr uint32_t kEnd64Signature = 0x06064B50;
inline constexpr uint32_t kLocatorSignature = 0x07064B50;

inline constexpr uint64_t kLocalNbytes = 30;
inline constexpr uint64_t kCentralNbytes = 46;
inline constexpr uint64_t kEndNbytes = 22;
inline constexpr uint64_t kEnd64Nbytes = 56;  // without the extensible part that may follow
inline constexpr uint64_t kLocatorNbytes = 20;
inline constexpr uint64_t kExtraHeadNbytes = 4;

inline constexpr uint16_t kStored = 0;
inline constexpr uint16_t kDeflated = 8;

inline constexpr uint16_t kEncrypted = 0x0001;
inline constexpr uint16_t kHasDescriptor = 0x0008;
inline constexpr uint16_t kPatch = 0x0020;
inline constexpr uint16_t kStronglyEncrypted = 0x0040;
inline constexpr uint16_t kUtf8 = 0x0800;
inline constexpr uint16_t kMasked = 0x2000;

inline constexpr uint16_t kZip64Extra = 0x0001;
inline constexpr uint16_t kPaddingExtra = 0x4246;  // "FB", as PyTorch has it

inline constexpr uint16_t kVersion = 20;
inline constexpr uint16_t kVersion64 = 45;

inline constexpr uint16_t kIn64Short = 0xFFFF;  // the true number is in the zip64 record
inline constexpr uint32_t kIn64 = 0xFFFFFFFF;

template <typename Number>
Number get(const std::byte* at) noexcept {
  Number number;
  std::memcpy(&number, at, sizeof number);
  return number;
}
inline uint16_t get16(const std::byte* at) noexcept { return get<uint16_t>(at); }
inline uint32_t get32(const std::byte* at) noexcept { return get<uint32_t>(at); }
inline uint64_t get64(const std::byte* at) noexcept { return get<uint64_t>(at); }

}  // namespace tenon::archive::zip

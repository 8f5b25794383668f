#include "modules/archive/crc32.h"

#include <libdeflate.h>

#include <atomic>

#include "modules/archive/crc32_wide.h"

namespace tenon::archive {
namespace {

// For fewer bytes, the start and the end of the wide functions cost more than these functions save.
constexpr uint64_t kWideFrom = 1024;

constexpr uint32_t kPolynomial = 0xEDB88320;
constexpr uint32_t kOne = 0x80000000;  // x^0: the highest bit stands for the lowest power

uint32_t plain(uint32_t crc, const void* data, uint64_t nbytes) noexcept {
  return libdeflate_crc32(crc, data, static_cast<size_t>(nbytes));
}

Crc32Function choose() noexcept {
  if (Crc32Function found = crc32_by_512_bits(); found != nullptr) return found;
  if (Crc32Function found = crc32_by_256_bits(); found != nullptr) return found;
  return plain;
}

uint32_t multiply(uint32_t a, uint32_t b) noexcept {
  uint32_t product = 0;
  for (uint32_t bit = kOne; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? kPolynomial : 0);
  }
  return product;
}

}  // namespace

uint32_t crc32(uint32_t crc, const void* data, uint64_t nbytes) noexcept {
  if (nbytes < kWideFrom) return nbytes == 0 ? crc : plain(crc, data, nbytes);
  static constinit std::atomic<Crc32Function> chosen{nullptr};
  Crc32Function wide = chosen.load(std::memory_order_relaxed);
  if (wide == nullptr) {
    wide = choose();
    chosen.store(wide, std::memory_order_relaxed);
  }
  return wide(crc, data, nbytes);
}

uint32_t crc32_combine(uint32_t first, uint32_t second, uint64_t second_nbytes) noexcept {
  // `second_nbytes` zero bytes behind the first part multiply its remainder by x^(8 *
  // second_nbytes).
  uint32_t factor = kOne;
  uint32_t square = kOne >> 8;  // x^8
  for (uint64_t left = second_nbytes; left != 0; left >>= 1) {
    if ((left & 1) != 0) factor = multiply(factor, square);
    square = multiply(square, square);
  }
  return multiply(factor, first) ^ second;
}

}  // namespace tenon::archive

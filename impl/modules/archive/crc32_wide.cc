// CRC-32 by folding. The message is a polynomial over GF(2), and its first bit has the highest
// power. Let a block B lie n bits before another block. If B * (x^n mod P) is added to the other
// block and B is removed, the remainder stays the same. So a few wide registers run over the
// message. In each step, each register is multiplied, 128 bits in two halves, by the factor that
// moves it one step on. It is then added to the bytes of the next step. At the end, the registers
// are a short message with the same remainder, which the ordinary function takes.
//
// Bits are reflected, as in zip. The carry-less product of two reflected 64-bit numbers is the
// reflected product times x. That is why the exponents are one less than the distance.
#include "modules/archive/crc32_wide.h"

#include <libdeflate.h>

#include <cstring>

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define TENON_CRC32_WIDE 1
#include <immintrin.h>
#endif

namespace tenon::archive {

#ifdef TENON_CRC32_WIDE
namespace {

// x^power mod P in the upper half of a reflected 64-bit number.
constexpr uint64_t power_of_x(unsigned power) noexcept {
  uint32_t value = 0x80000000;
  for (unsigned i = 0; i < power; ++i) value = (value >> 1) ^ ((value & 1) != 0 ? 0xEDB88320U : 0U);
  return uint64_t{value} << 32;
}

// The factors that move 128 bits on by `bits`: one for the half with the higher powers, which comes
// first in memory, and one for the other half.
struct Fold {
  uint64_t first;
  uint64_t second;
};
constexpr Fold fold_by(unsigned bits) noexcept {
  return {power_of_x(bits + 63), power_of_x(bits - 1)};
}

// Takes the checksum of the registers' bytes as a message, and then of the rest. The first state of
// the CRC register is already in these bytes. The ordinary function begins with the complement of
// its argument, so it gets all ones.
uint32_t finish(const void* registers, size_t registers_nbytes, const void* rest,
                uint64_t rest_nbytes) noexcept {
  const uint32_t crc = libdeflate_crc32(0xFFFFFFFF, registers, registers_nbytes);
  return rest_nbytes == 0 ? crc : libdeflate_crc32(crc, rest, static_cast<size_t>(rest_nbytes));
}

constexpr size_t kRegisters = 4;

[[gnu::target("avx512f,avx512vl,vpclmulqdq")]] uint32_t run_512(uint32_t crc, const void* data,
                                                                uint64_t nbytes) noexcept {
  constexpr uint64_t step = kRegisters * sizeof(__m512i);
  if (nbytes < step) return libdeflate_crc32(crc, data, static_cast<size_t>(nbytes));
  const auto* at = static_cast<const unsigned char*>(data);
  constexpr Fold fold = fold_by(step * 8);
  const __m512i factors =
      _mm512_set_epi64(static_cast<long long>(fold.second), static_cast<long long>(fold.first),
                       static_cast<long long>(fold.second), static_cast<long long>(fold.first),
                       static_cast<long long>(fold.second), static_cast<long long>(fold.first),
                       static_cast<long long>(fold.second), static_cast<long long>(fold.first));
  __m512i registers[kRegisters];
#pragma GCC unroll 4
  for (size_t i = 0; i < kRegisters; ++i)
    registers[i] = _mm512_loadu_si512(at + i * sizeof(__m512i));
  registers[0] = _mm512_xor_si512(
      registers[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(~crc))));
  for (at += step, nbytes -= step; nbytes >= step; at += step, nbytes -= step) {
#pragma GCC unroll 4  // otherwise gcc keeps the registers in memory
    for (size_t i = 0; i < kRegisters; ++i) {
      const __m512i bytes = _mm512_loadu_si512(at + i * sizeof(__m512i));
      const __m512i first = _mm512_clmulepi64_epi128(registers[i], factors, 0x00);
      const __m512i second = _mm512_clmulepi64_epi128(registers[i], factors, 0x11);
      // The exclusive or of the three.
      registers[i] = _mm512_ternarylogic_epi64(first, second, bytes, 0x96);
    }
  }
  return finish(registers, sizeof registers, at, nbytes);
}

[[gnu::target("avx2,vpclmulqdq")]] uint32_t run_256(uint32_t crc, const void* data,
                                                    uint64_t nbytes) noexcept {
  constexpr uint64_t step = kRegisters * sizeof(__m256i);
  if (nbytes < step) return libdeflate_crc32(crc, data, static_cast<size_t>(nbytes));
  const auto* at = static_cast<const unsigned char*>(data);
  constexpr Fold fold = fold_by(step * 8);
  const __m256i factors =
      _mm256_set_epi64x(static_cast<long long>(fold.second), static_cast<long long>(fold.first),
                        static_cast<long long>(fold.second), static_cast<long long>(fold.first));
  __m256i registers[kRegisters];
#pragma GCC unroll 4
  for (size_t i = 0; i < kRegisters; ++i)
    registers[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at) + i);
  registers[0] = _mm256_xor_si256(
      registers[0], _mm256_zextsi128_si256(_mm_cvtsi32_si128(static_cast<int>(~crc))));
  for (at += step, nbytes -= step; nbytes >= step; at += step, nbytes -= step) {
#pragma GCC unroll 4  // otherwise gcc keeps the registers in memory
    for (size_t i = 0; i < kRegisters; ++i) {
      const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at) + i);
      const __m256i first = _mm256_clmulepi64_epi128(registers[i], factors, 0x00);
      const __m256i second = _mm256_clmulepi64_epi128(registers[i], factors, 0x11);
      registers[i] = _mm256_xor_si256(_mm256_xor_si256(first, second), bytes);
    }
  }
  return finish(registers, sizeof registers, at, nbytes);
}

}  // namespace

Crc32Function crc32_by_256_bits() noexcept {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq") ? run_256 : nullptr;
}

Crc32Function crc32_by_512_bits() noexcept {
  const bool has_it = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("vpclmulqdq");
  return has_it ? run_512 : nullptr;
}

#else

Crc32Function crc32_by_256_bits() noexcept { return nullptr; }
Crc32Function crc32_by_512_bits() noexcept { return nullptr; }

#endif

}  // namespace tenon::archive

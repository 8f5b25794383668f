// These tests compare each implementation of CRC-32 with the definition, bit by bit.
#include "modules/archive/crc32.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "modules/archive/crc32_wide.h"

namespace tenon::archive {
namespace {

using Octets = std::vector<unsigned char>;

// Computes the CRC with a table of one byte, which is made from the polynomial. This is so simple
// that it serves as the reference.
uint32_t by_table(uint32_t crc, const void* data, uint64_t nbytes) noexcept {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> made{};
    for (uint32_t byte = 0; byte < 256; ++byte) {
      uint32_t value = byte;
      for (int bit = 0; bit < 8; ++bit)
        value = (value >> 1) ^ ((value & 1) != 0 ? 0xEDB88320U : 0U);
      made[byte] = value;
    }
    return made;
  }();
  crc = ~crc;
  for (uint64_t i = 0; i < nbytes; ++i)
    crc = table[(crc ^ static_cast<const unsigned char*>(data)[i]) & 255] ^ (crc >> 8);
  return ~crc;
}

Octets octet_noise(size_t nbytes, uint32_t seed) {
  Octets bytes(nbytes);
  for (unsigned char& byte : bytes) {
    seed = seed * 1664525 + 1013904223;
    byte = static_cast<unsigned char>(seed >> 24);
  }
  return bytes;
}

struct Way {
  const char* name;
  Crc32Function function;
};

std::vector<Way> ways() {
  std::vector<Way> all{{"chosen", crc32}};
  if (crc32_by_256_bits() != nullptr) all.push_back({"256 bits", crc32_by_256_bits()});
  if (crc32_by_512_bits() != nullptr) all.push_back({"512 bits", crc32_by_512_bits()});
  return all;
}

TEST(Crc32, KnownValues) {
  EXPECT_EQ(crc32(0, nullptr, 0), 0U);
  EXPECT_EQ(crc32(7, nullptr, 0), 7U);
  constexpr std::string_view digits = "123456789";
  EXPECT_EQ(crc32(0, digits.data(), digits.size()), 0xCBF43926U);
  EXPECT_EQ(by_table(0, digits.data(), digits.size()), 0xCBF43926U);
}

TEST(Crc32, EveryLengthAtEveryAlignment) {
  constexpr size_t kLongest = 2100;
  const Octets bytes = octet_noise(kLongest + 64, 1);
  for (size_t offset = 0; offset < 64; ++offset) {
    // The expected value of each length follows from that of the length before, so that the test
    // does not take quadratic time.
    uint32_t expected = by_table(0x12345678, nullptr, 0);
    for (size_t nbytes = 0; nbytes <= kLongest; ++nbytes) {
      if (nbytes > 0) expected = by_table(expected, &bytes[offset + nbytes - 1], 1);
      if (nbytes > 0 && offset % 16 > 1 && nbytes % 7 != 0) continue;
      for (const Way& way : ways()) {
        ASSERT_EQ(way.function(0x12345678, &bytes[offset], nbytes), expected)
            << way.name << ", " << nbytes << " bytes at " << offset;
      }
    }
  }
}

// The functions read no byte next to the range. A sanitizer fails this test if they do.
TEST(Crc32, NothingBesideIsRead) {
  for (const size_t nbytes : {size_t{1}, size_t{255}, size_t{256}, size_t{257}, size_t{511},
                              size_t{1024}, size_t{4096}}) {
    const Octets exact = octet_noise(nbytes, 3);
    for (const Way& way : ways())
      EXPECT_EQ(way.function(0, exact.data(), nbytes), by_table(0, exact.data(), nbytes))
          << way.name;
  }
}

TEST(Crc32, LongAndSpecialBytes) {
  std::vector<Octets> inputs{octet_noise(3'000'001, 5), Octets(1'000'000, 0),
                             Octets(1'000'000, 255), Octets(4096, 0)};
  inputs.back()[4095] = 1;
  for (const Octets& bytes : inputs) {
    for (const uint32_t begin : {0U, 1U, 0xFFFFFFFFU}) {
      const uint32_t expected = by_table(begin, bytes.data(), bytes.size());
      for (const Way& way : ways())
        EXPECT_EQ(way.function(begin, bytes.data(), bytes.size()), expected) << way.name;
    }
  }
}

TEST(Crc32, EveryBitCounts) {
  Octets bytes = octet_noise(1500, 9);
  const uint32_t before = crc32(0, bytes.data(), bytes.size());
  for (size_t bit = 0; bit < bytes.size() * 8; bit += 3) {
    bytes[bit / 8] = static_cast<unsigned char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_NE(crc32(0, bytes.data(), bytes.size()), before) << bit;
    bytes[bit / 8] = static_cast<unsigned char>(bytes[bit / 8] ^ (1 << (bit % 8)));
  }
}

TEST(Crc32, PartsTogether) {
  const Octets bytes = octet_noise(10'000, 11);
  const uint32_t whole = crc32(0, bytes.data(), bytes.size());
  for (const size_t cut :
       {size_t{0}, size_t{1}, size_t{7}, size_t{4096}, size_t{9'999}, size_t{10'000}}) {
    const uint32_t first = crc32(0, bytes.data(), cut);
    EXPECT_EQ(crc32(first, bytes.data() + cut, bytes.size() - cut), whole);
    EXPECT_EQ(
        crc32_combine(first, crc32(0, bytes.data() + cut, bytes.size() - cut), bytes.size() - cut),
        whole);
  }
}

}  // namespace
}  // namespace tenon::archive

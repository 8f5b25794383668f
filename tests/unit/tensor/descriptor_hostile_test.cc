// These tests decode the bytes of a hostile peer. No bytes may crash the decoder, give an unsound
// content, or make the decoder allocate much.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>
#include <utility>

#include "unit/tensor/descriptor_support.h"

namespace {

std::atomic<size_t> allocated{0};  // bytes requested since the last reset to 0

void* counted_allocation(size_t nbytes) {
  allocated.fetch_add(nbytes, std::memory_order_relaxed);
  void* memory = std::malloc(nbytes != 0 ? nbytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// noinline: otherwise GCC sees malloc behind one operator and free behind the other, and warns.
[[gnu::noinline]] void* operator new(size_t nbytes) { return counted_allocation(nbytes); }
[[gnu::noinline]] void* operator new[](size_t nbytes) { return counted_allocation(nbytes); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace tenon::tensor {
namespace {

using namespace test;

constexpr uint64_t kFds = 2;
constexpr uint64_t kDevices = 3;

// An error may allocate a message and a few details.
constexpr size_t kErrorNbytes = 4096;

struct Outcome {
  bool decoded = false;
  Code code = Code::kOk;
};

// Decodes from a heap block of exactly these bytes, so that ASan sees a read past either end.
Outcome decode_checked(const Bytes& bytes) {
  const Bytes exact(bytes);
  allocated = 0;
  Result<DescriptorContent> result = decode_descriptor(exact, kFds, {}, kDevices);
  EXPECT_LE(allocated.load(), 3 * bytes.size() + kErrorNbytes);
  if (!result.is_ok()) {
    const Code code = result.status().code();
    EXPECT_TRUE(code == Code::kCorrupt || code == Code::kIncompatible ||
                code == Code::kResourceExhausted)
        << code_name(code);
    EXPECT_FALSE(result.status().message().empty());
    bool has_field = false;
    for (const Detail& detail : result.status().info()->details)
      has_field = has_field || detail.key == "field";
    EXPECT_TRUE(has_field) << result.status().message();
    return {false, code};
  }
  EXPECT_EQ(unsound(result.value(), kFds, kDevices), "");
  const Bytes again = encode_descriptor(result.value());
  Result<DescriptorContent> second = decode_descriptor(again, kFds, {}, kDevices);
  EXPECT_TRUE(second.is_ok()) << second.status().message();
  EXPECT_TRUE(second.is_ok() && encode_descriptor(second.value()) == again);
  return {true, Code::kOk};
}

std::vector<Bytes> samples() {
  return {encode_descriptor({}), encode_descriptor(one_tensor()), encode_descriptor(everything()),
          encode_descriptor(on_devices()), encode_descriptor(composites())};
}

TEST(DescriptorHostile, EveryBitFlippedIsRefused) {
  for (const Bytes& good : samples()) {
    for (size_t bit = 0; bit < good.size() * 8; ++bit) {
      Bytes bytes = good;
      bytes[bit / 8] ^= std::byte{1} << (bit % 8);
      ASSERT_FALSE(decode_checked(bytes).decoded) << "bit " << bit;
    }
  }
}

TEST(DescriptorHostile, EveryByteChangedBehindTheChecksum) {
  size_t passed = 0;
  size_t refused = 0;
  for (const Bytes& good : samples()) {
    for (size_t at = 0; at < good.size(); ++at) {
      if (at >= 40 && at < 44) continue;  // the checksum itself
      for (const unsigned change :
           {0x01U, 0x02U, 0x04U, 0x08U, 0x10U, 0x20U, 0x40U, 0x80U, 0x7fU, 0xffU}) {
        Bytes bytes = good;
        bytes[at] ^= static_cast<std::byte>(change);
        put<uint32_t>(&bytes, 40, wire::checksum(bytes.data(), bytes.size()));
        ++(decode_checked(bytes).decoded ? passed : refused);
        if (HasFailure()) FAIL() << "byte " << at << " ^ " << change;
      }
    }
  }
  // Ids, nonces, user bytes and the like may have any value. Most other bytes may not.
  EXPECT_GT(passed, 1000U);
  EXPECT_GT(refused, 5000U);
}

TEST(DescriptorHostile, EveryLengthCutShort) {
  for (const Bytes& good : samples()) {
    for (size_t nbytes = 0; nbytes < good.size(); ++nbytes) {
      Bytes bytes(good.begin(), good.begin() + static_cast<ptrdiff_t>(nbytes));
      ASSERT_FALSE(decode_checked(bytes).decoded) << nbytes;
      if (nbytes < wire::kHeaderNbytes10) continue;
      fix_sum(&bytes);
      ASSERT_FALSE(decode_checked(bytes).decoded) << nbytes << " with its sum made right";
    }
  }
}

TEST(DescriptorHostile, BytesAppended) {
  for (const Bytes& good : samples()) {
    for (size_t more = 1; more <= 64; ++more) {
      Bytes bytes = good;
      bytes.resize(good.size() + more);
      ASSERT_FALSE(decode_checked(bytes).decoded);
      fix_sum(&bytes);
      ASSERT_FALSE(decode_checked(bytes).decoded);
    }
  }
}

TEST(DescriptorHostile, EveryNumberOfTheHeaderExtreme) {
  const uint64_t extremes[] = {0, 1, 0x7f, 0x80, 0xff, 0x7fffffff, 0x80000000, 0xffffffff,
                               uint64_t{1} << 60, (uint64_t{1} << 60) + 1, uint64_t{1} << 61,
                               uint64_t{1} << 62, uint64_t{1} << 63, (uint64_t{1} << 63) - 1,
                               ~uint64_t{0}, ~uint64_t{0} - 7,
                               // times 72, 24 and 40: a little more than 2^64
                               256204778801521551U, 768614336404564651U, 461168601842738791U};
  for (const Bytes& good : samples()) {
    for (size_t at = 8; at < get<uint32_t>(good, 12); at += 4) {
      for (const uint64_t value : extremes) {
        for (const uint16_t minor : {uint16_t{0}, uint16_t{1}, uint16_t{2}}) {
          Bytes bytes = good;
          put<uint16_t>(&bytes, 10, minor);
          put<uint32_t>(&bytes, at, static_cast<uint32_t>(value));
          put<uint32_t>(&bytes, 40, wire::checksum(bytes.data(), bytes.size()));
          decode_checked(bytes);
          if (at % 8 == 0) {
            put<uint64_t>(&bytes, at, value);
            put<uint32_t>(&bytes, 40, wire::checksum(bytes.data(), bytes.size()));
            decode_checked(bytes);
          }
          if (HasFailure()) FAIL() << "at " << at << " value " << value;
        }
      }
    }
  }
}

TEST(DescriptorHostile, EveryCountMaximal) {
  for (const Bytes& good : samples()) {
    const size_t n_sections = (get<uint32_t>(good, 12) - 72) / 24;
    for (size_t i = 0; i < n_sections; ++i) {
      const size_t at = 72 + 24 * i + 8;
      for (const uint64_t count : {get<uint64_t>(good, at) + 8, get<uint64_t>(good, at) + 1000000,
                                   ~uint64_t{0}, ~uint64_t{0} / 8 + 1, uint64_t{0xffffffff}}) {
        Bytes bytes = good;
        put<uint64_t>(&bytes, at, count);
        fix_sum(&bytes);
        const Outcome outcome = decode_checked(bytes);
        EXPECT_FALSE(outcome.decoded) << "section " << i << " count " << count;
        EXPECT_EQ(outcome.code, Code::kCorrupt);
      }
    }
  }
}

TEST(DescriptorHostile, EveryWordOfTheTablesExtreme) {
  for (const auto& [good, begin] : {std::pair(encode_descriptor(everything()), 240),
                                    std::pair(encode_descriptor(composites()), 288)})
    for (size_t at = begin; at + 8 <= good.size(); at += 4) {
      for (const uint64_t value :
           {uint64_t{0}, uint64_t{0xffffffff}, uint64_t{0x80000000}, ~uint64_t{0},
            uint64_t{1} << 63, (uint64_t{1} << 63) - 1, uint64_t{1} << 62}) {
        Bytes bytes = good;
        if (at % 8 == 0) {
          put<uint64_t>(&bytes, at, value);
        } else {
          put<uint32_t>(&bytes, at, static_cast<uint32_t>(value));
        }
        fix_sum(&bytes);
        decode_checked(bytes);
        if (HasFailure()) FAIL() << "at " << at << " value " << value;
      }
    }
}

TEST(DescriptorHostile, ManyBytesChangedAtOnce) {
  std::mt19937_64 random(11);
  const std::vector<Bytes> good = samples();
  for (int round = 0; round < 60000; ++round) {
    Bytes bytes = good[random() % good.size()];
    const size_t changes = 1 + random() % 6;
    for (size_t i = 0; i < changes; ++i) {
      const size_t at =
          random() % 3 == 0 ? 72 + random() % 168 : 240 + random() % (bytes.size() - 239) - 1;
      bytes[at] = static_cast<std::byte>(random() % 2 == 0 ? random() : random() % 4);
    }
    put<uint32_t>(&bytes, 40, wire::checksum(bytes.data(), bytes.size()));
    decode_checked(bytes);
    if (HasFailure()) FAIL() << "round " << round;
  }
}

TEST(DescriptorHostile, NoBytesAtAll) {
  EXPECT_EQ(decode_descriptor({}, 0, {}).status().code(), Code::kCorrupt);
}

// A million tensors must not be able to refer to the same dims and the same name.
TEST(DescriptorHostile, SharedDimsAndNamesAreRefused) {
  Bytes bytes = encode_descriptor([] {
    DescriptorContent content = one_tensor();
    content.tensors.push_back(content.tensors[0]);
    return content;
  }());
  const size_t second = record_at(bytes, wire::kTensors, 1);
  Bytes dims = bytes;
  put<uint32_t>(&dims, second + 12, 0);
  fix_sum(&dims);
  EXPECT_EQ(decode_checked(dims).code, Code::kCorrupt);
  put<uint32_t>(&bytes, second + 24, 0);
  fix_sum(&bytes);
  EXPECT_EQ(decode_checked(bytes).code, Code::kCorrupt);
}

}  // namespace
}  // namespace tenon::tensor

// The tests of device blocks and lease blocks use these helpers to change single fields of encoded
// blocks.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/status.h"
#include "support/golden_files.h"

namespace tenon::channel {

using Bytes = std::vector<std::byte>;

template <typename T>
Bytes with(Bytes bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
  return bytes;
}

// A value that a field of 4 bytes must not have.
struct WrongField {
  size_t at;
  uint32_t value;
  std::string what;
  Code code = Code::kCorrupt;
};

// The checks of one kind of block. `field` is what an error names.
template <typename Block>
struct BlockCodec {
  Result<Block> (*decode)(std::span<const std::byte> bytes, size_t* used);
  Bytes (*encode)(const Block& block);
  void (*expect_same)(const Block& a, const Block& b);
  const char* field;

  void expect_refused(const Bytes& bytes, Code code, const std::string& what) const {
    size_t used = 12345;
    const Status status = decode(bytes, &used).status();
    ASSERT_FALSE(status.is_ok()) << what;
    EXPECT_EQ(status.code(), code) << what << ": " << status.message();
    EXPECT_EQ(status.detail("field"), field) << what;
    EXPECT_EQ(used, 12345U) << what;
  }

  void expect_refused(const Bytes& good, const std::vector<WrongField>& fields) const {
    for (const WrongField& each : fields)
      expect_refused(with(good, each.at, each.value), each.code, each.what);
  }

  void expect_every_cut_refused(const Bytes& good) const {
    for (size_t length = 0; length < good.size(); ++length) {
      const Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length));
      expect_refused(cut, Code::kCorrupt, "cut to " + std::to_string(length));
    }
  }

  // Expects that the decoder gives the encoded block again, also from in front of a descriptor.
  template <typename Cases>
  void expect_round_trips(const Cases& cases) const {
    for (const auto& each : cases) {
      SCOPED_TRACE(each.file);
      Bytes bytes = encode(each.block);
      EXPECT_EQ(bytes.size() % 8, 0U);
      const size_t nbytes = bytes.size();
      bytes.resize(nbytes + 100);  // room for the descriptor behind the block
      size_t used = 0;
      Result<Block> back = decode(bytes, &used);
      ASSERT_TRUE(back.is_ok());
      EXPECT_EQ(used, nbytes);
      expect_same(each.block, back.value());
    }
  }

  // Expects that the committed files of a topic are the encoded blocks, and decode to the blocks.
  template <typename Cases>
  void expect_committed(const std::string& topic, const Cases& cases) const {
    const test::GoldenFiles golden(topic);
    golden.expect_committed(cases, [&](const auto& each) { return encode(each.block); });
    for (const auto& each : cases) {
      SCOPED_TRACE(each.file);
      size_t used = 0;
      Result<Block> back = decode(golden.read(each.file), &used);
      ASSERT_TRUE(back.is_ok());
      expect_same(each.block, back.value());
    }
  }
};

}  // namespace tenon::channel

// The packets of shared weights: the bytes of docs/format/shared_weights.md, which golden files
// hold, and the refusal of every other byte.
#include "modules/shared_weights/packets.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "support/golden_files.h"

namespace tenon::shared_weights {
namespace {

using Bytes = std::vector<std::byte>;

Bytes golden_packet(const std::string& name) {
  return test::GoldenFiles("shared_weights").read(name);
}

FileIdentity some_file() { return {1000, 1'700'000'000'123'456'789, 0xdeadbeef}; }

Facts some_facts() {
  Facts facts;
  facts.file = some_file();
  facts.segment_nbytes = 1040;
  facts.file_offset = 40;
  facts.loader_pid = 4711;
  facts.holders = 3;
  facts.label = "model";
  return facts;
}

void expect_refused(const Bytes& bytes, Code code, const char* field) {
  const Result<Packet> decoded = decode_packet(bytes);
  EXPECT_EQ(decoded.status().code(), code);
  if (field != nullptr) {
    EXPECT_EQ(decoded.status().detail("field"), field);
  }
}

TEST(SharedWeightsPackets, HaveTheBytesOfTheFormat) {
  Hello hello;
  hello.file = some_file();
  EXPECT_EQ(encode_packet(hello), golden_packet("hello"));
  Hello any;
  any.want = Want::kStatus;
  any.version = 1;
  EXPECT_EQ(encode_packet(any), golden_packet("hello_any"));
  Hello publishes;
  publishes.want = Want::kPublish;
  EXPECT_EQ(encode_packet(publishes), golden_packet("hello_publish"));
  EXPECT_EQ(encode_packet(Newest{3}), golden_packet("newest"));
  Facts later = some_facts();
  later.version = 3;
  EXPECT_EQ(encode_packet(PacketKind::kWeights, later), golden_packet("weights_later"));
  EXPECT_EQ(encode_packet(Progress{500, 1000}), golden_packet("progress"));
  EXPECT_EQ(encode_packet(PacketKind::kWeights, some_facts()), golden_packet("weights"));
  Facts loading = some_facts();
  loading.segment_nbytes = 0;
  loading.file_offset = 0;
  loading.holders = 1;
  EXPECT_EQ(encode_packet(PacketKind::kStatus, loading), golden_packet("status"));
  EXPECT_EQ(encode_packet(Refused{Refusal::kOtherFile, some_file(), "model"}),
            golden_packet("refused"));
}

TEST(SharedWeightsPackets, AreDecodedAsTheyWereEncoded) {
  Result<Packet> hello = decode_packet(golden_packet("hello"));
  ASSERT_TRUE(hello.is_ok());
  EXPECT_EQ(hello.value().kind, PacketKind::kHello);
  EXPECT_EQ(hello.value().hello.want, Want::kWeights);
  EXPECT_EQ(hello.value().hello.file, some_file());
  Result<Packet> any = decode_packet(golden_packet("hello_any"));
  ASSERT_TRUE(any.is_ok());
  EXPECT_FALSE(any.value().hello.file.has_value());
  EXPECT_EQ(any.value().hello.version, 1U);
  Result<Packet> weights = decode_packet(golden_packet("weights"));
  ASSERT_TRUE(weights.is_ok());
  const Facts& facts = weights.value().facts;
  EXPECT_EQ(facts.file, some_file());
  EXPECT_EQ(facts.segment_nbytes, 1040U);
  EXPECT_EQ(facts.file_offset, 40U);
  EXPECT_EQ(facts.loader_pid, 4711);
  EXPECT_EQ(facts.holders, 3U);
  EXPECT_EQ(facts.label, "model");
  Result<Packet> later = decode_packet(golden_packet("weights_later"));
  ASSERT_TRUE(later.is_ok());
  EXPECT_EQ(later.value().facts.version, 3U);
  Result<Packet> newest = decode_packet(golden_packet("newest"));
  ASSERT_TRUE(newest.is_ok());
  EXPECT_EQ(newest.value().newest.version, 3U);
  Result<Packet> publishes = decode_packet(golden_packet("hello_publish"));
  ASSERT_TRUE(publishes.is_ok());
  EXPECT_EQ(publishes.value().hello.want, Want::kPublish);
  Result<Packet> refused = decode_packet(golden_packet("refused"));
  ASSERT_TRUE(refused.is_ok());
  EXPECT_EQ(refused.value().refused.why, Refusal::kOtherFile);
}

TEST(SharedWeightsPackets, OfAnyOtherSizeAreRefused) {
  for (const char* const name : {"hello", "hello_any", "hello_publish", "progress", "weights",
                                 "weights_later", "status", "refused", "newest"}) {
    const Bytes whole = golden_packet(name);
    for (size_t nbytes = 0; nbytes < whole.size(); ++nbytes)
      expect_refused(Bytes(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(nbytes)),
                     Code::kCorrupt, "size");
    Bytes longer = whole;
    longer.push_back(std::byte{0});
    expect_refused(longer, Code::kCorrupt, "size");
  }
}

// A changed byte gives a refusal or a packet that encodes to the changed bytes, so no byte is
// ignored.
TEST(SharedWeightsPackets, HaveNoByteThatDoesNotCount) {
  for (const char* const name :
       {"hello", "progress", "weights", "weights_later", "refused", "newest"}) {
    const Bytes whole = golden_packet(name);
    for (size_t at = 0; at < whole.size(); ++at) {
      for (const auto bit : {std::byte{0x01}, std::byte{0x80}}) {
        Bytes changed = whole;
        changed[at] ^= bit;
        Result<Packet> decoded = decode_packet(changed);
        if (!decoded.is_ok()) continue;
        const Packet& packet = decoded.value();
        Bytes again;
        switch (packet.kind) {
          case PacketKind::kHello: again = encode_packet(packet.hello); break;
          case PacketKind::kProgress: again = encode_packet(packet.progress); break;
          case PacketKind::kRefused: again = encode_packet(packet.refused); break;
          case PacketKind::kNewest: again = encode_packet(packet.newest); break;
          default: again = encode_packet(packet.kind, packet.facts); break;
        }
        EXPECT_EQ(again, changed) << name << " byte " << at;
      }
    }
  }
}

TEST(SharedWeightsPackets, OfALaterFormatAreIncompatible) {
  Bytes later = golden_packet("progress");
  later[4] = std::byte{2};
  expect_refused(later, Code::kIncompatible, nullptr);
  Bytes flagged = golden_packet("progress");
  flagged[12] = std::byte{1};
  expect_refused(flagged, Code::kIncompatible, "flags");
}

TEST(SharedWeightsPackets, SayWhatTheMemoryIsByAFlag) {
  const std::array kinds{std::pair{MemoryKind::kFrozen, 0}, std::pair{MemoryKind::kLenderWrites, 2},
                         std::pair{MemoryKind::kFile, 4}, std::pair{MemoryKind::kDevice, 8}};
  for (const PacketKind packet : {PacketKind::kWeights, PacketKind::kStatus}) {
    for (const auto& [memory, flag] : kinds) {
      Facts facts = some_facts();
      facts.memory = memory;
      const Bytes bytes = encode_packet(packet, facts);
      EXPECT_EQ(std::to_integer<int>(bytes[12]), flag);
      Result<Packet> decoded = decode_packet(bytes);
      ASSERT_TRUE(decoded.is_ok());
      EXPECT_EQ(decoded.value().facts.memory, memory);
    }
  }
  Bytes two = encode_packet(PacketKind::kWeights, some_facts());
  two[12] = std::byte{6};
  expect_refused(two, Code::kCorrupt, "flags");
}

TEST(SharedWeightsPackets, WhoseFileLeavesTheSegmentAreRefused) {
  Facts facts = some_facts();
  facts.memory = MemoryKind::kFile;
  facts.segment_nbytes = 1039;
  expect_refused(encode_packet(PacketKind::kWeights, facts), Code::kCorrupt, "segment_nbytes");
  // The file of shards in frozen memory has the bytes that the memory has.
  facts.memory = MemoryKind::kFrozen;
  Result<Packet> shards = decode_packet(encode_packet(PacketKind::kWeights, facts));
  ASSERT_TRUE(shards.is_ok());
  EXPECT_EQ(shards.value().facts.file_nbytes(), 999U);
  facts.file_offset = 1039;
  expect_refused(encode_packet(PacketKind::kWeights, facts), Code::kCorrupt, "segment_nbytes");
  facts.file_offset = UINT64_MAX - 500;  // the sum would wrap
  expect_refused(encode_packet(PacketKind::kWeights, facts), Code::kCorrupt, "segment_nbytes");
  facts = some_facts();
  facts.segment_nbytes = 0;
  expect_refused(encode_packet(PacketKind::kWeights, facts), Code::kCorrupt, "segment_nbytes");
}

TEST(SharedWeightsPackets, GetAShortLabelInPlaceOfALongOne) {
  Facts facts = some_facts();
  facts.label = std::string(300, 'a');
  Result<Packet> decoded = decode_packet(encode_packet(PacketKind::kWeights, facts));
  ASSERT_TRUE(decoded.is_ok());
  EXPECT_LE(decoded.value().facts.label.size(), kMaxLabelNbytes);
}

}  // namespace
}  // namespace tenon::shared_weights

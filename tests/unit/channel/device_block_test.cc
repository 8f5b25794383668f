// These tests check the device block. A block that was written is read back unchanged, every wrong
// field is refused, and the committed bytes of tests/peers/golden/devices stay the same.
#include "channel/device_block.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "unit/channel/block_kit.h"

namespace tenon::channel {
namespace {

constexpr size_t kDeviceBlockHeader = 16;
constexpr size_t kDevice = 88;
constexpr size_t kSegment = 144;

cuda::Uuid uuid(uint8_t first) {
  cuda::Uuid made{};
  for (size_t i = 0; i < made.size(); ++i) made[i] = static_cast<std::byte>(first + i);
  return made;
}

DeviceRecord with_event(uint8_t first) {
  DeviceRecord device{uuid(first), true, {}};
  for (size_t i = 0; i < device.event.size(); ++i)
    device.event[i] = static_cast<std::byte>(first + 0x40 + i);
  return device;
}

Bytes handle(size_t nbytes, uint8_t first) {
  Bytes made(nbytes);
  for (size_t i = 0; i < nbytes; ++i) made[i] = static_cast<std::byte>(first + i);
  return made;
}

DeviceBlock small_device_block() {
  return {.devices = {{uuid(0x10), false, {}}}, .segments = {{0, 0, handle(64, 0x80)}}};
}

DeviceBlock full_device_block() {
  DeviceBlock block;
  block.devices = {with_event(0x20), {uuid(0x30), false, {}}, with_event(0x40)};
  block.segments = {
      {2, 0, handle(64, 0x01)}, {0, 253, handle(128, 0x02)}, {1, 1, handle(96, 0x03)}, {1, 0, {}}};
  return block;
}

DeviceBlock only_empty() {
  return {.devices = {{uuid(0x50), false, {}}}, .segments = {{0, 0, {}}}};
}
DeviceBlock no_segments() { return {.devices = {with_event(0x60)}, .segments = {}}; }

struct GoldenDeviceBlock {
  const char* file;
  DeviceBlock block;
};
std::vector<GoldenDeviceBlock> golden_device_blocks() {
  return {{"ipc.bin", small_device_block()},
          {"every_kind.bin", full_device_block()},
          {"only_empty.bin", only_empty()},
          {"no_segments.bin", no_segments()}};
}

size_t device_at(size_t i) { return kDeviceBlockHeader + i * kDevice; }
size_t segment_at(const DeviceBlock& block, size_t i) {
  return device_at(block.devices.size()) + i * kSegment;
}

void expect_taken(const Bytes& bytes, const std::string& what) {
  size_t used = 0;
  Result<DeviceBlock> result = decode_device_block(bytes, &used);
  ASSERT_TRUE(result.is_ok()) << what << ": " << result.status().message();
  EXPECT_EQ(encode_device_block(result.value()), bytes) << what;
}

void expect_same_devices(const DeviceBlock& a, const DeviceBlock& b) {
  ASSERT_EQ(a.devices.size(), b.devices.size());
  for (size_t i = 0; i < a.devices.size(); ++i) {
    EXPECT_EQ(a.devices[i].uuid, b.devices[i].uuid);
    EXPECT_EQ(a.devices[i].has_event, b.devices[i].has_event);
    EXPECT_EQ(a.devices[i].event, b.devices[i].event);
  }
  ASSERT_EQ(a.segments.size(), b.segments.size());
  for (size_t i = 0; i < a.segments.size(); ++i) {
    EXPECT_EQ(a.segments[i].device, b.segments[i].device);
    EXPECT_EQ(a.segments[i].n_fds, b.segments[i].n_fds);
    EXPECT_EQ(a.segments[i].handle, b.segments[i].handle);
  }
}

constexpr BlockCodec<DeviceBlock> kDevices{decode_device_block, encode_device_block,
                                           expect_same_devices, "devices"};

TEST(DeviceBlock, ComesBack) { kDevices.expect_round_trips(golden_device_blocks()); }

TEST(DeviceBlock, CountsItsFds) {
  EXPECT_EQ(full_device_block().n_fds(), 254U);
  EXPECT_EQ(small_device_block().n_fds(), 0U);
  EXPECT_EQ(no_segments().n_fds(), 0U);
}

// The bytes of an event that the block does not have are not written, because a reader would not
// return them.
TEST(DeviceBlock, AnEventThatIsNotThereIsNotWritten) {
  DeviceBlock block = small_device_block();
  block.devices[0].event = with_event(1).event;
  EXPECT_EQ(encode_device_block(block), encode_device_block(small_device_block()));
}

// The test compares with the offsets that docs/format/cuda.md gives, as plain numbers.
TEST(DeviceBlock, BytesLieWhereTheSpecificationSays) {
  const Bytes bytes = encode_device_block(full_device_block());
  const auto u32 = [&](size_t at) {
    uint32_t value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
  };
  ASSERT_EQ(bytes.size(), 16U + 3 * 88 + 4 * 144);
  EXPECT_EQ(u32(0), bytes.size());
  EXPECT_EQ(u32(4), 1U);
  EXPECT_EQ(u32(8), 3U);
  EXPECT_EQ(u32(12), 4U);
  EXPECT_EQ(bytes[16], std::byte{0x20});
  EXPECT_EQ(u32(16 + 16), 1U);
  EXPECT_EQ(bytes[16 + 24], std::byte{0x60});
  EXPECT_EQ(u32(16 + 88 + 16), 0U);
  const size_t second = 16 + 3 * 88 + 144;
  EXPECT_EQ(u32(second), 0U);
  EXPECT_EQ(u32(second + 4), 253U);
  EXPECT_EQ(u32(second + 8), 128U);
  EXPECT_EQ(bytes[second + 16], std::byte{0x02});
}

TEST(DeviceBlock, EveryWrongHeaderIsRefused) {
  const Bytes good = encode_device_block(full_device_block());
  kDevices.expect_every_cut_refused(good);
  const auto nbytes = static_cast<uint32_t>(good.size());
  kDevices.expect_refused(good, {{0, 0, "length 0"},
                                 {0, nbytes - 8, "length too short"},
                                 {0, nbytes + 8, "length too long"},
                                 {0, UINT32_MAX, "length without end"},
                                 {4, 0, "version 0", Code::kIncompatible},
                                 {4, 2, "version 2", Code::kIncompatible},
                                 {8, 0, "no devices"},
                                 {8, 2, "fewer devices"},
                                 {8, 4, "more devices"},
                                 {8, 1025, "more devices than any machine has"},
                                 {8, UINT32_MAX, "devices without end"},
                                 {12, 3, "fewer segments"},
                                 {12, 5, "more segments"},
                                 {12, UINT32_MAX, "segments without end"}});
}

// The product of count and size, cut to 32 bits, equals the length in the header. Only a decoder
// that computes in 64 bits notices.
TEST(DeviceBlock, CountsWhoseLengthWrapsAreRefused) {
  constexpr uint32_t kWraps = uint32_t{1} << 28;  // 2^28 times 144 is a multiple of 2^32
  const Bytes good = encode_device_block(no_segments());
  kDevices.expect_refused(good, {{12, kWraps, "segments that wrap"}});
}

TEST(DeviceBlock, AsManyDevicesAsThereMayBe) {
  DeviceBlock block;
  block.devices.resize(1024);
  expect_taken(encode_device_block(block), "1,024 devices");
  block.devices.resize(1025);
  kDevices.expect_refused(encode_device_block(block), Code::kCorrupt, "1,025 devices");
}

TEST(DeviceBlock, EveryWrongDeviceIsRefused) {
  const Bytes good = encode_device_block(full_device_block());
  for (size_t i = 0; i < full_device_block().devices.size(); ++i) {
    const size_t at = device_at(i);
    const std::string of = " of device " + std::to_string(i);
    kDevices.expect_refused(good, {{at + 16, 2, "has_event 2" + of},
                                   {at + 16, UINT32_MAX, "has_event without end" + of},
                                   {at + 20, 1, "reserved" + of},
                                   {at + 20, 0x80000000, "the last of reserved" + of}});
  }
  kDevices.expect_refused(good, {{device_at(0) + 16, 0, "an event that is said not to be there"}});
  for (size_t i = 0; i < 64; ++i) {
    kDevices.expect_refused(with<uint8_t>(good, device_at(1) + 24 + i, 1), Code::kCorrupt,
                            "byte " + std::to_string(i) + " of an event of none");
  }
}

TEST(DeviceBlock, EveryWrongSegmentIsRefused) {
  const DeviceBlock block = full_device_block();
  const Bytes good = encode_device_block(block);
  for (size_t i = 0; i < block.segments.size(); ++i) {
    const size_t at = segment_at(block, i);
    const std::string of = " of segment " + std::to_string(i);
    kDevices.expect_refused(good, {{at, 3, "device 3" + of},
                                   {at, UINT32_MAX, "a device without end" + of},
                                   {at + 4, 254, "254 fds" + of},
                                   {at + 4, UINT32_MAX, "fds without end" + of},
                                   {at + 8, 129, "a handle of 129 bytes" + of},
                                   {at + 8, UINT32_MAX, "a handle without end" + of},
                                   {at + 12, 1, "reserved" + of},
                                   {at + 12, 0x80000000, "the last of reserved" + of}});
    const size_t length = block.segments[i].handle.size();
    for (size_t byte = length; byte < 128; ++byte) {
      kDevices.expect_refused(with<uint8_t>(good, at + 16 + byte, 1), Code::kCorrupt,
                              "byte " + std::to_string(byte) + of);
    }
    if (length > 0)
      kDevices.expect_refused(good,
                              {{at + 8, static_cast<uint32_t>(length - 1), "one byte less" + of}});
  }
  kDevices.expect_refused(good, {{segment_at(block, 3) + 4, 1, "an fd of no handle"}});
}

// The decoder does not check uuids, events and handles. The driver judges their bytes.
TEST(DeviceBlock, UuidsEventsAndHandlesAreNotLookedAt) {
  const DeviceBlock block = full_device_block();
  const Bytes good = encode_device_block(block);
  for (size_t i = 0; i < 16; ++i)
    expect_taken(with<uint8_t>(good, device_at(1) + i, 0xff), "a uuid");
  for (size_t i = 0; i < 64; ++i)
    expect_taken(with<uint8_t>(good, device_at(0) + 24 + i, 0xff), "an event");
  for (size_t i = 0; i < 128; ++i)
    expect_taken(with<uint8_t>(good, segment_at(block, 1) + 16 + i, 0xff), "a handle");
}

TEST(DeviceBlock, GoldenFiles) { kDevices.expect_committed("devices", golden_device_blocks()); }

}  // namespace
}  // namespace tenon::channel

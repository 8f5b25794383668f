// These tests check the device block. A block that was written is read back unchanged, every wrong
// field is refused, and the committed bytes of tests/peers/golden/devices stay the same.
//
// TENON_REGENERATE_GOLDEN=1 writes the files again. The test then fails, so that the variable
// cannot be left on.
#include "channel/device_block.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
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

void expect_devices_refused(const Bytes& bytes, Code code, const std::string& what) {
  size_t used = 12345;
  Result<DeviceBlock> result = decode_device_block(bytes, &used);
  ASSERT_FALSE(result.is_ok()) << what;
  EXPECT_EQ(result.status().code(), code) << what << ": " << result.status().message();
  EXPECT_EQ(used, 12345U) << what;
  bool named = false;
  for (const Detail& detail : result.status().info()->details)
    named = named || (detail.key == "field" && detail.value == "devices");
  EXPECT_TRUE(named) << what;
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

TEST(DeviceBlock, ComesBack) {
  for (const GoldenDeviceBlock& each : golden_device_blocks()) {
    Bytes bytes = encode_device_block(each.block);
    EXPECT_EQ(bytes.size() % 8, 0U);
    const size_t nbytes = bytes.size();
    bytes.resize(nbytes + 100);  // room for the descriptor behind the block
    size_t used = 0;
    Result<DeviceBlock> back = decode_device_block(bytes, &used);
    ASSERT_TRUE(back.is_ok()) << each.file;
    EXPECT_EQ(used, nbytes);
    expect_same_devices(each.block, back.value());
  }
}

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
  for (size_t length = 0; length < good.size(); ++length) {
    const Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length));
    expect_devices_refused(cut, Code::kCorrupt, "cut to " + std::to_string(length));
  }
  const auto nbytes = static_cast<uint32_t>(good.size());
  expect_devices_refused(with<uint32_t>(good, 0, 0), Code::kCorrupt, "length 0");
  expect_devices_refused(with<uint32_t>(good, 0, nbytes - 8), Code::kCorrupt, "length too short");
  expect_devices_refused(with<uint32_t>(good, 0, nbytes + 8), Code::kCorrupt, "length too long");
  expect_devices_refused(with<uint32_t>(good, 0, UINT32_MAX), Code::kCorrupt, "length without end");
  expect_devices_refused(with<uint32_t>(good, 4, 0), Code::kIncompatible, "version 0");
  expect_devices_refused(with<uint32_t>(good, 4, 2), Code::kIncompatible, "version 2");
  expect_devices_refused(with<uint32_t>(good, 8, 0), Code::kCorrupt, "no devices");
  expect_devices_refused(with<uint32_t>(good, 8, 2), Code::kCorrupt, "fewer devices");
  expect_devices_refused(with<uint32_t>(good, 8, 4), Code::kCorrupt, "more devices");
  expect_devices_refused(with<uint32_t>(good, 8, 1025), Code::kCorrupt,
                         "more devices than any machine has");
  expect_devices_refused(with<uint32_t>(good, 8, UINT32_MAX), Code::kCorrupt,
                         "devices without end");
  expect_devices_refused(with<uint32_t>(good, 12, 3), Code::kCorrupt, "fewer segments");
  expect_devices_refused(with<uint32_t>(good, 12, 5), Code::kCorrupt, "more segments");
  expect_devices_refused(with<uint32_t>(good, 12, UINT32_MAX), Code::kCorrupt,
                         "segments without end");
}

// The product of count and size, cut to 32 bits, equals the length in the header. Only a decoder
// that computes in 64 bits notices.
TEST(DeviceBlock, CountsWhoseLengthWrapsAreRefused) {
  constexpr uint32_t kWraps = uint32_t{1} << 28;  // 2^28 times 144 is a multiple of 2^32
  const Bytes good = encode_device_block(no_segments());
  expect_devices_refused(with<uint32_t>(good, 12, kWraps), Code::kCorrupt, "segments that wrap");
}

TEST(DeviceBlock, AsManyDevicesAsThereMayBe) {
  DeviceBlock block;
  block.devices.resize(1024);
  expect_taken(encode_device_block(block), "1,024 devices");
  block.devices.resize(1025);
  expect_devices_refused(encode_device_block(block), Code::kCorrupt, "1,025 devices");
}

TEST(DeviceBlock, EveryWrongDeviceIsRefused) {
  const Bytes good = encode_device_block(full_device_block());
  for (size_t i = 0; i < full_device_block().devices.size(); ++i) {
    const size_t at = device_at(i);
    const std::string of = " of device " + std::to_string(i);
    expect_devices_refused(with<uint32_t>(good, at + 16, 2), Code::kCorrupt, "has_event 2" + of);
    expect_devices_refused(with<uint32_t>(good, at + 16, UINT32_MAX), Code::kCorrupt,
                           "has_event without end" + of);
    expect_devices_refused(with<uint32_t>(good, at + 20, 1), Code::kCorrupt, "reserved" + of);
    expect_devices_refused(with<uint8_t>(good, at + 23, 0x80), Code::kCorrupt,
                           "the last of reserved" + of);
  }
  expect_devices_refused(with<uint32_t>(good, device_at(0) + 16, 0), Code::kCorrupt,
                         "an event that is said not to be there");
  for (size_t i = 0; i < 64; ++i) {
    expect_devices_refused(with<uint8_t>(good, device_at(1) + 24 + i, 1), Code::kCorrupt,
                           "byte " + std::to_string(i) + " of an event of none");
  }
}

TEST(DeviceBlock, EveryWrongSegmentIsRefused) {
  const DeviceBlock block = full_device_block();
  const Bytes good = encode_device_block(block);
  for (size_t i = 0; i < block.segments.size(); ++i) {
    const size_t at = segment_at(block, i);
    const std::string of = " of segment " + std::to_string(i);
    expect_devices_refused(with<uint32_t>(good, at, 3), Code::kCorrupt, "device 3" + of);
    expect_devices_refused(with<uint32_t>(good, at, UINT32_MAX), Code::kCorrupt,
                           "a device without end" + of);
    expect_devices_refused(with<uint32_t>(good, at + 4, 254), Code::kCorrupt, "254 fds" + of);
    expect_devices_refused(with<uint32_t>(good, at + 4, UINT32_MAX), Code::kCorrupt,
                           "fds without end" + of);
    expect_devices_refused(with<uint32_t>(good, at + 8, 129), Code::kCorrupt,
                           "a handle of 129 bytes" + of);
    expect_devices_refused(with<uint32_t>(good, at + 8, UINT32_MAX), Code::kCorrupt,
                           "a handle without end" + of);
    expect_devices_refused(with<uint32_t>(good, at + 12, 1), Code::kCorrupt, "reserved" + of);
    expect_devices_refused(with<uint8_t>(good, at + 15, 0x80), Code::kCorrupt,
                           "the last of reserved" + of);
    const size_t length = block.segments[i].handle.size();
    for (size_t byte = length; byte < 128; ++byte) {
      expect_devices_refused(with<uint8_t>(good, at + 16 + byte, 1), Code::kCorrupt,
                             "byte " + std::to_string(byte) + of);
    }
    if (length > 0)
      expect_devices_refused(with<uint32_t>(good, at + 8, static_cast<uint32_t>(length - 1)),
                             Code::kCorrupt, "one byte less" + of);
  }
  expect_devices_refused(with<uint32_t>(good, segment_at(block, 3) + 4, 1), Code::kCorrupt,
                         "an fd of no handle");
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

TEST(DeviceBlock, GoldenFiles) {
  const char* const source = std::getenv("TENON_SOURCE_DIR");
  if (source == nullptr) GTEST_SKIP() << "skipped: TENON_SOURCE_DIR is not set";
  const std::filesystem::path folder = std::filesystem::path(source) / "tests/peers/golden/devices";
  const bool regenerate = std::getenv("TENON_REGENERATE_GOLDEN") != nullptr;
  std::set<std::string> known;
  for (const GoldenDeviceBlock& each : golden_device_blocks()) {
    known.insert(each.file);
    const Bytes bytes = encode_device_block(each.block);
    if (regenerate) {
      std::ofstream out(folder / each.file, std::ios::binary);
      out.write(reinterpret_cast<const char*>(bytes.data()),
                static_cast<std::streamsize>(bytes.size()));
      continue;
    }
    std::ifstream in(folder / each.file, std::ios::binary);
    ASSERT_TRUE(in) << each.file;
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    Bytes read(text.size());
    std::memcpy(read.data(), text.data(), text.size());
    EXPECT_EQ(read, bytes) << each.file;
    size_t used = 0;
    Result<DeviceBlock> back = decode_device_block(read, &used);
    ASSERT_TRUE(back.is_ok()) << each.file;
    expect_same_devices(each.block, back.value());
  }
  EXPECT_FALSE(regenerate) << "the golden files were written anew";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    EXPECT_TRUE(known.contains(entry.path().filename())) << entry.path() << " is nobody's";
  }
}

}  // namespace
}  // namespace tenon::channel

// libFuzzer target: it decodes any bytes as a device block. This must end in an error, or in a
// sound block that encodes to the same bytes.
#include <cstdint>
#include <cstring>
#include <vector>

#include "channel/device_block.h"
#include "peers/fuzz/require.h"

namespace {

using namespace tenon;
using fuzz::require;
using namespace tenon::channel;

void require_sound(const DeviceBlock& block) {
  const size_t n_devices = block.devices.size();
  require(n_devices >= 1 && n_devices <= 1024, "a number of devices that is none");
  for (const DeviceSegmentRecord& segment : block.segments) {
    require(segment.device < n_devices, "a segment of no device");
    require(segment.handle.size() <= 128, "a handle that has no room");
    require(segment.n_fds <= (segment.handle.empty() ? 0 : 253), "more fds than a handle has");
  }
  require(block.n_fds() <= 253 * block.segments.size(), "more fds than the segments have");
}

void check(const std::vector<std::byte>& bytes) {
  fuzz::check_block(bytes, 16, decode_device_block, encode_device_block, require_sound);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(begin, begin + size);
  check(bytes);
  // A fuzzer seldom guesses the length, so the same bytes are tried with one that fits the counts.
  if (size >= 16) {
    uint32_t n_devices = 0;
    uint32_t n_segments = 0;
    std::memcpy(&n_devices, bytes.data() + 8, sizeof n_devices);
    std::memcpy(&n_segments, bytes.data() + 12, sizeof n_segments);
    const uint32_t version = 1;
    const auto nbytes =
        static_cast<uint32_t>(16 + uint64_t{n_devices} * 88 + uint64_t{n_segments} * 144);
    std::memcpy(bytes.data(), &nbytes, sizeof nbytes);
    std::memcpy(bytes.data() + 4, &version, sizeof version);
    check(bytes);
  }
  return 0;
}

// libFuzzer target: it decodes any bytes as a device block. This must end in an error, or in a
// sound block that encodes to the same bytes.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "channel/device_block.h"

namespace {

using namespace tenon;
using namespace tenon::channel;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "device_block_fuzz: %s\n", what);
  std::abort();
}

void check(const std::vector<std::byte>& bytes) {
  size_t used = 0;
  Result<DeviceBlock> block = decode_device_block(bytes, &used);
  if (!block.is_ok()) {
    const Code code = block.status().code();
    require(code == Code::kCorrupt || code == Code::kIncompatible,
            "refused with an unexpected code");
    require(!block.status().message().empty(), "refused without a message");
    return;
  }
  require(used >= 16 && used % 8 == 0 && used <= bytes.size(), "a length that is none");
  const size_t n_devices = block.value().devices.size();
  require(n_devices >= 1 && n_devices <= 1024, "a number of devices that is none");
  for (const DeviceSegmentRecord& segment : block.value().segments) {
    require(segment.device < n_devices, "a segment of no device");
    require(segment.handle.size() <= 128, "a handle that has no room");
    require(segment.n_fds <= (segment.handle.empty() ? 0 : 253), "more fds than a handle has");
  }
  require(block.value().n_fds() <= 253 * block.value().segments.size(),
          "more fds than the segments have");
  const std::vector<std::byte> again = encode_device_block(block.value());
  require(again.size() == used && std::equal(again.begin(), again.end(), bytes.begin()),
          "encoded it gives other bytes");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

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

// libFuzzer target: it decodes any bytes as a descriptor. This must end in an error, or in a sound
// content that survives encoding and decoding.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "unit/tensor/descriptor_support.h"

namespace {

using namespace tenon;
using namespace tenon::tensor;

constexpr uint64_t kFds = 4;
constexpr uint64_t kDevices = 3;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "descriptor_fuzz: %s\n", what);
  std::abort();
}

void decode_and_check(const test::Bytes& bytes, uint64_t n_devices) {
  Result<DescriptorContent> first = decode_descriptor(bytes, kFds, {}, n_devices);
  if (!first.is_ok()) {
    const Code code = first.status().code();
    require(
        code == Code::kCorrupt || code == Code::kIncompatible || code == Code::kResourceExhausted,
        "refused with an unexpected code");
    require(!first.status().message().empty(), "refused without a message");
    return;
  }
  require(test::unsound(first.value(), kFds, n_devices).empty(), "unsound content passed");
  const test::Bytes again = encode_descriptor(first.value());
  Result<DescriptorContent> second = decode_descriptor(again, kFds, {}, n_devices);
  require(second.is_ok(), "what was decoded and encoded is refused");
  require(encode_descriptor(second.value()) == again, "a second round gives other bytes");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  test::Bytes bytes(begin, begin + size);
  decode_and_check(bytes, 0);
  decode_and_check(bytes, kDevices);
  // No fuzzer guesses a checksum. So the same bytes are tried with a right one, to reach the checks
  // after it.
  if (size >= wire::kHeaderNbytes10) {
    test::fix_sum(&bytes);
    decode_and_check(bytes, 0);
    decode_and_check(bytes, kDevices);
  }
  return 0;
}

// libFuzzer target: it decodes any bytes as a descriptor. This must end in an error, or in a sound
// content that survives encoding and decoding.
#include <cstdint>

#include "peers/fuzz/require.h"
#include "unit/tensor/descriptor_support.h"

namespace {

using namespace tenon;
using fuzz::require;
using namespace tenon::tensor;

constexpr uint64_t kFds = 4;
constexpr uint64_t kDevices = 3;

void decode_and_check(const test::Bytes& bytes, uint64_t n_devices) {
  Result<DescriptorContent> first = decode_descriptor(bytes, kFds, {}, n_devices);
  if (!first.is_ok())
    return fuzz::require_refusal(first.status(),
                                 {Code::kCorrupt, Code::kIncompatible, Code::kResourceExhausted});
  require(test::unsound(first.value(), kFds, n_devices).empty(), "unsound content passed");
  const test::Bytes again = encode_descriptor(first.value());
  Result<DescriptorContent> second = decode_descriptor(again, kFds, {}, n_devices);
  require(second.is_ok(), "what was decoded and encoded is refused");
  require(encode_descriptor(second.value()) == again, "a second round gives other bytes");
}

}  // namespace

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

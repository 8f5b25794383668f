// libFuzzer target: it decodes any bytes as a lease block. This must end in an error, or in a sound
// block that encodes to the same bytes.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "channel/lease_block.h"

namespace {

using namespace tenon;
using namespace tenon::channel;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "lease_block_fuzz: %s\n", what);
  std::abort();
}

void check(const std::vector<std::byte>& bytes) {
  size_t used = 0;
  Result<LeaseBlock> block = decode_lease_block(bytes, &used);
  if (!block.is_ok()) {
    const Code code = block.status().code();
    require(code == Code::kCorrupt || code == Code::kIncompatible,
            "refused with an unexpected code");
    require(!block.status().message().empty(), "refused without a message");
    return;
  }
  require(used >= 24 && used % 8 == 0 && used <= bytes.size(), "a length that is none");
  require(block.value().account != 0, "no account");
  require(block.value().n_fds() <= block.value().tokens.size() + 2,
          "more fds than one account and its tokens have");
  const std::vector<std::byte> again = encode_lease_block(block.value());
  require(again.size() == used && std::equal(again.begin(), again.end(), bytes.begin()),
          "encoded it gives other bytes");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(begin, begin + size);
  check(bytes);
  // A fuzzer seldom guesses the length. So the same bytes are tried with one that fits the counts,
  // and again with one that makes the rest padding.
  if (size >= 24) {
    uint32_t n_tokens = 0;
    uint32_t n_leases = 0;
    std::memcpy(&n_tokens, bytes.data() + 16, sizeof n_tokens);
    std::memcpy(&n_leases, bytes.data() + 20, sizeof n_leases);
    const uint32_t version = 1;
    const auto nbytes =
        static_cast<uint32_t>((24 + uint64_t{n_tokens} * 16 + uint64_t{n_leases} * 4 + 7) / 8 * 8);
    std::memcpy(bytes.data(), &nbytes, sizeof nbytes);
    std::memcpy(bytes.data() + 4, &version, sizeof version);
    check(bytes);
  }
  return 0;
}

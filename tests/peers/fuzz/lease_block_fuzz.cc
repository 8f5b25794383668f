// libFuzzer target: it decodes any bytes as a lease block. This must end in an error, or in a sound
// block that encodes to the same bytes.
#include <cstdint>
#include <cstring>
#include <vector>

#include "channel/lease_block.h"
#include "peers/fuzz/require.h"

namespace {

using namespace tenon;
using fuzz::require;
using namespace tenon::channel;

void require_sound(const LeaseBlock& block) {
  require(block.account != 0, "no account");
  require(block.n_fds() <= block.tokens.size() + 2,
          "more fds than one account and its tokens have");
}

void check(const std::vector<std::byte>& bytes) {
  fuzz::check_block(bytes, 24, decode_lease_block, encode_lease_block, require_sound);
}

}  // namespace

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

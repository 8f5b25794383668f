// Every fuzz target needs this: a condition that ends the process, and the declaration of the
// function that libFuzzer calls.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/status.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace tenon::fuzz {

// Ends the process unless the condition holds. The fuzzer then keeps the input.
inline void require(bool holds, const char* what, const std::string& more = "") {
  if (holds) return;
  std::fprintf(stderr, "fuzz target: %s: %s\n", what, more.c_str());
  std::abort();
}

// Requires that a failure has a message, one of the codes that wrong bytes can cause, and these
// details.
inline void require_refusal(const Status& status, std::initializer_list<Code> codes,
                            std::initializer_list<const char*> details = {}) {
  require(std::count(codes.begin(), codes.end(), status.code()) == 1,
          "refused with an unexpected code", status.message());
  require(!status.message().empty(), "refused without a message");
  for (const char* const key : details) {
    const auto& all = status.info()->details;
    require(
        std::any_of(all.begin(), all.end(), [&](const Detail& each) { return each.key == key; }),
        "refused without a detail", key + (": " + status.message()));
  }
}

// Decodes any bytes as a block, which ends in an error, or in a sound block that encodes to the
// same bytes. `require_sound` checks what the block says.
template <typename Decode, typename Encode, typename RequireSound>
void check_block(const std::vector<std::byte>& bytes, size_t least_nbytes, Decode decode,
                 Encode encode, RequireSound require_sound) {
  size_t used = 0;
  auto block = decode(bytes, &used);
  if (!block.is_ok()) return require_refusal(block.status(), {Code::kCorrupt, Code::kIncompatible});
  require(used >= least_nbytes && used % 8 == 0 && used <= bytes.size(), "a length that is none");
  require_sound(block.value());
  const std::vector<std::byte> again = encode(block.value());
  require(again.size() == used && std::equal(again.begin(), again.end(), bytes.begin()),
          "encoded it gives other bytes");
}

}  // namespace tenon::fuzz

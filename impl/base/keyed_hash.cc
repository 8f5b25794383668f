#include "base/keyed_hash.h"

#include <sys/auxv.h>

#include <bit>
#include <cstring>

#include "base/immortal.h"

namespace tenon {
namespace {

struct HashKey {
  uint64_t low = 0;
  uint64_t high = 0;
};

// SipHash with one round for each word and three rounds at the end.
class SipHash {
 public:
  explicit SipHash(const HashKey& key) noexcept
      : v0_(key.low ^ 0x736f6d6570736575U),
        v1_(key.high ^ 0x646f72616e646f6dU),
        v2_(key.low ^ 0x6c7967656e657261U),
        v3_(key.high ^ 0x7465646279746573U) {}

  void add(uint64_t word) noexcept {
    v3_ ^= word;
    mix_round();
    v0_ ^= word;
  }

  uint64_t finish() noexcept {
    v2_ ^= 0xff;
    for (int i = 0; i < 3; ++i) mix_round();
    return v0_ ^ v1_ ^ v2_ ^ v3_;
  }

 private:
  void mix_round() noexcept {
    v0_ += v1_;
    v1_ = std::rotl(v1_, 13) ^ v0_;
    v0_ = std::rotl(v0_, 32);
    v2_ += v3_;
    v3_ = std::rotl(v3_, 16) ^ v2_;
    v0_ += v3_;
    v3_ = std::rotl(v3_, 21) ^ v0_;
    v2_ += v1_;
    v1_ = std::rotl(v1_, 17) ^ v2_;
    v2_ = std::rotl(v2_, 32);
  }

  uint64_t v0_;
  uint64_t v1_;
  uint64_t v2_;
  uint64_t v3_;
};

// Makes the key from the 16 random bytes that the kernel gives every program when it starts
// (AT_RANDOM). This needs no system call and cannot fail. The C library makes its own secrets from
// these bytes, so they are hashed and not used directly.
HashKey draw_key() noexcept {
  HashKey seed;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel tells the address as a number
  const void* const random = reinterpret_cast<const void*>(getauxval(AT_RANDOM));
  // Without these bytes, the addresses of libraries and stacks are the only secret of this process.
  seed.low = reinterpret_cast<uintptr_t>(&seed);
  seed.high = reinterpret_cast<uintptr_t>(&draw_key);
  if (random != nullptr) std::memcpy(&seed, random, sizeof seed);
  const auto half = [&seed](uint64_t which) {
    SipHash hash(seed);
    hash.add(which);
    return hash.finish();
  };
  return {half(1), half(2)};
}

struct ProcessKey {
  HashKey key = draw_key();
};
const HashKey& hash_key() noexcept { return immortal<ProcessKey>().key; }

}  // namespace

uint64_t keyed_hash(std::string_view text) noexcept {
  SipHash hash(hash_key());
  const uint64_t length = text.size();
  uint64_t word = 0;
  while (text.size() >= sizeof word) {
    std::memcpy(&word, text.data(), sizeof word);
    hash.add(word);
    text.remove_prefix(sizeof word);
  }
  word = 0;
  if (!text.empty()) std::memcpy(&word, text.data(), text.size());
  hash.add(word);
  hash.add(~length);  // no text has the hash of words
  return hash.finish();
}

uint64_t keyed_hash(std::initializer_list<uint64_t> words) noexcept {
  SipHash hash(hash_key());
  for (const uint64_t word : words) hash.add(word);
  hash.add(words.size());
  return hash.finish();
}

}  // namespace tenon

// The bytes of every block in the storm. Three numbers that travel beside a block determine them,
// so each reader knows what the block must hold, and a wrong word tells whose it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace storm {

inline uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15); }
  uint64_t below(uint64_t end) { return next() % end; }
  bool chance(uint64_t percent) { return below(100) < percent; }
  // A random number of 1 to `most`, which is at least 2. Every order of magnitude is equally
  // likely.
  uint64_t up_to(uint64_t most) {
    uint64_t bits = 0;
    while (most >> bits > 1) ++bits;
    return 1 + below(uint64_t{1} << (1 + below(bits))) % most;
  }

 private:
  uint64_t state_;
};

struct Stamp {
  uint64_t seed = 0;        // of the process that filled the block
  uint64_t generation = 0;  // the number of the block in that process
  uint64_t nbytes = 0;
};

// Words 0 to 2 are the stamp itself, as far as there is room. Each other word depends on the whole
// stamp and on its position.
inline uint64_t word_at(const Stamp& stamp, uint64_t key, uint64_t i) {
  if (i == 0) return stamp.seed;
  if (i == 1) return stamp.generation;
  if (i == 2) return stamp.nbytes;
  return key + i * 0xd1342543de82ef95;
}

inline uint64_t key_of(const Stamp& stamp) {
  return mix(stamp.seed ^ mix(stamp.generation ^ mix(stamp.nbytes)));
}

inline void fill(void* data, const Stamp& stamp) {
  const uint64_t key = key_of(stamp);
  auto* const bytes = static_cast<unsigned char*>(data);
  for (uint64_t at = 0; at < stamp.nbytes; at += 8) {
    const uint64_t word = word_at(stamp, key, at / 8);
    std::memcpy(bytes + at, &word, stamp.nbytes - at < 8 ? stamp.nbytes - at : 8);
  }
}

inline constexpr uint64_t kAllRight = UINT64_MAX;

// Returns the offset of the first wrong word, or kAllRight.
inline uint64_t find_wrong(const void* data, const Stamp& stamp) {
  const uint64_t key = key_of(stamp);
  const auto* const bytes = static_cast<const unsigned char*>(data);
  for (uint64_t at = 0; at < stamp.nbytes; at += 8) {
    const uint64_t word = word_at(stamp, key, at / 8);
    if (std::memcmp(bytes + at, &word, stamp.nbytes - at < 8 ? stamp.nbytes - at : 8) != 0)
      return at;
  }
  return kAllRight;
}

}  // namespace storm

// The seed of a test that makes random choices. Each such test calls test_seed() once.
#pragma once

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

// Returns a new seed, or the one in TENON_TEST_SEED. The output names the seed, so that a failure
// can be repeated: CTest shows the output of a test that fails.
inline uint64_t test_seed() {
  const char* const given = std::getenv("TENON_TEST_SEED");
  uint64_t seed = std::random_device()();
  if (given != nullptr) seed = std::strtoull(given, nullptr, 0);
  // Not stdout: the caller may be a child that is killed before it flushes its buffer.
  std::fprintf(stderr, "TENON_TEST_SEED=%" PRIu64 "\n", seed);
  return seed;
}

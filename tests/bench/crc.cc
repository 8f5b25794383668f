// CRC-32 of archives, 1 GiB and 256 KiB, against reading the same bytes and against libdeflate's.
//
// A chunk of an export has 256 KiB and fits into the cache.

#include <libdeflate.h>

#include "bench/bench.h"
#include "modules/archive/crc32.h"

namespace {

// Reads eight bytes at a time into four sums, so that no load waits for another.
uint64_t read_all(const std::vector<uint64_t>& words) {
  uint64_t sums[4] = {};
  for (size_t i = 0; i + 4 <= words.size(); i += 4) {
    for (size_t k = 0; k < 4; ++k) sums[k] += words[i + k];
  }
  return sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
}

void run(uint64_t nbytes, uint64_t total_nbytes, size_t rounds) {
  std::vector<uint64_t> words(nbytes / sizeof(uint64_t));
  uint64_t word = 1;
  for (uint64_t& each : words) each = word = word * 6364136223846793005U + 1442695040888963407U;
  const uint64_t repeats = total_nbytes / nbytes;
  volatile uint64_t kept = 0;  // keeps the calls; the values do not matter
  const auto crc = [&] {
    for (uint64_t i = 0; i < repeats; ++i) kept = tenon::archive::crc32(0, words.data(), nbytes);
  };
  const auto read = [&] {
    for (uint64_t i = 0; i < repeats; ++i) kept = read_all(words);
  };
  const auto libdeflate = [&] {
    for (uint64_t i = 0; i < repeats; ++i) kept = libdeflate_crc32(0, words.data(), nbytes);
  };
  BENCH_CHECK(tenon::archive::crc32(0, words.data(), nbytes) ==
              libdeflate_crc32(0, words.data(), nbytes));
  const std::string what = "CRC-32 of " + bench::size_text(nbytes) +
                           (repeats > 1 ? ", " + std::to_string(repeats) + " times" : "");
  const auto measure = [&](const char* against, const bench::Goal& goal, const auto& theirs) {
    bench::Row row{what, "GB/s", against, goal, {}, {}};
    bench::interleave(&row, rounds, 1, crc, theirs);
    for (std::vector<double>* samples : {&row.ours, &row.theirs}) {
      for (double& sample : *samples) sample = static_cast<double>(repeats * nbytes) / sample;
    }
    bench::print(row);
  };
  measure("reading the bytes", {"ours/theirs", "at_least", 0.25}, read);
  measure("libdeflate", {}, libdeflate);
}

}  // namespace

int main(int argc, char** argv) {
  constexpr uint64_t kChunk = uint64_t{256} << 10;
  if (bench::wants_smoke(argc, argv)) {
    run(kChunk, kChunk, 1);
    return 0;
  }
  run(uint64_t{1} << 30, uint64_t{1} << 30, 9);
  run(kChunk, uint64_t{1} << 30, 9);
  return 0;
}

// The board of a storm: memory that all its processes write and the driver reads. Words that a dead
// process wrote stay readable.
#pragma once

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>

#include "support/storm/slot.h"

namespace storm {

inline constexpr uint32_t kMostPeers = 8;
inline constexpr uint32_t kMostCounts = 24;

// Makes an object in memory that this process shares with its children.
template <typename T>
T* make_shared_memory() {
  void* const memory =
      mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  return new (memory) T;
}

struct Board {
  std::array<Slot, kMostPeers> slots;
  std::atomic<uint64_t> wrong{0};
  std::atomic<uint32_t> text_state{0};  // 1: being written, 2: complete
  std::array<char, 700> text{};
  // These counts are sums over all processes, the dead included.
  std::atomic<uint64_t> checked{0};  // blocks whose bytes were right
  std::atomic<uint64_t> forks{0};
  std::atomic<uint64_t> killed_children{0};
  std::array<std::atomic<uint64_t>, kMostCounts> counts{};  // the world's own

  // Keeps the first complaint. The call may be the last that its process makes.
  void complain(const std::string& what) {
    const std::string line = "pid " + std::to_string(getpid()) + ": " + what;
    uint32_t nobody = 0;
    if (text_state.compare_exchange_strong(nobody, 1)) {
      std::strncpy(text.data(), line.c_str(), text.size() - 1);
      text_state = 2;
    } else {
      std::fprintf(stderr, "%s\n", line.c_str());
    }
  }
};

}  // namespace storm

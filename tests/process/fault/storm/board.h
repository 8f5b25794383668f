// The board of the storm of leases: memory that all its processes write and the driver reads. Words
// that a dead process wrote stay readable.
#pragma once

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <new>

#include "process/fault/storm/doom.h"

namespace storm {

inline constexpr uint32_t kPeers = 7;

enum class Op : uint32_t {
  kNothing,
  kMake,
  kSend,
  kReceive,
  kRelease,
  kRead,
  kFork,
  kConnect,
  kSettle,
  kHarm,
  kCount
};

inline const char* name_of_op(uint32_t op) {
  static constexpr std::array<const char*, static_cast<size_t>(Op::kCount)> kNames = {
      "between calls", "tenon_storage_new", "tenon_send", "tenon_recv", "release", "reading",
      "fork",          "connecting",        "settling",   "harming"};
  return op < kNames.size() ? kNames[op] : "?";
}

struct Board : Findings {
  std::array<Slot, kPeers> slots;
  // These counts are sums over all processes, the dead included.
  std::atomic<uint64_t> lent{0};
  std::atomic<uint64_t> received{0};
  std::atomic<uint64_t> forwarded{0};
  std::atomic<uint64_t> descriptors{0};
  std::atomic<uint64_t> checked{0};
  std::atomic<uint64_t> full{0};
  std::atomic<uint64_t> forks{0};
  std::atomic<uint64_t> killed_children{0};
  std::atomic<uint64_t> scribbles{0};

  static Board* create() {
    void* const memory =
        mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : new (memory) Board;
  }
};

}  // namespace storm

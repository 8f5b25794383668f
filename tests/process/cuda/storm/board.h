// The memory that all processes of the storm of device memory write and the driver of the storm
// reads. Words of dead writers stay there.
#pragma once

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <new>

#include "process/fault/storm/doom.h"

namespace storm::device {

inline constexpr uint32_t kPeers = 6;
inline constexpr uint32_t kMessages = 4096;  // of one peer in one round

enum class Op : uint32_t {
  kNothing,
  kStart,
  kWrap,
  kShare,
  kOpen,
  kUse,
  kRelease,
  kUnopened,
  kCollect,
  kFork,
  kSettle,
  kEnd,
  kCount
};

inline const char* name_of_op(uint32_t op) {
  static constexpr std::array<const char*, static_cast<size_t>(Op::kCount)> kNames = {
      "between calls",      "starting CUDA", "wrapping", "tenon_share_cuda",
      "tenon_open_cuda",    "using",         "release",  "giving it back unopened",
      "tenon_cuda_collect", "fork",          "settling", "ending"};
  return op < kNames.size() ? kNames[op] : "?";
}

struct Board : Findings {
  std::array<Slot, kPeers> slots;
  // The peers that ever had a message, by its sender and its number. A peer's bit is set before the
  // message is handed over to it.
  std::array<std::array<std::atomic<uint32_t>, kMessages>, kPeers> custody{};

  // Sums over all processes, including dead ones.
  std::atomic<uint64_t> wrapped{0};
  std::atomic<uint64_t> freed{0};
  std::atomic<uint64_t> shared{0};
  std::atomic<uint64_t> without_event{0};
  std::atomic<uint64_t> opened{0};
  std::atomic<uint64_t> opened_own{0};
  std::atomic<uint64_t> passed_on{0};
  std::atomic<uint64_t> unopened{0};
  std::atomic<uint64_t> sender_gone{0};
  std::atomic<uint64_t> unfinished{0};
  std::atomic<uint64_t> checked{0};
  std::atomic<uint64_t> files_ended{0};
  std::atomic<uint64_t> allocations{0};
  std::atomic<uint64_t> allocations_freed{0};
  std::atomic<uint64_t> forks{0};
  std::atomic<uint64_t> killed_children{0};
  std::atomic<uint64_t> kept{0};
  std::atomic<uint64_t> all_back{0};

  static Board* create() {
    void* const memory =
        mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : new (memory) Board;
  }
};

}  // namespace storm::device

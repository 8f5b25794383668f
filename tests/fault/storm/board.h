// What all processes of the storm write to and the driver reads, dead writers' words included: who does what since when, what was found
// wrong, and where the next one is to die.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <new>

namespace storm {

inline constexpr uint32_t kPeers = 7;

enum class Op : uint32_t { kNothing, kMake, kSend, kReceive, kRelease, kRead, kFork, kConnect, kSettle, kHarm, kCount };

inline const char* name_of(Op op) {
  static constexpr std::array<const char*, static_cast<size_t>(Op::kCount)> kNames = {
      "between calls", "tenon_storage_new", "tenon_send", "tenon_recv", "release", "reading", "fork", "connecting", "settling", "harming"};
  return op < Op::kCount ? kNames[static_cast<size_t>(op)] : "?";
}

// How the next call of a kind is to end: packed into one word, so that a peer takes it whole.
enum class Doom : uint32_t {
  kNone,
  kStop,  // stops itself as the call begins, for a tracer that waits for it
  kTimer  // a timer of its own kills it after so many nanoseconds
};

inline int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

struct Slot {
  std::atomic<int32_t> pid{0};
  std::atomic<uint32_t> op{0};
  std::atomic<int64_t> since_ns{0};
  std::atomic<uint64_t> doom{0};

  void set_doom(Doom how, Op where, uint32_t ns) {
    doom = uint64_t{ns} << 32 | static_cast<uint64_t>(where) << 8 | static_cast<uint64_t>(how);
  }
  Op what() const { return static_cast<Op>(op.load()); }
};

struct Board {
  std::array<Slot, kPeers> slots;
  // Of all processes, dead ones too.
  std::atomic<uint64_t> lent{0};
  std::atomic<uint64_t> received{0};
  std::atomic<uint64_t> forwarded{0};
  std::atomic<uint64_t> descriptors{0};
  std::atomic<uint64_t> checked{0};
  std::atomic<uint64_t> full{0};
  std::atomic<uint64_t> forks{0};
  std::atomic<uint64_t> killed_children{0};
  std::atomic<uint64_t> scribbles{0};

  std::atomic<uint64_t> wrong{0};
  std::atomic<uint32_t> text_state{0};  // 1: being written, 2: there
  std::array<char, 700> text{};

  // The first complaint stays; it may be the last thing that its process does.
  [[gnu::format(printf, 2, 3)]] void complain(const char* format, ...) {
    std::array<char, 700> line{};
    const int head = std::snprintf(line.data(), line.size(), "pid %d: ", static_cast<int>(getpid()));
    va_list values;
    va_start(values, format);
    std::vsnprintf(line.data() + head, line.size() - static_cast<size_t>(head), format, values);
    va_end(values);
    uint32_t nobody = 0;
    if (text_state.compare_exchange_strong(nobody, 1)) {
      text = line;
      text_state = 2;
    } else {
      std::fprintf(stderr, "%s\n", line.data());
    }
  }

  static Board* create() {
    void* const memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : new (memory) Board;
  }
};

}  // namespace storm

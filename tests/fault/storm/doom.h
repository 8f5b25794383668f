// Where a process of a storm is and where it is to die: it and the driver write here, and the
// driver reads what the dead wrote last.
#pragma once

#include <sys/types.h>

#include <unistd.h>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <ctime>

#include "fault/kit.h"
#include "fault/storm/timer.h"

namespace storm {

inline constexpr bool kSanitized = FAULT_ASAN || FAULT_TSAN;
inline constexpr int kFailed = 1;
inline constexpr int kWrongByte = 2;
// Until everything that a round left must be gone. A sanitizer makes everything some ten times
// slower.
inline constexpr int64_t kSoonNs = (kSanitized ? 8 : 1) * int64_t{1'000'000'000};
// The watchdog: for whatever a process must say. Only a hang takes that long.
inline constexpr int64_t kPatienceNs = (kSanitized ? 6 : 1) * int64_t{20'000'000'000};

inline int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// How the next call of a kind is to end: packed into one word, so that a peer takes it whole.
enum class Doom : uint32_t {
  kNone,
  kStop,  // stops itself as the call begins, for a tracer that waits for it
  kTimer  // a timer of its own kills it after so many nanoseconds
};

// Of one process. Each storm has its own kinds of calls; 0 is between them.
struct Slot {
  std::atomic<int32_t> pid{0};
  std::atomic<uint32_t> op{0};
  std::atomic<int64_t> since_ns{0};
  std::atomic<uint64_t> doom{0};

  void set_doom(Doom how, uint32_t where, uint32_t ns) {
    doom = uint64_t{ns} << 32 | static_cast<uint64_t>(where) << 8 | static_cast<uint64_t>(how);
  }
  // By the process itself, as a call of that kind begins.
  void enter(uint32_t what) {
    since_ns.store(now_ns(), std::memory_order_relaxed);
    op = what;
    uint64_t mine = doom.load();
    if (mine == 0 || (mine >> 8 & 0xff) != what || !doom.compare_exchange_strong(mine, 0)) return;
    if (static_cast<Doom>(mine & 0xff) == Doom::kStop) {
      raise(SIGSTOP);
    } else {
      kill_me_after(static_cast<int64_t>(mine >> 32));
    }
  }
  void leave() { op = 0; }
};

enum class Way : uint8_t {
  kWatcher,       // SIGKILL by the driver after so many microseconds
  kTimer,         // a timer of the victim's own, nanoseconds after a call began
  kSteps,         // single steps from where a call began
  kServiceSteps,  // single steps of the library's thread
  kCount
};

inline const char* name_of(Way way) {
  static constexpr const char* kNames[] = {"watcher", "timer in a call", "single steps in a call",
                                           "single steps of the library's thread"};
  return kNames[static_cast<size_t>(way)];
}

struct KillPlan {
  uint32_t victim = 0;
  Way way = Way::kWatcher;
  uint32_t delay_us = 0;  // before it is this one's turn
  uint32_t op = 0;        // kTimer, kSteps
  uint32_t timer_ns = 0;  // kTimer
  uint32_t calls = 0;     // kSteps, kServiceSteps: so many starts and ends of system calls
  uint32_t steps = 0;     // and then so many instructions
};

struct StopPlan {
  uint32_t who = 0;
  uint32_t delay_us = 0;
};

// What was found wrong. In memory that all processes share.
struct Findings {
  std::atomic<uint64_t> wrong{0};
  std::atomic<uint32_t> text_state{0};  // 1: being written, 2: there
  std::array<char, 700> text{};

  // The first complaint stays; it may be the last thing that its process does.
  [[gnu::format(printf, 2, 3)]] void complain(const char* format, ...) {
    std::array<char, 700> line{};
    const int head =
        std::snprintf(line.data(), line.size(), "pid %d: ", static_cast<int>(getpid()));
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
};

}  // namespace storm

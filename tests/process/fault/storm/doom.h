// The slot of a process in a storm: its current call, and the order by which it is to die. The
// process and the driver write there, and the driver reads the last words of a dead process.
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

#include "process/fault/kit.h"
#include "process/fault/storm/timer.h"

namespace storm {

inline constexpr bool kSanitized = TENON_TEST_SANITIZED;
inline constexpr int kFailed = 1;
inline constexpr int kWrongByte = 2;
// After that time nothing of a round may be left. A sanitizer slows everything down about ten
// times.
inline constexpr int64_t kSoonNs = (kSanitized ? 8 : 1) * int64_t{1'000'000'000};
// The watchdog: how long the driver waits for a process to answer. Only a hang takes that long.
inline constexpr int64_t kPatienceNs = (kSanitized ? 6 : 1) * int64_t{20'000'000'000};

inline int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// How the next call of one kind ends. It is packed into one word, so that a peer takes it whole.
enum class Doom : uint32_t {
  kNone,
  kStop,  // stops itself as the call begins, for a tracer
  kTimer  // a timer of its own kills it after some nanoseconds
};

// The slot of one process. Each storm has its own kinds of calls. Kind 0 is the time between calls.
struct Slot {
  std::atomic<int32_t> pid{0};
  std::atomic<uint32_t> op{0};
  std::atomic<int64_t> since_ns{0};
  std::atomic<uint64_t> doom{0};

  void set_doom(Doom how, uint32_t where, uint32_t ns) {
    doom = uint64_t{ns} << 32 | static_cast<uint64_t>(where) << 8 | static_cast<uint64_t>(how);
  }
  // The process itself calls this as a call of that kind begins.
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
  kWatcher,       // the driver sends SIGKILL after some microseconds
  kTimer,         // a timer of the victim fires nanoseconds after a call began
  kSteps,         // single steps from the beginning of a call
  kServiceSteps,  // single steps of the service thread
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
  uint32_t delay_us = 0;  // before this kill's turn
  uint32_t op = 0;        // kTimer, kSteps
  uint32_t timer_ns = 0;  // kTimer
  uint32_t calls = 0;     // kSteps, kServiceSteps: number of starts and ends of system calls
  uint32_t steps = 0;     // the number of instructions after that
};

struct StopPlan {
  uint32_t who = 0;
  uint32_t delay_us = 0;
};

// The errors that were found. They lie in memory that all processes share.
struct Findings {
  std::atomic<uint64_t> wrong{0};
  std::atomic<uint32_t> text_state{0};  // 1: being written, 2: complete
  std::array<char, 700> text{};

  // Keeps the first complaint. The call may be the last that its process makes.
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

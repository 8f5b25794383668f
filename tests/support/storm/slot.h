// The slot of a process in a storm: its current call, and the order by which it is to die. The
// process and the driver write there, and the driver reads the last words of a dead process.
#pragma once

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <span>

#include "process/fault/kit.h"

namespace storm {

inline constexpr bool kSanitized = TENON_TEST_SANITIZED;
// The exit statuses of a peer that complained, and of one that found a wrong byte.
inline constexpr int kFailed = 1;
inline constexpr int kWrongByte = 2;
// How long after a round something of it may be left. A sanitizer slows everything down about ten
// times.
inline constexpr int64_t kSoonNs = (kSanitized ? 8 : 1) * int64_t{1'000'000'000};
// The watchdog: how long the driver waits for a process to answer. Only a hang takes that long.
inline constexpr int64_t kPatienceNs = (kSanitized ? 6 : 1) * int64_t{20'000'000'000};

inline int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// SIGKILL from a timer of the process itself. No other process has to wake up for it, so it strikes
// within microseconds of its time.
inline void kill_me_after(int64_t ns) {
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  timer_t timer{};
  REQUIRE(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  itimerspec when{};
  when.it_value = {ns / 1'000'000'000, ns % 1'000'000'000 + (ns == 0 ? 1 : 0)};
  REQUIRE(timer_settime(timer, 0, &when, nullptr) == 0);
}

// A process is in one kind of call at a time. Every storm has these kinds, and each world has its
// own from kFirstOp on.
inline constexpr uint32_t kBetweenCalls = 0;
inline constexpr uint32_t kSettling = 1;
inline constexpr uint32_t kForking = 2;
inline constexpr uint32_t kFirstOp = 3;
inline constexpr uint32_t kMostOps = 16;

// The names of a world's kinds of calls, from kFirstOp on.
using OpNames = std::span<const char* const>;

inline const char* name_of_op(OpNames names, uint32_t op) {
  static constexpr const char* kOfEngine[] = {"between calls", "settling", "fork"};
  return op < kFirstOp ? kOfEngine[op] : op - kFirstOp < names.size() ? names[op - kFirstOp] : "?";
}

// How the next call of one kind ends. It is packed into one word, so that a peer takes it whole.
enum class Doom : uint32_t {
  kNone,
  kStop,  // stops itself as the call begins, for a tracer
  kTimer  // a timer of its own kills it after some nanoseconds
};

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
  void leave() { op = kBetweenCalls; }
};

}  // namespace storm

// Waits for a change in a queue's memory: a thread looks for a while, then it sleeps until another
// process wakes it. docs/format/queue.md says why no wake is lost.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/status.h"
#include "os/clock.h"
#include "os/futex.h"
#include "os/spin.h"
#include "os/wait.h"
#include "queue/page.h"

namespace tenon::queue {

// The limits of one wait. The deadline is fixed when the object is made.
class WaitLimits {
 public:
  explicit WaitLimits(const os::Wait& wait) noexcept
      : wait_(wait), deadline_ns_(wait.timeout_ns < 0 ? -1 : deadline_of(wait.timeout_ns)) {}
  // WOULD_BLOCK, TIMEOUT or CANCELLED if the wait is over.
  Status check(const char* awaited) const;
  // How long a thread may sleep before it checks again, at most `most_ns`. Less than 0: without
  // end.
  int64_t slice_ns(int64_t most_ns) const noexcept;
  bool is_interruptible() const noexcept { return wait_.interruptible; }

 private:
  static int64_t deadline_of(int64_t timeout_ns) noexcept {
    const int64_t now = os::monotonic_ns();
    return timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns;
  }
  // No futex hears of a cancel, so a thread with a cancel looks this often.
  static constexpr int64_t kCancelNs = 20'000'000;
  os::Wait wait_;
  int64_t deadline_ns_;
};

// Sleeps until somebody wakes this thread, unless look() is true once the thread has said that it
// sleeps. INTERRUPTED if a signal ended an interruptible wait. Any other end is success: the caller
// looks again.
template <typename Look>
Status sleep_once(page::SleepWords* words, page::MemberSet* sleepers, uint32_t self, os::Spin* spin,
                  const WaitLimits& limits, int64_t most_ns, Look look) {
  // An odd number is left of a member that died asleep.
  const uint32_t awake = (words->asleep.load(std::memory_order_relaxed) + 1) & ~1U;
  const uint32_t seen = words->wake.load(std::memory_order_relaxed);
  words->asleep.store(awake + 1, std::memory_order_seq_cst);
  page::add(sleepers, self);
  os::FutexEnd end = os::FutexEnd::kWoken;
  if (!look()) {
    end = os::futex_wait(words->wake, seen, limits.slice_ns(most_ns));
    if (words->wake.load(std::memory_order_acquire) != seen) {
      // Any member may have written any number, so the difference must be able to overflow.
      const uint64_t rung = words->rung_ns.load(std::memory_order_relaxed);
      spin->woke(static_cast<int64_t>(static_cast<uint64_t>(os::monotonic_ns()) - rung));
    }
  }
  words->asleep.store(awake + 2, std::memory_order_relaxed);
  page::remove(sleepers, self);
  if (end == os::FutexEnd::kInterrupted && limits.is_interruptible())
    return Status(Code::kInterrupted, "a signal ended the wait");
  return Status::ok();
}

// Wakes the sleeper. Call it once for each odd value of `asleep`.
inline void wake(page::SleepWords* words) noexcept {
  words->rung_ns.store(static_cast<uint64_t>(os::monotonic_ns()), std::memory_order_relaxed);
  words->wake.fetch_add(1, std::memory_order_release);
  os::futex_wake(words->wake, INT32_MAX);
}

}  // namespace tenon::queue

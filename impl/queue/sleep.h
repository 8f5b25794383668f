// How a thread sleeps until another process changes a queue's memory. Queue::send() and recv() look
// at the memory for a while (os/spin.h), and then call sleep_once(). docs/format/queue.md says why
// no wake is lost.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/status.h"
#include "os/clock.h"
#include "os/futex.h"
#include "os/spin.h"
#include "os/wait_limits.h"
#include "queue/page.h"

namespace tenon::queue {

// Sleeps on the words of the member `self`, until another thread calls wake(), or `most_ns` or the
// limits are over. It first stores the odd number and sets the bit in `sleepers`, then calls
// look(). If that is true, it does not sleep. INTERRUPTED if a signal ended an interruptible wait.
// Any other end is success, also that of the time: the caller looks, checks its limits and sleeps
// again. The caller holds the queue's lock of this side, so one thread at a time uses the words.
template <typename Look>
Status sleep_once(page::SleepWords* words, page::MemberSet* sleepers, uint32_t self, os::Spin* spin,
                  const os::WaitLimits& limits, int64_t most_ns, Look look) {
  // The number is odd here if a former member of the entry died asleep.
  const uint32_t awake = (words->asleep.load(std::memory_order_relaxed) + 1) & ~1U;
  const uint32_t seen = words->wake.load(std::memory_order_relaxed);
  words->asleep.store(awake + 1, std::memory_order_seq_cst);
  page::add(sleepers, self);
  os::FutexEnd end = os::FutexEnd::kWoken;
  if (!look()) {
    end = os::futex_wait(words->wake, seen, limits.slice_ns(most_ns));
    if (words->wake.load(std::memory_order_acquire) != seen) {
      // A hostile member may have written any number, so the subtraction is one of unsigned
      // numbers.
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

// Wakes the sleeper. A thread that has sent a message or made room calls it once for each odd value
// of `asleep`, so that it makes one system call for each sleep. More calls do no harm.
inline void wake(page::SleepWords* words) noexcept {
  words->rung_ns.store(static_cast<uint64_t>(os::monotonic_ns()), std::memory_order_relaxed);
  words->wake.fetch_add(1, std::memory_order_release);
  os::futex_wake(words->wake, INT32_MAX);
}

}  // namespace tenon::queue

// Futexes: a thread sleeps until another process has changed a word in shared memory. Queues
// (queue/) sleep this way. The words lie in memory that several processes map, so the functions
// never use the kernel's variant for one process (FUTEX_PRIVATE_FLAG), which would lose wakes.
#pragma once

#include <atomic>
#include <cstdint>

namespace tenon::os {

enum class FutexEnd {
  kWoken,        // a wake, a changed word, or no reason at all: the caller looks again
  kTimeout,      // the time is over
  kInterrupted,  // a signal handler has returned
};

// Sleeps while `word` has the value `expected`, for at most `timeout_ns`. Less than 0: without end.
FutexEnd futex_wait(const std::atomic<uint32_t>& word, uint32_t expected,
                    int64_t timeout_ns) noexcept;
// Wakes up to `most` threads that sleep on `word`. Async-signal-safe.
void futex_wake(std::atomic<uint32_t>& word, int most) noexcept;

}  // namespace tenon::os

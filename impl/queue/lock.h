// A lock that one thread of this process may hold for long, because it waits in the queue
// meanwhile. Another thread waits for the lock asleep, and no longer than its caller may wait.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/status.h"
#include "os/futex.h"
#include "queue/sleep.h"

namespace tenon::queue {

class WaitLock {
 public:
  // Holds the lock until it ends.
  class Held {
   public:
    explicit Held(WaitLock* lock) noexcept : lock_(lock) {}
    Held(Held&& other) noexcept : lock_(std::exchange(other.lock_, nullptr)) {}
    Held& operator=(Held&&) = delete;
    ~Held() {
      if (lock_ != nullptr) lock_->unlock();
    }

   private:
    WaitLock* lock_;
  };

  // The errors are those of the wait.
  Result<Held> lock_within(const WaitLimits& limits) {
    uint32_t free = kFree;
    if (word_.compare_exchange_strong(free, kHeld, std::memory_order_acquire)) return Held(this);
    // Whoever frees the lock from now on wakes a thread.
    while (word_.exchange(kAwaited, std::memory_order_acquire) != kFree) {
      TENON_TRY(limits.check("another thread to leave the queue"));
      if (os::futex_wait(word_, kAwaited, limits.slice_ns(-1)) == os::FutexEnd::kInterrupted &&
          limits.is_interruptible())
        return Status(Code::kInterrupted, "a signal ended the wait for another thread");
    }
    return Held(this);
  }

 private:
  static constexpr uint32_t kFree = 0;
  static constexpr uint32_t kHeld = 1;
  static constexpr uint32_t kAwaited = 2;  // it is held, and a thread may sleep until it is free

  void unlock() noexcept {
    if (word_.exchange(kFree, std::memory_order_release) == kAwaited) os::futex_wake(word_, 1);
  }

  std::atomic<uint32_t> word_{kFree};
};

}  // namespace tenon::queue

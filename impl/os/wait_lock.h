// A lock that one thread of this process may hold for long, because it waits for another process
// meanwhile. Another thread waits for the lock asleep, and no longer than its caller may wait.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/status.h"
#include "os/futex.h"
#include "os/wait_limits.h"

namespace tenon::os {

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

  // The errors are those of the wait. `awaited`, a noun with what it does, is named in the message.
  Result<Held> lock_within(const WaitLimits& limits, const char* awaited) {
    uint32_t free = kFree;
    if (word_.compare_exchange_strong(free, kHeld, std::memory_order_acquire)) return Held(this);
    // Whoever frees the lock from now on wakes a thread.
    while (word_.exchange(kAwaited, std::memory_order_acquire) != kFree) {
      TENON_TRY(limits.check(awaited));
      if (futex_wait(word_, kAwaited, limits.slice_ns(-1)) == FutexEnd::kInterrupted &&
          limits.is_interruptible())
        return Status(Code::kInterrupted, "a signal ended the wait for another thread");
    }
    return Held(this);
  }

  // For a child of fork, in which the thread that held the lock does not exist.
  bool is_held() const noexcept { return word_.load(std::memory_order_acquire) != kFree; }

 private:
  static constexpr uint32_t kFree = 0;
  static constexpr uint32_t kHeld = 1;
  static constexpr uint32_t kAwaited = 2;  // it is held, and a thread may sleep until it is free

  void unlock() noexcept {
    if (word_.exchange(kFree, std::memory_order_release) == kAwaited) futex_wake(word_, 1);
  }

  std::atomic<uint32_t> word_{kFree};
};

}  // namespace tenon::os

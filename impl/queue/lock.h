// Takes a mutex that another thread may hold while it waits, no longer than the caller may wait.
#pragma once

#include <mutex>
#include <thread>

#include "base/status.h"
#include "os/wait.h"

namespace tenon::queue {

// The errors are those of the wait.
inline Result<std::unique_lock<std::mutex>> lock_within(std::mutex* mutex, const os::Wait& wait) {
  constexpr int kYields = 50;
  constexpr int64_t kPauseNs = 200'000;
  std::unique_lock<std::mutex> lock(*mutex, std::try_to_lock);
  if (lock.owns_lock()) return lock;
  os::Waiter waiter(wait);
  for (int tries = 0; !lock.try_lock(); ++tries) {
    if (tries < kYields) {
      std::this_thread::yield();
    } else {
      TENON_TRY(waiter.pause(kPauseNs, "another thread that uses the queue"));
    }
  }
  return lock;
}

}  // namespace tenon::queue

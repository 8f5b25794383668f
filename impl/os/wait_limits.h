// The deadline and the cancel of a wait on a futex, which no fd can end. Waits on an fd use a
// Waiter (os/wait.h).
#pragma once

#include <cstdint>

#include "base/status.h"
#include "os/clock.h"
#include "os/wait.h"

namespace tenon::os {

// The limits of one wait. The deadline is fixed when the object is made.
class WaitLimits {
 public:
  explicit WaitLimits(const Wait& wait) noexcept
      : wait_(wait), deadline_ns_(wait.timeout_ns < 0 ? -1 : deadline_of(wait.timeout_ns)) {}
  // WOULD_BLOCK (always with timeout 0), TIMEOUT or CANCELLED if the wait is over. The message of
  // the error names what was awaited.
  Status check(const char* awaited) const;
  // How long a thread may sleep before it calls check() again, at most `most_ns`. A number below 0,
  // as argument or result, is a sleep without end.
  int64_t slice_ns(int64_t most_ns) const noexcept;
  bool is_interruptible() const noexcept { return wait_.interruptible; }

 private:
  static int64_t deadline_of(int64_t timeout_ns) noexcept {
    const int64_t now = monotonic_ns();
    return timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns;
  }
  // A cancel wakes no futex, so a thread whose wait can be cancelled checks this often.
  static constexpr int64_t kCancelNs = 20'000'000;
  Wait wait_;
  int64_t deadline_ns_;
};

}  // namespace tenon::os

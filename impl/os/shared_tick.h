// A tick is one timed call of a function by the service thread (os/service.h). SharedTick is a tick
// that many callers may request, and that comes once for all of them. If each request got a tick of
// its own, and each tick could request itself again, the ticks would become more every time. A
// SharedTick lives as long as the process, because the service cannot cancel a tick. Each user,
// such as memory/ledgers.cc, has one for each kind of work that is to be done later.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "os/clock.h"
#include "os/service.h"

namespace tenon::os {

// Any thread may call the functions. request() takes the lock of the service, as call_later() does.
class SharedTick {
 public:
  constexpr explicit SharedTick(void (*tick)() noexcept) noexcept : tick_(tick) {}
  // Requests the tick, in `after_ns` or earlier. A request for an earlier time than the last one
  // brings the tick forward. If there is no memory, the tick does not come, and the next request
  // asks again. A tick that is overdue by kLostNs may be lost too, because the service could not
  // start. The next request makes it come at once.
  void request(int64_t after_ns) noexcept {
    const int64_t now = monotonic_ns();
    const int64_t wanted = now + std::clamp<int64_t>(after_ns, 0, kLongestNs);
    int64_t due = due_.load();
    int64_t next = 0;
    // The value is written even if it stays the same, so that the tick which was due sees what this
    // thread did before.
    do {
      next = now - due >= kLostNs ? now : std::min(due, wanted);
    } while (!due_.compare_exchange_weak(due, next));
    if (next == due || call_later(tick_, next - now)) return;
    // Another thread may have brought the tick forward, and that tick comes.
    due_.compare_exchange_strong(next, kNever);
  }
  // The tick calls this first. False: an earlier tick has done the work, and the next one is not
  // due.
  bool begin() noexcept {
    const int64_t now = monotonic_ns();
    int64_t due = due_.load();
    do {
      if (due > now) return false;
    } while (!due_.compare_exchange_weak(due, kNever));
    return true;
  }
  // For the child of a fork, which has no ticks.
  void forget() noexcept { due_.store(kNever); }

 private:
  static constexpr int64_t kNever = INT64_MAX;
  static constexpr int64_t kLongestNs = INT64_MAX / 4;  // more would overflow the clock
  static constexpr int64_t kLostNs = 100'000'000;
  void (*tick_)() noexcept;
  std::atomic<int64_t> due_{kNever};
};

}  // namespace tenon::os

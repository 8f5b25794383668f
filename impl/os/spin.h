// Decides how long a thread looks at a word of shared memory again and again (it spins) before it
// sleeps. A short wait is a hundred times cheaper by spinning than by sleeping. A long wait is
// cheaper asleep. If the other side needs this thread's CPU, spinning only delays it. Queues, rings
// and publishers wait with this.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "os/clock.h"

namespace tenon::os {

// Learns from earlier waits whether the next one should spin. A window is the time that a wait
// spins. A window that brought the change earns credit, and one in vain costs more of it. Without
// credit only every 4th wait spins, as a probe. Each probe in vain doubles that number, up to 256.
// One thread at a time uses the object: the holder of the lock under which the threads wait.
class Spin {
 public:
  // How long the next wait may spin, in nanoseconds. 0: sleep at once. `same_cpu`: the other side
  // worked last on the CPU of this thread, so it cannot work while this thread spins.
  int64_t window_ns(bool same_cpu) noexcept {
    if (same_cpu) return 0;
    if (credit_ == 0 && ++skipped_ < probe_) return 0;
    skipped_ = 0;
    return std::clamp(2 * wake_ns_, kLeastNs, kMostNs);
  }
  // Says whether the last window brought what the thread waited for.
  void spun(bool found) noexcept {
    if (found) {
      credit_ = std::min(credit_ + 1, kMostCredit);
      probe_ = kFirstProbe;
      return;
    }
    if (credit_ == 0) probe_ = std::min(probe_ * 2, kLastProbe);
    credit_ = std::max(credit_ - kFailure, 0);
  }
  // Says how long a wake took, from the call that woke to the thread's return. The next window is
  // twice the mean of that. A window that is shorter than a wake would let both sides sleep for
  // each message. The time comes from memory that a peer writes, and the thread may have waited for
  // a CPU, so times that no wake takes are ignored.
  void woke(int64_t latency_ns) noexcept {
    if (latency_ns > 0 && latency_ns < kMostNs) wake_ns_ += (latency_ns - wake_ns_) / 8;
  }

  // A look that took this long was interrupted: the kernel gave the CPU to somebody else.
  static constexpr int64_t kInterruptedNs = 10'000;

 private:
  static constexpr int64_t kLeastNs = 20'000;
  static constexpr int64_t kMostNs = 200'000;
  static constexpr int kMostCredit = 8;
  static constexpr int kFailure = 4;  // a window in vain costs more than a good one saves
  static constexpr int kFirstProbe = 4;
  static constexpr int kLastProbe = 256;

  int64_t wake_ns_ = 25'000;  // a running mean
  int credit_ = 1;
  int skipped_ = 0;          // waits without a window since the last one
  int probe_ = kFirstProbe;  // without credit, every so many waits get a window
};

inline void pause_cpu() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until look() is true or `likely` has changed, and returns true then: the caller looks
// itself. False: there was no window, it is over, or the kernel gave this CPU to another thread
// meanwhile. The caller sleeps then. `likely` is the word that will most likely change first. It is
// loaded more often than look() is called, which takes longer.
template <typename Look>
bool spin_for(Spin* spin, bool same_cpu, const std::atomic<uint64_t>& likely, Look look) {
  constexpr int kLooks = 16;
  constexpr int kLoads = 4;
  const int64_t window = spin->window_ns(same_cpu);
  if (window == 0) return false;
  // The clock is not read before the first looks, which most waits do not outlast.
  int64_t start = 0;
  for (int64_t last = 0;;) {
    for (int i = 0; i < kLooks; ++i) {
      if (look()) {
        spin->spun(true);
        return true;
      }
      const uint64_t seen = likely.load(std::memory_order_relaxed);
      for (int k = 0; k < kLoads; ++k) {
        pause_cpu();
        if (likely.load(std::memory_order_relaxed) != seen) {
          // The caller reads on in the next cache line.
          __builtin_prefetch(&likely + 64 / sizeof likely);
          spin->spun(true);
          return true;
        }
      }
    }
    const int64_t now = monotonic_ns();
    if (start == 0) {
      start = now;
    } else if (now - last > Spin::kInterruptedNs || now - start >= window) {
      break;
    }
    last = now;
  }
  spin->spun(false);
  return false;
}

// Does the same where no word is likely to change first.
template <typename Look>
bool spin_for(Spin* spin, bool same_cpu, Look look) {
  const std::atomic<uint64_t> never{0};
  return spin_for(spin, same_cpu, never, look);
}

}  // namespace tenon::os

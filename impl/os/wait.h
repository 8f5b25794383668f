// Waits for an fd with a deadline, a cancel, and signals that may or may not end the wait.
// Connections, names and CUDA events wait through a Waiter.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "os/fd.h"

namespace tenon::os {

// Cancel ends waits from another thread or a signal handler. It is an eventfd, so that trigger() is
// async-signal-safe and poll sees it. A forked child shares it: trigger() and reset() in one
// process count in the other.
class Cancel {
 public:
  static Result<std::unique_ptr<Cancel>> create();
  void trigger() noexcept;
  void reset() noexcept;
  bool triggered() const noexcept;
  int fd() const noexcept { return fd_.get(); }

 private:
  explicit Cancel(Fd fd) noexcept : fd_(std::move(fd)) {}
  Fd fd_;
};

struct Wait {
  int64_t timeout_ns = -1;   // < 0: for ever; 0: do not wait
  Cancel* cancel = nullptr;  // borrowed: it lives as long as the wait
  // True: a signal ends a wait with INTERRUPTED. False: until_ready() goes on after a signal, and
  // pause() returns success early. With timeout 0 there is no wait that a signal could end.
  bool interruptible = false;
};

// The waits of one call. The deadline is fixed at construction, so several waits in one call share
// it.
class Waiter {
 public:
  explicit Waiter(const Wait& wait) noexcept;
  // Waits until `fd` has one of `events` (or POLLHUP/POLLERR, which count as ready). Fails with
  // WOULD_BLOCK (timeout 0), TIMEOUT, INTERRUPTED, CANCELLED. With timeout 0 it still looks once. A
  // triggered cancel wins over readiness. `awaited`, a noun, is named in the message, and so is
  // `fd`. If `other` is >= 0, it is polled for the same events, and success does not say which of
  // the two is ready. INVALID_ARGUMENT (detail "fd") for an fd that is not open.
  Status until_ready(int fd, short events, const char* awaited, int other = -1);
  // Sleeps for at most `nanoseconds`. It is for callers that wait for something which no fd
  // reports, and that have just looked. Fails with WOULD_BLOCK, TIMEOUT, INTERRUPTED, CANCELLED.
  // `awaited`, a noun, is named in the message.
  Status pause(int64_t nanoseconds, const char* awaited);
  // CANCELLED if the cancel is triggered. For calls that may end without a wait. Costs nothing when
  // there is no cancel.
  Status check_cancel() const;
  // CANCELLED if the cancel is triggered, and WOULD_BLOCK or TIMEOUT if the time is over. For a
  // loop that the other side can keep going without any wait. `fd` and `awaited` are as for
  // until_ready().
  Status check_over(int fd, const char* awaited) const;
  // False: the timeout is 0.
  bool may_wait() const noexcept { return wait_.timeout_ns != 0; }
  // Whether nothing but the event itself ends this wait, so that a plain blocking system call can
  // replace poll.
  bool unbounded() const noexcept {
    return wait_.timeout_ns < 0 && wait_.cancel == nullptr && !wait_.interruptible;
  }

 private:
  Status over(int fd, const char* awaited) const;

  Wait wait_;
  int64_t deadline_ns_;  // on CLOCK_MONOTONIC, < 0: none
};

}  // namespace tenon::os

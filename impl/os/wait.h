// Waiting for an fd with a deadline, a cancel, and signals that may or may not end it.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "os/fd.h"

namespace tenon::os {

// Ends waits from outside. An eventfd, so that trigger() is async-signal-safe and poll sees it.
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
  int64_t timeout_ns = -1;  // < 0: for ever; 0: do not wait
  Cancel* cancel = nullptr;
  bool interruptible = false;
};

// One call's wait. The deadline is fixed at construction, so several waits in one call share it.
class Waiter {
 public:
  explicit Waiter(const Wait& wait) noexcept;
  // Until `fd` has one of `events` (or POLLHUP/POLLERR, which count as ready). Fails with
  // WOULD_BLOCK (timeout 0), TIMEOUT, INTERRUPTED, CANCELLED. With timeout 0 it still looks once. A
  // triggered cancel wins over readiness. `awaited`, a noun, is named in the message, and so is
  // `fd`. `other`: likewise, if it is >= 0.
  Status until_ready(int fd, short events, const char* awaited, int other = -1);
  // Sleeps that long at most, for who waits for what no fd tells and has just looked: WOULD_BLOCK,
  // TIMEOUT, INTERRUPTED, CANCELLED. `awaited`, a noun, is named in the message.
  Status pause(int64_t nanoseconds, const char* awaited);
  // CANCELLED if the cancel is triggered; for calls that may end without a wait. Costs nothing when
  // there is no cancel.
  Status check_cancel() const;
  // CANCELLED likewise, or the time is over: WOULD_BLOCK, TIMEOUT. For a loop that the other side
  // can keep going without ever a wait. `fd` and `awaited` as above.
  Status check_over(int fd, const char* awaited) const;
  // Nothing but the event itself ends this wait, so a plain blocking system call may stand in for
  // poll.
  bool unbounded() const noexcept {
    return wait_.timeout_ns < 0 && wait_.cancel == nullptr && !wait_.interruptible;
  }

 private:
  Status over(int fd, const char* awaited) const;

  Wait wait_;
  int64_t deadline_ns_;  // on CLOCK_MONOTONIC; < 0: none
};

}  // namespace tenon::os

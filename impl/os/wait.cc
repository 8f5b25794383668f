#include "os/wait.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>

#include <algorithm>
#include <cerrno>

#include "base/checked.h"
#include "os/clock.h"
#include "os/limits.h"

namespace tenon::os {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

Status cancelled() { return Status(Code::kCancelled, "the wait was cancelled"); }
Status interrupted() { return Status(Code::kInterrupted, "a signal ended the wait"); }
timespec as_timespec(int64_t nanoseconds) {
  return {.tv_sec = nanoseconds / kSecond, .tv_nsec = nanoseconds % kSecond};
}

}  // namespace

Result<std::unique_ptr<Cancel>> Cancel::create() {
  Fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.is_open()) return with_fd_limit(errno_status(errno, "a cancel needs an eventfd"));
  return std::unique_ptr<Cancel>(new Cancel(std::move(fd)));
}

// errno is restored, because a signal handler may call this and errno belongs to the interrupted
// code. A write that fails with EAGAIN found the counter full, so the cancel is triggered already.
void Cancel::trigger() noexcept {
  const int saved = errno;
  const uint64_t one = 1;
  while (::write(fd_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
  errno = saved;
}

void Cancel::reset() noexcept {
  const int saved = errno;
  uint64_t count = 0;
  while (::read(fd_.get(), &count, sizeof count) < 0 && errno == EINTR) {
  }
  errno = saved;
}

// Asks the kernel and not a flag in this process, because a fork child can trigger the same
// eventfd.
bool Cancel::triggered() const noexcept {
  const int saved = errno;
  pollfd polled{fd_.get(), POLLIN, 0};
  int ready = 0;
  while ((ready = ::poll(&polled, 1, 0)) < 0 && errno == EINTR) {
  }
  errno = saved;
  return ready > 0 && (polled.revents & POLLIN) != 0;
}

Waiter::Waiter(const Wait& wait) noexcept : wait_(wait), deadline_ns_(-1) {
  if (wait_.timeout_ns > 0 && !checked_add(monotonic_ns(), wait_.timeout_ns, &deadline_ns_))
    deadline_ns_ = INT64_MAX;
}

Status Waiter::check_cancel() const {
  if (wait_.cancel != nullptr && wait_.cancel->triggered()) return cancelled();
  return {};
}

// The status for a deadline that has passed, or for a call that was not to wait. It names no
// duration, because a caller that waits in pieces knows another one. `fd` < 0: the caller knows of
// no fd.
Status Waiter::over(int fd, const char* awaited) const {
  const std::string where = fd >= 0 ? format(" on fd %d", fd) : std::string();
  Status status =
      wait_.timeout_ns == 0
          ? Status(
                Code::kWouldBlock,
                format("there is not yet %s%s, and the call was not to wait: poll, then call again",
                       awaited, where.c_str()))
          : Status(Code::kTimeout, format("timed out waiting for %s%s: call again to go on",
                                          awaited, where.c_str()));
  return fd >= 0 ? std::move(status).with("fd", fd) : status;
}

Status Waiter::check_over(int fd, const char* awaited) const {
  TENON_TRY(check_cancel());
  if (wait_.timeout_ns == 0 || (deadline_ns_ >= 0 && monotonic_ns() >= deadline_ns_))
    return over(fd, awaited);
  return {};
}

Status Waiter::until_ready(int fd, short events, const char* awaited, int other) {
  const auto not_open = [](int number) {
    return Status(Code::kInvalidArgument, format("fd %d is not open", number)).with("fd", number);
  };
  if (fd < 0) return not_open(fd);  // poll would skip it and sleep
  pollfd polled[3] = {{fd, events, 0},
                      {wait_.cancel != nullptr ? wait_.cancel->fd() : -1, POLLIN, 0},
                      {other, events, 0}};
  const nfds_t count = other >= 0 ? 3 : wait_.cancel != nullptr ? 2 : 1;
  for (;;) {
    timespec left{};
    if (deadline_ns_ >= 0) left = as_timespec(std::max<int64_t>(0, deadline_ns_ - monotonic_ns()));
    const int ready = ::ppoll(polled, count, wait_.timeout_ns < 0 ? nullptr : &left, nullptr);
    if (ready < 0) {
      if (errno != EINTR) return errno_status(errno, format("waiting for fd %d", fd));
      // With timeout 0 there is no wait that a signal could end. The poll is repeated, so that the
      // call looks once.
      if (!wait_.interruptible || wait_.timeout_ns == 0) continue;
      TENON_TRY(check_cancel());
      return interrupted();
    }
    if (polled[1].revents != 0) return cancelled();
    if ((polled[0].revents & POLLNVAL) != 0) return not_open(fd);
    if ((polled[2].revents & POLLNVAL) != 0) return not_open(other);
    if (polled[0].revents != 0 || polled[2].revents != 0) return {};
    if (wait_.timeout_ns == 0 || ready == 0) return over(fd, awaited);
  }
}

Status Waiter::pause(int64_t nanoseconds, const char* awaited) {
  TENON_TRY(check_cancel());
  if (wait_.timeout_ns == 0) return over(-1, awaited);
  if (deadline_ns_ >= 0) {
    const int64_t left = deadline_ns_ - monotonic_ns();
    if (left <= 0) return over(-1, awaited);
    nanoseconds = std::min(nanoseconds, left);
  }
  pollfd polled{wait_.cancel != nullptr ? wait_.cancel->fd() : -1, POLLIN, 0};
  const timespec length = as_timespec(nanoseconds);
  if (::ppoll(&polled, 1, &length, nullptr) < 0) {
    if (errno != EINTR) return errno_status(errno, format("waiting for %s", awaited));
    TENON_TRY(check_cancel());
    return wait_.interruptible ? interrupted() : Status::ok();
  }
  return polled.revents != 0 ? cancelled() : Status::ok();
}

}  // namespace tenon::os

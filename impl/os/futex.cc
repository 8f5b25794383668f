#include "os/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

namespace tenon::os {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;
static_assert(sizeof(std::atomic<uint32_t>) == 4 && std::atomic<uint32_t>::is_always_lock_free);

}  // namespace

FutexEnd futex_wait(const std::atomic<uint32_t>& word, uint32_t expected,
                    int64_t timeout_ns) noexcept {
  timespec time{};
  time.tv_sec = static_cast<time_t>(timeout_ns / kNsPerSecond);
  time.tv_nsec = static_cast<long>(timeout_ns % kNsPerSecond);
  const long result = ::syscall(SYS_futex, &word, FUTEX_WAIT, expected,
                                timeout_ns < 0 ? nullptr : &time, nullptr, 0);
  if (result == 0 || errno == EAGAIN) return FutexEnd::kWoken;
  if (errno == ETIMEDOUT) return FutexEnd::kTimeout;
  return errno == EINTR ? FutexEnd::kInterrupted : FutexEnd::kWoken;
}

void futex_wake(std::atomic<uint32_t>& word, int most) noexcept {
  const int before = errno;
  (void)::syscall(SYS_futex, &word, FUTEX_WAKE, most, nullptr, nullptr, 0);
  errno = before;
}

}  // namespace tenon::os

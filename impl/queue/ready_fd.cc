#include "queue/ready_fd.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "os/futex.h"
#include "os/limits.h"
#include "os/poller.h"
#include "queue/sleep.h"

namespace tenon::queue {

Result<int> ReadyFd::open(page::SleepWords* words, page::MemberSet* sleepers, uint32_t self) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_leaving_.load(std::memory_order_relaxed))
    return Status(Code::kInvalidArgument, "this process has left the queue");
  if (is_open()) return event_.get();
  // The program has to receive until nothing is there, and then the member is armed.
  os::Fd event(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.is_open())
    return os::with_fd_limit(errno_status(errno, "waiting for a queue by an fd needs an eventfd"));
  event_ = std::move(event);
  is_readable_.store(true, std::memory_order_relaxed);
  sleepers_ = sleepers;
  self_ = self;
  words_.store(words, std::memory_order_release);
  // A thread that sleeps in the queue clears the fd from now on.
  wake(words);
  first_wake_ = words->wake.load(std::memory_order_acquire);
  const auto body = [](void* argument) noexcept { static_cast<ReadyFd*>(argument)->relay(); };
  Status started = os::start_thread("tenon-queue", os::Stack::kSmall, body, this);
  if (!started.is_ok()) {
    words_.store(nullptr, std::memory_order_release);
    event_.reset();
    return started;
  }
  return event_.get();
}

void ReadyFd::signal() noexcept {
  if (!is_open()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!is_readable_.load(std::memory_order_relaxed)) write_locked();
}

// The caller holds mutex_.
void ReadyFd::write_locked() noexcept {
  const int before = errno;
  const uint64_t one = 1;
  // A thread that notices the write finds the flag set, and clears the fd. If it left the fd
  // readable, it would wait for a change, and signal() would make none.
  is_readable_.store(true, std::memory_order_relaxed);
  (void)!::write(event_.get(), &one, sizeof one);
  errno = before;
}

void ReadyFd::clear() noexcept {
  // If the relay is about to signal, the fd becomes readable after this call, and the program
  // checks once more.
  if (!is_readable_.load(std::memory_order_relaxed)) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  clear_locked();
}

// The caller holds mutex_.
void ReadyFd::clear_locked() noexcept {
  if (!is_readable_.load(std::memory_order_relaxed)) return;
  const int before = errno;
  uint64_t count = 0;
  (void)!::read(event_.get(), &count, sizeof count);
  errno = before;
  is_readable_.store(false, std::memory_order_relaxed);
}

void ReadyFd::clear_for_sleep() noexcept {
  if (!is_open()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  has_sleeper_ = true;
  clear_locked();
}

void ReadyFd::note_busy() noexcept {
  if (!is_open()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  has_sleeper_ ? clear_locked() : write_locked();
}

void ReadyFd::end_sleep() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  has_sleeper_ = false;
}

// Writes that the member sleeps, as sleep_once() does.
void ReadyFd::say_asleep() noexcept {
  page::SleepWords* const words = words_.load(std::memory_order_relaxed);
  const uint32_t awake = (words->asleep.load(std::memory_order_relaxed) + 1) & ~1U;
  words->asleep.store(awake + 1, std::memory_order_seq_cst);
  page::add(sleepers_, self_);
  is_armed_ = true;
}

bool ReadyFd::disarm() noexcept {
  if (!is_armed_) return false;
  page::SleepWords* const words = words_.load(std::memory_order_relaxed);
  const uint32_t asleep = words->asleep.load(std::memory_order_relaxed);
  words->asleep.store((asleep | 1) + 1, std::memory_order_relaxed);
  page::remove(sleepers_, self_);
  is_armed_ = false;
  return true;
}

void ReadyFd::relay() noexcept {
  page::SleepWords* const words = words_.load(std::memory_order_acquire);
  uint32_t relayed = first_wake_;
  while (!is_leaving_.load(std::memory_order_acquire)) {
    const uint32_t now = words->wake.load(std::memory_order_acquire);
    if (now == relayed) {
      (void)os::futex_wait(words->wake, relayed, -1);
      continue;
    }
    relayed = now;
    signal();
  }
  has_ended_.store(1, std::memory_order_release);
  // end() may have returned, and the memory may be freed. The kernel only compares the address.
  os::futex_wake(has_ended_, 1);
}

void ReadyFd::leave() noexcept {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_leaving_.store(true, std::memory_order_release);
  }
  signal();
  if (is_open()) wake(words_.load(std::memory_order_relaxed));
}

void ReadyFd::end() noexcept {
  leave();
  if (!is_open()) return;
  // Another member may overwrite the futex, and the relay would sleep on. So this thread repeats
  // the wake.
  constexpr int64_t kAgainNs = 10'000'000;
  while (has_ended_.load(std::memory_order_acquire) == 0) {
    (void)os::futex_wait(has_ended_, 0, kAgainNs);
    wake(words_.load(std::memory_order_relaxed));
  }
}

}  // namespace tenon::queue

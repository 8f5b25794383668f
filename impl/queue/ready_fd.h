// The fds by which an event loop waits for a queue: one becomes readable when there may be a
// message, the other when there may be room for one. Queue (queue.h) has one ReadyFd for each.
//
// Other processes wake this member by a futex, which no event loop can wait for. So a thread, the
// relay, sleeps on the member's futex and writes to an eventfd after each wake. While this member
// waits only by the fd, no thread of it is inside recv() or send(). Other processes must still wake
// the member, so it keeps the odd number and its bit in the set of sleepers (sleep.h), as if a
// thread slept. The member is **armed** then.
//
// The rule: whenever no thread is inside recv() or send(), the fd is readable, the relay is about
// to make it readable, or the member is armed. docs/format/queue.md says why no wake is lost.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/status.h"
#include "os/fd.h"
#include "queue/page.h"

namespace tenon::queue {

// Until open() the other functions do nothing. The thread that holds the queue's lock of this side
// calls arm(), disarm(), clear_for_sleep() and settle(). Any thread may call the other functions.
class ReadyFd {
 public:
  ReadyFd() noexcept = default;
  ReadyFd(const ReadyFd&) = delete;
  ReadyFd& operator=(const ReadyFd&) = delete;
  ~ReadyFd() = default;

  // Gives the fd. The first call makes it, readable, and starts the relay. INVALID_ARGUMENT:
  // leave() was called. RESOURCE_EXHAUSTED: no fd, thread or memory is left. The words are those of
  // the member `self`, and stay mapped until end() has returned.
  Result<int> open(page::SleepWords* words, page::MemberSet* sleepers, uint32_t self);

  bool is_open() const noexcept { return words_.load(std::memory_order_acquire) != nullptr; }

  // Makes the fd readable.
  void signal() noexcept;
  // Call this before this thread sleeps in the queue. The fd becomes unreadable, because otherwise
  // an event loop on another thread would find the fd readable and the queue's lock taken, again
  // and again.
  void clear_for_sleep() noexcept;
  // Call this when this thread did not get the queue's lock, because the program may wait by the fd
  // next. If the lock's holder sleeps or has slept in this call, the fd becomes unreadable. The
  // relay may have made it readable after clear_for_sleep(), and the holder calls settle() later.
  // If the holder has not slept, the fd is signalled once more. An event loop that hears only of
  // changes (EPOLLET) needs that, because settle() of the holder does nothing to a fd that is
  // readable.
  void note_busy() noexcept;
  // Clears the fd and arms the member, unless look() is true afterwards. Returns whether the member
  // is armed.
  template <typename Look>
  bool arm(Look look) {
    if (!is_open()) return false;
    clear();
    say_asleep();
    if (!look()) return true;
    disarm();
    return false;
  }
  // Ends the armed state at the begin of a call. Returns whether the member was armed. Then another
  // process may have woken it, and the call counts as one that slept (Queue::pass_wake_on()).
  bool disarm() noexcept;
  // Restores the rule above. Each call of recv() or send() ends with it.
  void settle() noexcept {
    if (!is_open()) return;
    if (has_sleeper_) end_sleep();
    if (!is_armed_ && !is_readable_.load(std::memory_order_relaxed)) signal();
  }

  // The queue is left: the fd stays readable, and the relay ends.
  void leave() noexcept;
  // leave(), then waits until the relay has ended. A forked child has no relay, and must not call
  // this.
  void end() noexcept;

 private:
  void clear() noexcept;
  void clear_locked() noexcept;
  void write_locked() noexcept;
  void say_asleep() noexcept;
  void end_sleep() noexcept;
  void relay() noexcept;

  std::mutex mutex_;  // held for a short time
  os::Fd event_;
  page::MemberSet* sleepers_ = nullptr;
  uint32_t self_ = 0;
  uint32_t first_wake_ = 0;  // the value of the futex before the relay started
  // Set last by open().
  std::atomic<page::SleepWords*> words_{nullptr};
  // Whether the eventfd is readable. It changes together with the eventfd, under mutex_. So a
  // receive that finds messages needs no system call to know that the fd is readable.
  std::atomic<bool> is_readable_{false};
  std::atomic<bool> is_leaving_{false};
  std::atomic<uint32_t> has_ended_{0};  // the relay, 1: it has
  bool is_armed_ = false;               // guarded by the queue's lock of this side
  // The thread that has the queue's lock sleeps or has slept. Only that thread writes it, under
  // mutex_.
  bool has_sleeper_ = false;
};

// Settles the fd at the end of a call, also if the call throws.
class Settled {
 public:
  explicit Settled(ReadyFd* fd) noexcept : fd_(fd) {}
  Settled(const Settled&) = delete;
  Settled& operator=(const Settled&) = delete;
  ~Settled() { fd_->settle(); }

 private:
  ReadyFd* fd_;
};

}  // namespace tenon::queue

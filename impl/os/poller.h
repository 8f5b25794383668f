// Waiting for many fds at once (epoll), being woken from another thread, and watching a directory for files that are let go (inotify).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "os/fd.h"

namespace tenon::os {

class Poller {
 public:
  struct Event {
    uint64_t key = 0;
    bool readable = false;
    bool writable = false;
    bool hung_up = false;  // EPOLLHUP, EPOLLRDHUP or EPOLLERR
  };

  static Result<Poller> create();
  Poller() noexcept = default;
  int fd() const noexcept { return epoll_.get(); }  // readable when wait() has something to tell
  // Level-triggered. `key`, any but UINT64_MAX, comes back with each event.
  Status add(int fd, uint64_t key, bool readable, bool writable);
  Status change(int fd, uint64_t key, bool readable, bool writable);
  void remove(int fd) noexcept;
  // Up to `room` events. Without any after the time-out (< 0: none); wake() ends it at once, with what events there are.
  size_t wait(int64_t timeout_ns, std::span<Event> room) noexcept;
  void wake() noexcept;  // any thread, async-signal-safe

 private:
  Fd epoll_;
  Fd wake_;
};

class DirectoryWatch {
 public:
  // `removals`: tell of names that were moved or removed, too.
  static Result<DirectoryWatch> create(const std::string& path, bool removals);
  int fd() const noexcept { return fd_.get(); }
  // Calls `each` with every name whose file was let go by somebody who had it open for writing (its last fd closed and mapping gone), or
  // that was moved or removed. `overflowed` is set, never cleared: events were lost, or the directory is gone: look at everything. Takes
  // a bounded number of events, so that who makes them without end cannot hold the reader; fd() stays readable while there are more.
  void read(const std::function<void(const char* leaf)>& each, bool* overflowed) noexcept;

 private:
  Fd fd_;
};

// The small one is for what calls nobody else's code.
enum class Stack : uint8_t { kSmall, kUsual };

// A thread with every signal masked, detached, named `name` (at most 15 bytes).
Status start_thread(const char* name, Stack stack, void (*body)(void*) noexcept, void* argument);

}  // namespace tenon::os

// Waiting for many fds at once (epoll), being woken from another thread, and watching a directory
// for files that are let go (inotify).
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
  // Up to `room` events. Without any after the time-out (< 0: none); wake() ends it at once, with
  // what events there are.
  size_t wait(int64_t timeout_ns, std::span<Event> room) noexcept;
  void wake() noexcept;  // any thread, async-signal-safe

 private:
  Fd epoll_;
  Fd wake_;
};

// Watches directories. All of them share one inotify instance, because a user can have few
// instances, and because closing one waits for the whole machine (tens of milliseconds under load).
class DirectoryWatch {
 public:
  static Result<DirectoryWatch> create();
  int fd() const noexcept { return fd_.get(); }
  // Watches one more directory and gives its number. One directory has one number, whatever path
  // leads to it. `removals`: tell of names that were moved or removed, too.
  Result<int> add(const std::string& path, bool removals);
  void remove(int number) noexcept;
  // Calls `each` with the number of a directory and a name in it: somebody who had the file open
  // for writing let go of it (its last fd is closed and its last mapping is gone), or the name was
  // moved or removed. A null `leaf` means that events of the directory were lost or that the
  // directory is gone: look at everything in it. With the number kAll this holds for all
  // directories. One call takes a bounded number of events, so that a process that makes events
  // without end cannot hold the reader. fd() stays readable while there are more.
  void read(const std::function<void(int number, const char* leaf)>& each) noexcept;
  static constexpr int kAll = -1;

 private:
  Fd fd_;
};

// The small one is for what calls nobody else's code.
enum class Stack : uint8_t { kSmall, kUsual };

// A thread with every signal masked, detached, named `name` (at most 15 bytes).
Status start_thread(const char* name, Stack stack, void (*body)(void*) noexcept, void* argument);

}  // namespace tenon::os

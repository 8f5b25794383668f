// Poller waits for many fds at once (epoll), and another thread can wake it. DirectoryWatch watches
// directories for files that are closed by a process (inotify). start_thread() starts the library's
// threads.
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

// Any thread may call these functions. A forked child shares the epoll instance with its parent:
// remove() in the child would take the fd away from the parent. So the child destroys an inherited
// Poller and makes its own.
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
  int fd() const noexcept { return epoll_.get(); }  // readable when wait() has events
  // Events are level-triggered. `key` comes back with each event. It can be anything but
  // UINT64_MAX. INVALID_ARGUMENT: the fd is closed, or is always ready, such as a regular file.
  // RESOURCE_EXHAUSTED: too many watches. IO (errno EEXIST): the fd is watched already. change()
  // returns NOT_FOUND for an fd that is not watched.
  Status add(int fd, uint64_t key, bool readable, bool writable);
  Status change(int fd, uint64_t key, bool readable, bool writable);
  void remove(int fd) noexcept;
  // Returns up to `room` events, 64 at most, and 0 when the time-out (< 0: none) is over. The
  // time-out is rounded up to 1 ms, and signals do not end the wait. wake() ends the wait at once,
  // or the next wait if there is none now, with the events that there are, which may be 0.
  size_t wait(int64_t timeout_ns, std::span<Event> room) noexcept;
  void wake() noexcept;  // for any thread, and async-signal-safe

 private:
  Fd epoll_;
  Fd wake_;
};

// Watches directories. All of them share one inotify instance, because a user can have few
// instances, and because closing one waits for the whole machine (tens of milliseconds under load).
// A forked child shares the instance too: events that it reads are lost for its parent.
class DirectoryWatch {
 public:
  static Result<DirectoryWatch> create();
  int fd() const noexcept { return fd_.get(); }
  // Watches one more directory and returns its number. One directory has one number, whatever path
  // leads to it. `removals`: also report names that were moved or removed. A second add() of a
  // directory returns the same number, and its `removals` replaces the first. NOT_FOUND: nothing is
  // at the path. INVALID_ARGUMENT: the path leads to no directory. PERMISSION: this process may not
  // read the directory. RESOURCE_EXHAUSTED: fs.inotify.max_user_watches.
  Result<int> add(const std::string& path, bool removals);
  // Ends the watch, however often the directory was added. read() then reports the number once
  // more, with a null `leaf`.
  void remove(int number) noexcept;
  // Calls `each` with the number of a directory and a name in it. Either a process that had the
  // file open for writing let go of it (its last fd is closed and its last mapping is gone), or the
  // name was moved or removed. A null `leaf` means that events of the directory were lost, that the
  // directory is gone or that remove() ended its watch: look at everything in it. With the number
  // kAll this holds for all directories. One call takes a bounded number of events, so that a
  // process that makes events without end cannot hold the reader. fd() stays readable while there
  // are more. `each` must not throw.
  void read(const std::function<void(int number, const char* leaf)>& each) noexcept;
  static constexpr int kAll = -1;

 private:
  Fd fd_;
};

// The size of a thread's stack. kSmall is 256 KiB, and is for threads that call no code from
// outside the library. kUsual is the system's default.
enum class Stack : uint8_t { kSmall, kUsual };

// Starts a detached thread with every signal masked. `name` has at most 15 bytes.
// RESOURCE_EXHAUSTED: too many threads. After an error or std::bad_alloc `body` is not called, and
// `argument` is still the caller's. A forked child has none of these threads.
Status start_thread(const char* name, Stack stack, void (*body)(void*) noexcept, void* argument);

}  // namespace tenon::os

// Tells queues when the process of a member has ended. The service thread (os/service.h) does it.
// Queue (queue.h) is the only caller.
//
// A process of the same pid namespace has a pidfd, which is readable from its end on. A process of
// another namespace cannot be named. It holds a lock on a byte of the queue's file
// (os/byte_lock.h). When the kernel has closed a process's fds, those who watch the file ask
// whether the lock is still there.
//
// add_watcher(), remove_watcher() and watch_process() take LockRank::kQueues (base/lock_rank.h), so
// their caller holds no lock from there on.
#pragma once

#include <cstdint>

#include "base/counted.h"
#include "base/status.h"

namespace tenon::queue {

// Receives what this file has to tell. Queue derives from it.
class ProcessWatcher : public Counted {
 public:
  // The service thread calls this once for each process that was watched, without a lock.
  virtual void process_ended(uint32_t pid) noexcept = 0;
  // A process has closed the file of a queue of this process. A lock that it held goes just after
  // that. The service thread calls this without a lock.
  virtual void file_closed() noexcept = 0;
  // look_later() was called. The service thread calls this without a lock.
  virtual void look_again() noexcept = 0;
  // This process ends in order. The thread that called exit() calls this without a lock.
  virtual void leave() noexcept = 0;
};

// When a process started, in clock ticks since boot (field 22 of /proc/<pid>/stat). 0: there is no
// such process, or /proc does not tell. Two processes that have the same pid one after the other
// differ in it.
uint64_t process_start(uint32_t pid) noexcept;

// Whether there is no such process any more, or another one has its pid by now. `started` is
// process_start() as the process itself knows it, or 0 if it does not. False if the kernel does not
// tell.
bool process_has_ended(uint32_t pid, uint64_t started) noexcept;

// Adds a queue, whose leave() is called at exit(). A forked child begins without watchers.
void add_watcher(ProcessWatcher* watcher);
// Removes the queue, and stops to watch the processes that only queues without a reference watched.
// dispose() of the queue calls it, when no reference is left. Afterwards the service thread does
// not use the queue.
void remove_watcher(ProcessWatcher* watcher) noexcept;
// Watches a process for a queue that was added. A process that is watched twice is told once.
// PEER_GONE: there is no such process, or another one has its pid by now. `started` is
// process_start() as the process itself knows it, or 0 if it does not. RESOURCE_EXHAUSTED: no fd is
// left. Also the errors of os::serve_fd(). After an error, and after std::bad_alloc from this
// function or add_watcher(), nothing is watched that was not watched before.
Status watch_process(ProcessWatcher* watcher, uint32_t pid, uint64_t started);

// Opens the file of the watcher's queue once more, for the next four functions. They do nothing, or
// return false, if that failed. A forked child has none of these files.
void open_lock_file(ProcessWatcher* watcher, int file) noexcept;
// Locks a byte of the file, or releases it. False: it cannot be locked.
bool hold_lock(ProcessWatcher* watcher, uint64_t at) noexcept;
void drop_lock(ProcessWatcher* watcher, uint64_t at) noexcept;
// Whether it is sure that no other process has locked the byte.
bool is_unlocked(ProcessWatcher* watcher, uint64_t at) noexcept;
// file_closed() is called from now on. RESOURCE_EXHAUSTED: no fd, or no inotify watch.
Status watch_locks(ProcessWatcher* watcher);

// Calls look_again() of all watchers in `after_ns`, once for all calls until then.
void look_later(int64_t after_ns) noexcept;

}  // namespace tenon::queue

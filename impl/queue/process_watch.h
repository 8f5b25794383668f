// Tells queues when the process of a member has ended. A pidfd is readable from that moment on, and
// the service thread (os/service.h) waits for it. Queue (queue.h) is the only caller.
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
  // look_later() was called. The service thread calls this without a lock.
  virtual void look_again() noexcept = 0;
  // This process ends in order. Called without a lock, on the thread that called exit().
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

// Calls look_again() of all watchers in `after_ns`, once for all calls until then.
void look_later(int64_t after_ns) noexcept;

}  // namespace tenon::queue

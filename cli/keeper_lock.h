// NAME.keep, the file by which `tenon weights drop NAME` finds the processes that
// `tenon weights keep NAME` started.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "base/status.h"
#include "modules/shared_weights/place.h"
#include "os/fd.h"

namespace tenon::cli {

// A keeper's shared lock on NAME.keep. It is a record lock (F_SETLK): the kernel tells everybody
// the pid of the process that has it, and drops it when that process ends. No child of fork
// inherits it.
class KeeperLock {
 public:
  // Makes the file if there is none. The errors are those of os::open_lock_file().
  static Result<KeeperLock> take(const shared_weights::Place& place);
  // Drops the lock, and removes the file if no other process has it locked. Removes the default
  // directory too if nothing else is in it.
  ~KeeperLock();
  KeeperLock(KeeperLock&&) noexcept = default;
  KeeperLock& operator=(KeeperLock&&) = delete;

 private:
  KeeperLock(os::Fd fd, shared_weights::Place place)
      : fd_(std::move(fd)), place_(std::move(place)) {}
  os::Fd fd_;
  shared_weights::Place place_;
};

// Ends the keepers of a name one after the other, and returns their pids. NOT_FOUND: nobody keeps
// the name. PERMISSION: a keeper is another user's. UNSUPPORTED: a keeper is in another pid
// namespace. TIMEOUT with the detail "pid": a keeper did not end within `patience_ns`.
Result<std::vector<pid_t>> end_keepers(const shared_weights::Place& place, int64_t patience_ns);

}  // namespace tenon::cli

// Files that exist to be locked (flock) by the processes that share something under a name. The
// locks themselves are take_shared_lock() and take_exclusive_lock() (os/named_file.h). Shared
// weights use these functions.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "os/fd.h"

namespace tenon::os {

// Opens the file, and makes it if `create` is set and there is none. A new file gets these
// permission bits, and the group unless it is -1. The fd is close-on-exec. NOT_FOUND: there is no
// file, or no directory. PERMISSION: this user may not open it. CORRUPT: the path leads to a link
// or to something other than a file.
Result<Fd> open_lock_file(const std::string& path, bool create, mode_t mode, gid_t group);
// Whether the path leads to the file that `fd` has open. Ask this while holding the lock: another
// process may have removed the file between the open and the lock.
bool is_still_at(int fd, const std::string& path) noexcept;
// The pids of the processes that took a lock of the file, as /proc/locks tells them. Those of other
// pid namespaces are missing. Throws std::bad_alloc.
std::vector<pid_t> lock_owners(int fd);

// Makes a directory for this user alone, if there is none. PERMISSION: what is there belongs to
// another user, or other users may enter or write it.
Status make_private_directory(const std::string& path);
// Whether the files of the directory are another machine's, where flock and the death of a process
// do not mean the same.
bool is_on_network(int directory) noexcept;

}  // namespace tenon::os

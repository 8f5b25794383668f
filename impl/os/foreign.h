// Opens and closes files that another process chose, without waiting for that process.
//
// A file system in user space (FUSE) answers an open, an fstat and a close when its server likes,
// or never. A file lease (F_SETLEASE) delays an open for as long as the kernel allows, 45 s by
// default. A network socket can delay a close (SO_LINGER). Memory, pipes and local sockets cause no
// such delays. So files on the file systems of memfds and of /dev/shm are opened at once, and all
// other files on another thread. Memory (tmpfs, hugetlbfs), pipes, local sockets, anonymous inodes
// and devices such as /dev/null are closed at once, and all other files on another thread.
//
// A forked child has none of these threads. It closes the fds that were queued at the fork with its
// own next close that needs a thread. An fd that a thread of the parent was just closing may stay
// open in the child.
#pragma once

#include <string>

#include "base/status.h"
#include "os/fd.h"

namespace tenon::os {

// Opens the file to which an O_PATH handle leads. WOULD_BLOCK: another process holds a file lease
// on the file, or its file system has not answered for two seconds. An open that is not answered
// goes on in its thread, with a copy of the handle, until the server answers. PERMISSION and
// NOT_FOUND as from open(). RESOURCE_EXHAUSTED: no free fd, or no thread. `what` begins the error
// messages.
Result<Fd> open_handle(const Fd& handle, bool writable, const std::string& what);

// close_foreign() is declared in os/fd.h. An Fd that came from another process calls it.

}  // namespace tenon::os

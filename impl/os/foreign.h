// Opening and closing files that another process chose, without waiting for that process.
//
// A file system in user space (FUSE) answers an open, an fstat and a close when its server likes,
// or never. A file lease (F_SETLEASE) holds an open back for as long as the kernel lets it, 45 s by
// default. A socket of the network holds a close back (SO_LINGER). Memory (tmpfs, hugetlbfs), pipes
// and local sockets do none of this. Every other file is opened and closed on
// another thread.
#pragma once

#include <string>

#include "base/status.h"
#include "os/fd.h"

namespace tenon::os {

// Opens what an O_PATH handle leads to. WOULD_BLOCK: another process holds a file lease on it, or
// its file system has not answered for two seconds. `what` begins the messages.
Result<Fd> open_handle(const Fd& handle, bool writable, const std::string& what);

// close_foreign(), which an Fd calls that came from another process, is declared in os/fd.h.

}  // namespace tenon::os

// Sockets with a path: listening, and connecting with a deadline.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/status.h"
#include "os/fd.h"
#include "os/wait.h"

namespace tenon::os {

enum class SocketKind { kStream, kPackets };

// All are close-on-exec and non-blocking. A path longer than sockaddr_un has room for is reached
// through an fd of its directory.

// A listening socket that appears under its path ready to be connected to, or not at all: bound
// under a random name beside it, then linked. PERMISSION if the path is taken (detail path). `mode`
// is the socket file's permission bits, `group` its gid unless it is -1.
Result<Fd> listen_local(SocketKind kind, const std::string& path, mode_t mode, gid_t group);

// NOT_FOUND (no such path), PEER_GONE (nobody listens there any more: ECONNREFUSED), TIMEOUT, …;
// never blocks beyond the waiter.
Result<Fd> connect_local(SocketKind kind, const std::string& path, Waiter* waiter);

// An fd that is not open: nobody waits. Errors of the caller to come (ECONNABORTED) count as
// nobody.
Result<Fd> accept_local(int listener);

}  // namespace tenon::os

// Local sockets that have a path: listening, accepting, and connecting with a deadline. Names,
// deposits and tenon-manager use them.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/status.h"
#include "os/fd.h"
#include "os/wait.h"

namespace tenon::os {

enum class SocketKind { kStream, kPackets };

// All sockets are close-on-exec and non-blocking. A path that does not fit into sockaddr_un is
// reached through an fd.

// Makes a listening socket. It appears under its path ready for connections, or not at all: it is
// bound under a random name in the same directory and then linked to the path. PERMISSION if the
// path is taken (detail path). NOT_FOUND: there is no such directory. INVALID_ARGUMENT: the path
// names no file, or is too long. After an error the path is as it was. `mode` gives the permission
// bits of the socket file. `group` gives its gid, unless it is -1.
Result<Fd> listen_local(SocketKind kind, const std::string& path, mode_t mode, gid_t group);

// Connects to the socket. Never blocks beyond the waiter. NOT_FOUND: there is no such path.
// PEER_GONE: nobody listens there any more (ECONNREFUSED). CORRUPT: the path leads to no socket, or
// to one of another kind. A symbolic link counts as no socket. TIMEOUT, WOULD_BLOCK: the listener's
// queue is full. CANCELLED and INTERRUPTED as from the waiter. PERMISSION: this user may not
// connect.
Result<Fd> connect_local(SocketKind kind, const std::string& path, Waiter* waiter);

// Accepts one connection. The fd is not open if nobody waits. A caller whose connection has failed
// meanwhile (ECONNABORTED) counts as nobody. RESOURCE_EXHAUSTED: no free fd. The connection then
// still waits, and the listener stays readable.
Result<Fd> accept_local(int listener);

}  // namespace tenon::os

// Local sockets that have a path: listening, accepting, and connecting with a deadline. Names,
// deposits and tenon-manager use them.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/status.h"
#include "os/fd.h"
#include "os/wait.h"

namespace tenon::os {

enum class SocketKind { kStream, kPackets };  // SOCK_STREAM, SOCK_SEQPACKET

// All sockets are close-on-exec and non-blocking. A path may be longer than sockaddr_un allows: it
// is then reached as /proc/self/fd/N, through an fd of its directory (listen_local()) or of the
// socket file (connect_local()). Errors about a path have it as their detail "path".
// RESOURCE_EXHAUSTED: no free fd.

// Makes a listening socket. It appears under its path ready for connections, or not at all: it is
// bound under a random name in the same directory and then linked to the path. PERMISSION if the
// path is taken, also by the file of a socket whose process has ended, or if this user may not make
// the file or give it that group. NOT_FOUND: there is no such directory. INVALID_ARGUMENT: the path
// names no file, or it or a name in it is longer than the kernel or the file system allows. After
// an error the path is as it was. `mode` gives the permission bits of the socket file. `group`
// gives its gid, unless it is -1. The file stays when the socket is closed: its owner removes it.
Result<Fd> listen_local(SocketKind kind, const std::string& path, mode_t mode, gid_t group);

// Does the same, and takes the path from the socket or file that has it, in one step: each process
// that connects meanwhile reaches either the old listener or the new one.
Result<Fd> listen_local_instead(SocketKind kind, const std::string& path, mode_t mode, gid_t group);

// Does the same as listen_local(), and replaces the file of a socket on which nobody listens any
// more. PERMISSION: somebody listens there, or the file is no socket of this kind, or this user may
// not remove it. Processes that call this function for paths in one directory do so one after
// another. TIMEOUT: a process has locked the directory for a second.
Result<Fd> listen_local_again(SocketKind kind, const std::string& path, mode_t mode, gid_t group);

// Connects to the socket. Never blocks beyond the waiter. NOT_FOUND: there is no such path.
// PEER_GONE: nobody listens there any more (ECONNREFUSED). CORRUPT: the path leads to no socket, or
// to one of another kind. A symbolic link counts as no socket. The listener's queue, of 4096
// connections at most, is full: WOULD_BLOCK if the waiter's timeout is 0, and TIMEOUT after any
// other timeout. CANCELLED and INTERRUPTED as from the waiter. PERMISSION: this user may not
// connect. INVALID_ARGUMENT: the path is too long, as in listen_local().
Result<Fd> connect_local(SocketKind kind, const std::string& path, Waiter* waiter);

// Accepts one connection. The fd is not open if nobody waits. A caller whose connection has failed
// meanwhile (ECONNABORTED) counts as nobody. RESOURCE_EXHAUSTED: no free fd. The connection then
// still waits, and the listener stays readable.
Result<Fd> accept_local(int listener);

}  // namespace tenon::os

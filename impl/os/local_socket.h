// Sockets with a path: listening, connecting with a deadline, and who is at the other end.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "os/fd.h"
#include "os/wait.h"

namespace tenon::os {

enum class SocketKind { kStream, kPackets };

struct Peer {
  pid_t pid = 0;  // 0: in a pid namespace that this process does not see
  uid_t uid = 0;
  gid_t gid = 0;
};

// All are close-on-exec and non-blocking. A path longer than sockaddr_un has room for is reached through an fd of its directory.

// A listening socket that appears under its path ready to be connected to, or not at all: bound under a random name beside it, then linked.
// PERMISSION if the path is taken (detail path). `mode` is the socket file's permission bits, `group` its gid unless it is -1.
Result<Fd> listen_local(SocketKind kind, const std::string& path, mode_t mode, gid_t group);

// NOT_FOUND (no such path), PEER_GONE (nobody listens there any more: ECONNREFUSED), TIMEOUT, …; never blocks beyond the waiter.
Result<Fd> connect_local(SocketKind kind, const std::string& path, Waiter* waiter);

// An fd that is not open: nobody waits. Errors of the caller to come (ECONNABORTED) count as nobody.
Result<Fd> accept_local(int listener);

Result<Peer> peer_of(int socket);
// The peer's supplementary groups and its gid (SO_PEERGROUPS).
Result<std::vector<gid_t>> peer_groups(int socket);

}  // namespace tenon::os

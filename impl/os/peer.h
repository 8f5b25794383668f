// Identifies the process at the other end of a local socket, as the kernel reports it, and says
// whether it may use this user's memory.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

#include "base/status.h"

namespace tenon::os {

// The credentials that the kernel keeps for the other end: those of the process that called
// connect(), listen() or socketpair() there, at that moment. A process that gets the other end
// later, by fork or as an fd, does not change them.
struct Peer {
  pid_t pid = 0;  // 0: the peer is in a pid namespace that this process does not see
  uid_t uid = 0;
  gid_t gid = 0;
};

// INVALID_ARGUMENT if the socket is not connected.
Result<Peer> peer_of(int socket);
// The peer's supplementary groups (SO_PEERGROUPS) and its gid.
Result<std::vector<gid_t>> peer_groups(int socket);

// Whether the peer belongs to this process's own (effective) user, or to root, whom nobody can keep
// out.
bool is_own_or_root(const Peer& peer) noexcept;
// Whether is_own_or_root() holds, or the peer is a member of `group`, if one is given.
Result<bool> is_admitted(int socket, const Peer& peer, std::optional<gid_t> group);

}  // namespace tenon::os

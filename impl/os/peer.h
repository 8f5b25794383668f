// Who is at the other end of a local socket, as the kernel says, and whether that is one who may
// have what is this user's.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

#include "base/status.h"

namespace tenon::os {

// As of the moment when the two ends were connected.
struct Peer {
  pid_t pid = 0;  // 0: in a pid namespace that this process does not see
  uid_t uid = 0;
  gid_t gid = 0;
};

Result<Peer> peer_of(int socket);
// The peer's supplementary groups and its gid (SO_PEERGROUPS).
Result<std::vector<gid_t>> peer_groups(int socket);

// Of this process's own (effective) user, or of root, whom nobody can keep out.
bool is_own_or_root(const Peer& peer) noexcept;
// The same, or a member of `group` if one is given.
Result<bool> is_admitted(int socket, const Peer& peer, std::optional<gid_t> group);

}  // namespace tenon::os

#include "os/peer.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace tenon::os {

Result<Peer> peer_of(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    const int error = errno;
    return errno_status(error, format("asking who is at the other end of socket %d", socket))
        .with("fd", socket);
  }
  if (peer.uid == static_cast<uid_t>(-1))
    return Status(Code::kInvalidArgument, format("socket %d is not connected", socket))
        .with("fd", socket);
  return Peer{peer.pid, peer.uid, peer.gid};
}

Result<std::vector<gid_t>> peer_groups(int socket) {
  TENON_ASSIGN(const Peer peer, peer_of(socket));
  std::vector<gid_t> groups(32);
  for (;;) {
    auto size = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
    const int done = ::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size);
    const int error = errno;
    const size_t count = size / sizeof(gid_t);
    if (done == 0) {
      groups.resize(count);
      break;
    }
    // With ERANGE the kernel returns the number of groups.
    if (error != ERANGE || count <= groups.size())
      return errno_status(error,
                          format("asking for the groups at the other end of socket %d", socket))
          .with("fd", socket);
    groups.resize(count);
  }
  if (std::find(groups.begin(), groups.end(), peer.gid) == groups.end()) groups.push_back(peer.gid);
  return groups;
}

bool is_own_or_root(const Peer& peer) noexcept { return peer.uid == ::geteuid() || peer.uid == 0; }

Result<bool> is_admitted(int socket, const Peer& peer, std::optional<gid_t> group) {
  if (is_own_or_root(peer)) return true;
  if (!group) return false;
  TENON_ASSIGN(const std::vector<gid_t> groups, peer_groups(socket));
  return std::find(groups.begin(), groups.end(), *group) != groups.end();
}

}  // namespace tenon::os

#include "channel/connection.h"

#include <algorithm>

#include "base/fork.h"
#include "channel/connection_calls.h"
#include "os/host.h"
#include "share/cuda_route.h"

namespace tenon::channel {
namespace {

// Fds in front of a message's segments. Of tokens, and the memfd of a large message, no more than
// come in one packet: those are open here anyway before anything can be refused. Of the handles of
// devices as many as the segments of the descriptor can have that are theirs, but no more than a
// receiver takes that was told nothing.
constexpr uint64_t kFdsAhead = kMaxFdsPerPacket;
constexpr uint64_t kMostHandleFds = 65536;

uint32_t accepted_fds(uint16_t kind, uint64_t max_segments) noexcept {
  const bool on_devices = kind == kDevices || kind == kLargeDevices;
  const uint64_t segments =
      std::min<uint64_t>(max_segments, UINT32_MAX - kFdsAhead - kMostHandleFds);
  const uint64_t of_handles =
      on_devices ? std::min(segments * share::kMostCudaFds, kMostHandleFds) : 0;
  return static_cast<uint32_t>(segments + kFdsAhead + of_handles);
}

Status check_peer(int socket, const os::Peer& peer, const ConnectionOptions& options) {
  const bool group_too = options.peers == Peers::kGroup;
  TENON_ASSIGN(
      const bool admitted,
      os::is_admitted(socket, peer, group_too ? std::optional(options.group) : std::nullopt));
  if (admitted) return Status::ok();
  const std::string with_group = group_too ? format(", group %u", options.group) : "";
  const std::string who =
      peer.pid > 0 ? format("pid %d", peer.pid) : "a process that this one cannot see";
  return Status(
             Code::kPermission,
             format("the peer of socket %d is %s of user %u, and this connection takes only user "
                    "%u%s and root: run both processes as "
                    "one user, %s",
                    socket, who.c_str(), peer.uid, os::user_id(), with_group.c_str(),
                    group_too ? "or let another group in"
                              : "let a group in (group), or make the connection without same_user"))
      .with("fd", socket)
      .with("pid", peer.pid)
      .with("uid", uint64_t{peer.uid});
}

}  // namespace

Connection::Connection(int socket, SocketType type, const ConnectionOptions& options,
                       const os::Peer& peer)
    : socket_(socket),
      options_(options),
      peer_(peer),
      generation_(fork_generation()),
      frames_(socket, type),
      lending_(
          {peer.pid, peer.uid},
          [](void* context) noexcept { return static_cast<Connection*>(context)->send_renewal(); },
          this),
      received_(options.open, options.limits.max_segments) {
  // What is over it is closed as it comes, and the frame delivered without.
  frames_.set_max_fds(UINT32_MAX);
  frames_.set_accepted_fds(&accepted_fds, options_.limits.max_segments);
}

Result<Connection::Owned> Connection::create(int socket, const ConnectionOptions& options) {
  TENON_ASSIGN(const SocketType type, check_socket(socket));
  TENON_ASSIGN(const os::Peer peer, os::peer_of(socket));
  if (options.peers != Peers::kAny) TENON_TRY(check_peer(socket, peer, options));
  ConnectionOptions own = options;
  if (options.named_files) {
    TENON_ASSIGN(own.open.allow_named_files, os::is_admitted(socket, peer, std::nullopt));
  }
  own.open.budget = std::make_shared<os::MapBudget>(options.max_mapped_nbytes);
  Owned connection(new Connection(socket, type, own, peer));
  if (!options.drop_when_gone) return connection;
  const auto forget = [](void* context) noexcept {
    auto* const self = static_cast<Connection*>(context);
    const std::unique_lock<std::mutex> lock(self->recv_mutex_, std::try_to_lock);
    if (lock.owns_lock()) self->received_.forget_all();
    return lock.owns_lock();
  };
  TENON_ASSIGN(connection->watch_, LenderWatch::create(socket, forget, connection.get()));
  return connection;
}

Result<int> Connection::gone_fd() {
  TENON_TRY(check_process());
  const std::lock_guard<std::mutex> lock(watch_mutex_);
  if (!watch_) {
    TENON_ASSIGN(watch_, LenderWatch::create(socket_, nullptr, nullptr));
  }
  return watch_->fd();
}

// A lock that cannot be had in a child of fork is one that a thread of the parent's had, and what
// it keeps in order may be torn: so all of it stays where it is, in this child's copy.
void Connection::End::operator()(Connection* connection) const noexcept {
  if (!connection->check_process().is_ok()) {
    connection->owned_.reset();
    for (std::mutex* const each : {&connection->send_turn_, &connection->send_mutex_,
                                   &connection->recv_turn_, &connection->recv_mutex_}) {
      if (!each->try_lock()) return;
      each->unlock();
    }
    if (connection->streams_.in_use()) return;
  } else {
    if (connection->watch_) connection->watch_->end();
    // The library's thread may be in send_renewal(), called by a ledger that it has just replaced
    // with another.
    const std::lock_guard<std::mutex> sending(connection->send_mutex_);
    connection->lending_.stop_renewals();
  }
  delete connection;
}

Status Connection::check_process() const {
  if (generation_ == fork_generation()) return Status::ok();
  return Status(Code::kUnsupported,
                "the connection belongs to the process that made it, and this one is a child of "
                "fork: make a connection in the child, on a socket "
                "of its own");
}

}  // namespace tenon::channel

#include "channel/connection.h"

#include <algorithm>

#include "base/fork.h"
#include "channel/connection_calls.h"
#include "channel/frame_kind.h"
#include "channel/outgoing.h"
#include "device/route.h"
#include "os/host.h"

namespace tenon::channel {
namespace {

// The fds that come before those of a message's segments. First come the memfd of a large message
// and the tokens. No more of these are accepted than one packet carries: one packet's fds are open
// in this process anyway before anything can be refused. Then come the fds of device handles. As
// many are accepted as the descriptor's segments can have, but no more than a receiver takes that
// has no limit set.
constexpr uint64_t kFdsAhead = kMaxFdsPerPacket;
constexpr uint64_t kMostHandleFds = 65536;

uint32_t accepted_fds(uint16_t kind, uint64_t max_segments) noexcept {
  const std::optional<FrameParts> parts = frame_parts(kind);
  const bool on_devices = parts && parts->devices;
  const uint64_t segments =
      std::min<uint64_t>(max_segments, UINT32_MAX - kFdsAhead - kMostHandleFds);
  const uint64_t of_handles =
      on_devices ? std::min(segments * device::kMostCudaFds, kMostHandleFds) : 0;
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
  // How many fds a frame may announce is not limited here. Fds over the accepted number are closed
  // as they come, and the frame is delivered without them.
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

// In a forked child, a lock that cannot be taken belonged to a thread of the parent, and the state
// that it guards may be torn. Then the child's copy of the connection is leaked.
void Connection::End::operator()(Connection* connection) const noexcept {
  if (connection->is_inherited()) {
    if (connection->is_unshared_) (void)connection->owned_.detach();
    connection->owned_.reset();
    for (std::mutex* const each : {&connection->send_turn_, &connection->send_mutex_,
                                   &connection->recv_turn_, &connection->recv_mutex_}) {
      if (!each->try_lock()) return;
      each->unlock();
    }
    if (connection->streams_.in_use()) return;
  } else {
    if (connection->watch_) connection->watch_->end();
    // The library's thread may be in send_renewal() at this moment, called by a ledger that was
    // just replaced.
    const std::lock_guard<std::mutex> sending(connection->send_mutex_);
    connection->lending_.stop_renewals();
    connection->frames_.leave_ring();
  }
  delete connection;
}

Status Connection::check_process() const {
  if (!is_inherited()) return Status::ok();
  return Status(Code::kUnsupported,
                "the connection belongs to the process that made it, and this one is a child of "
                "fork: make a connection in the child, on a socket "
                "of its own");
}

}  // namespace tenon::channel

// A subscriber receives what a publisher sends (publisher.h). A tenon_subscriber of the C API is a
// Subscriber.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "channel/connection.h"
#include "os/wait.h"
#include "publish/door.h"
#include "tensor/message.h"

namespace tenon::publish {

struct SubscriberStats {
  uint64_t received = 0;
  uint64_t dropped = 0;  // messages that were withdrawn before this side took them
};

// Any thread may call the functions. Receives wait for each other. The caller holds no ranked lock
// (base/lock_rank.h). In a forked child recv() returns UNSUPPORTED.
class Subscriber {
 public:
  // Makes a subscriber on a socket whose other end a publisher takes or has taken. On failure the
  // caller keeps the socket. The errors are those of channel::Connection::create().
  static Result<std::unique_ptr<Subscriber>> create(int socket,
                                                    const channel::ConnectionOptions& options);
  // Connects to the socket of a publisher, and waits until the publisher has taken this subscriber.
  // Messages that are published after the call reach it. The errors are those of
  // os::connect_local() and of create(). PEER_GONE: nobody listens there, or the publisher has
  // refused this process or is gone.
  static Result<std::unique_ptr<Subscriber>> connect(const std::string& path,
                                                     const channel::ConnectionOptions& options,
                                                     const os::Wait& wait);
  // The socket is closed with the subscriber, and in forked children. Throws std::bad_alloc.
  void adopt_socket() {
    unshared_ = UnsharedSocket::of(connection_->socket());
    connection_->adopt_unshared_socket();
  }

  // Receives the next message. PEER_GONE with detail "pid": the publisher is gone, and nothing is
  // left. The other errors are those of Connection::recv().
  Result<std::unique_ptr<tensor::Message>> recv(const os::Wait& wait);
  // -1 in a forked child that has no copy of the socket.
  int fd() const noexcept {
    return unshared_.has_socket() && connection_->is_inherited() ? -1 : connection_->socket();
  }
  const os::Peer& peer() const noexcept { return connection_->peer(); }
  SubscriberStats stats() const noexcept;

 private:
  explicit Subscriber(channel::Connection::Owned connection) noexcept
      : connection_(std::move(connection)) {}
  Status name_publisher(Status status) const;

  channel::Connection::Owned connection_;
  UnsharedSocket unshared_;  // ends before the connection closes the socket
  std::atomic<uint64_t> received_{0};
};

}  // namespace tenon::publish

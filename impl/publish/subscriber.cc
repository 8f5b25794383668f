#include "publish/subscriber.h"

#include <algorithm>
#include <utility>

#include "os/clock.h"
#include "os/local_socket.h"

namespace tenon::publish {

using channel::Connection;
using tensor::Message;

Result<std::unique_ptr<Subscriber>> Subscriber::create(int socket,
                                                       const channel::ConnectionOptions& options) {
  channel::ConnectionOptions how = options;
  how.subscribes = true;
  TENON_ASSIGN(Connection::Owned connection, Connection::create(socket, how));
  return std::unique_ptr<Subscriber>(new Subscriber(std::move(connection)));
}

namespace {

// Says what to do about a path at which no publisher listens. Other errors stay as they are.
Status name_remedy(Status status, const std::string& path) {
  const bool is_missing = status.code() == Code::kNotFound;
  if (!is_missing && status.code() != Code::kPeerGone) return status;
  return Status(
             status.code(),
             format("no publisher listens at %s, %s: start the publisher first, or connect again "
                    "when it listens there",
                    path.c_str(),
                    is_missing ? "where there is no socket" : "whose socket nobody serves"))
      .with_details_of(status);
}

}  // namespace

Result<std::unique_ptr<Subscriber>> Subscriber::connect(const std::string& path,
                                                        const channel::ConnectionOptions& options,
                                                        const os::Wait& wait) {
  const int64_t start = os::monotonic_ns();
  os::Waiter waiter(wait);
  Result<os::Fd> connected = os::connect_local(os::SocketKind::kPackets, path, &waiter);
  if (!connected.is_ok()) return name_remedy(std::move(connected).status(), path);
  os::Fd socket = std::move(connected).value();
  TENON_ASSIGN(std::unique_ptr<Subscriber> subscriber, create(socket.get(), options));
  subscriber->adopt_socket();
  (void)socket.detach();
  // What is left of the caller's time. 0 would mean not to wait.
  os::Wait rest = wait;
  if (wait.timeout_ns > 0)
    rest.timeout_ns = std::max<int64_t>(1, wait.timeout_ns - (os::monotonic_ns() - start));
  Status joined = subscriber->connection_->await_ring(rest);
  if (joined.is_ok()) return subscriber;
  if (joined.code() != Code::kPeerGone) return std::move(joined).with("path", path);
  return subscriber
      ->name_publisher(
          Status(Code::kPeerGone,
                 format("the publisher at %s hung up at once: it does not admit this user, it has "
                        "as many subscribers as it takes, or it has ended",
                        path.c_str())))
      .with("path", path);
}

// Adds the publisher's process to an error.
Status Subscriber::name_publisher(Status status) const {
  return std::move(status).with("pid", connection_->peer().pid);
}

Result<std::unique_ptr<Message>> Subscriber::recv(const os::Wait& wait) {
  Result<std::unique_ptr<Message>> message = connection_->recv(wait);
  if (message.is_ok()) {
    received_.fetch_add(1, std::memory_order_relaxed);
    return message;
  }
  if (message.status().code() != Code::kPeerGone) return message;
  return name_publisher(
             Status(Code::kPeerGone, format("the publisher, process %d, is gone, and all that it "
                                            "published is received",
                                            connection_->peer().pid)))
      .with("fd", connection_->socket());
}

SubscriberStats Subscriber::stats() const noexcept {
  return {received_.load(std::memory_order_relaxed), connection_->missed()};
}

}  // namespace tenon::publish

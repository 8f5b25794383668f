// tenon/publish.h: publishers and subscribers (impl/publish).
#include <tenon/publish.h>

#include <algorithm>
#include <cstddef>
#include <memory>

#include "boundary.h"
#include "connection.h"
#include "handles.h"
#include "wait.h"

using namespace tenon::capi;
using tenon::Status;
using tenon::channel::ConnectionOptions;
using tenon::channel::Peers;
using tenon::publish::Policy;
using tenon::publish::Publisher;
using tenon::publish::PublisherOptions;
using tenon::publish::Subscriber;
using tenon::publish::SubscriberInfo;

namespace {

tenon::Result<PublisherOptions> read_publisher_options(const tenon_publisher_options* options) {
  tenon_publisher_options given{};
  TENON_TRY(read_struct(options, "tenon_publisher_options", &given));
  TENON_TRY(check_flags(given.flags,
                        TENON_PUBLISHER_SAME_USER | TENON_PUBLISHER_GROUP |
                            TENON_PUBLISHER_IGNORE_DEATHS | TENON_PUBLISHER_FORGET_LATEST,
                        "tenon_publisher_options"));
  const bool group_too = (given.flags & TENON_PUBLISHER_GROUP) != 0;
  // Without this check, a caller that forgot the flag would accept every peer.
  TENON_TRY(
      check_argument(group_too || given.group == 0, "a group is given, but not the flag GROUP"));
  TENON_TRY(check_argument(given.policy <= TENON_PUBLISH_ERROR, "the policy is not known"));
  PublisherOptions how;
  if ((given.flags & TENON_PUBLISHER_SAME_USER) != 0) how.peers = Peers::kSameUser;
  if (group_too) how.peers = Peers::kGroup;
  how.group = given.group;
  how.report_deaths = (given.flags & TENON_PUBLISHER_IGNORE_DEATHS) == 0;
  how.keep_latest = (given.flags & TENON_PUBLISHER_FORGET_LATEST) == 0;
  how.policy = given.policy == TENON_PUBLISH_BLOCK         ? Policy::kBlock
               : given.policy == TENON_PUBLISH_DROP_OLDEST ? Policy::kDropOldest
                                                           : Policy::kError;
  if (given.capacity != 0) how.ring.capacity = given.capacity;
  if (given.slot_nbytes != 0) how.ring.slot_nbytes = given.slot_nbytes;
  if (given.max_subscribers != 0) how.max_subscribers = given.max_subscribers;
  return how;
}

tenon_publisher_subscriber describe_subscriber(const SubscriberInfo& info) noexcept {
  tenon_publisher_subscriber out{};
  out.state = static_cast<tenon_subscriber_state>(info.state);
  out.pid = info.process.pid;
  out.uid = info.process.uid;
  out.asleep = info.is_asleep ? 1 : 0;
  out.waiting = info.waiting;
  out.published = info.sent;
  out.dropped = info.dropped;
  return out;
}

}  // namespace

extern "C" {

tenon_status tenon_publisher_new(const tenon_publisher_options* options, tenon_publisher** out,
                                 tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const PublisherOptions how, read_publisher_options(options));
    TENON_ASSIGN(Publisher::Owned publisher, Publisher::create(how));
    *out = handle<tenon_publisher>(publisher.release());
    return Status::ok();
  });
}

tenon_status tenon_publisher_listen(tenon_publisher* publisher, const char* path, uint32_t mode,
                                    tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(publisher != nullptr, "publisher is NULL"));
    TENON_TRY(check_argument(path != nullptr, "path is NULL"));
    constexpr uint32_t kPermissionBits = 0777;
    TENON_TRY(check_argument((mode & ~kPermissionBits) == 0, "mode has more than permission bits"));
    const bool for_group = object(publisher)->options().peers == Peers::kGroup;
    const mode_t bits = mode != 0 ? mode : for_group ? 0660 : 0600;
    return object(publisher)->listen(path, bits);
  });
}

tenon_status tenon_publisher_add(tenon_publisher* publisher, int socket,
                                 tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(publisher != nullptr, "publisher is NULL"));
    // On failure the caller keeps the socket, also if an exception leaves add().
    struct Lent {
      tenon::os::Fd fd;
      ~Lent() { (void)fd.detach(); }
    } lent{tenon::os::Fd(socket)};
    return object(publisher)->add(&lent.fd);
  });
}

tenon_status tenon_publish(tenon_publisher* publisher, const tenon_message* message,
                           const tenon_wait* wait, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(publisher != nullptr, "publisher is NULL"));
    TENON_TRY(check_argument(message != nullptr, "message is NULL"));
    TENON_ASSIGN(const tenon::os::Wait how, read_wait(wait));
    return object(publisher)->publish(*object(message), how);
  });
}

tenon_status tenon_publisher_remove(tenon_publisher* publisher, int32_t pid,
                                    tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(publisher != nullptr, "publisher is NULL"));
    return object(publisher)->remove(pid);
  });
}

tenon_status tenon_publisher_subscribers(tenon_publisher* publisher,
                                         tenon_publisher_subscriber* out, size_t n, size_t* total,
                                         tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(publisher != nullptr, "publisher is NULL"));
    TENON_TRY(check_argument(out != nullptr || n == 0, "out is NULL"));
    TENON_TRY(check_argument(total != nullptr, "total is NULL"));
    const size_t step = n > 0 ? out->struct_size : 0;
    if (n > 0) TENON_TRY(check_output(out, "tenon_publisher_subscriber"));
    const std::vector<SubscriberInfo> all = object(publisher)->subscribers();
    for (size_t i = 0; i < std::min(n, all.size()); ++i) {
      auto* each = reinterpret_cast<tenon_publisher_subscriber*>(reinterpret_cast<std::byte*>(out) +
                                                                 i * step);
      each->struct_size = step;
      write_struct(each, describe_subscriber(all[i]));
    }
    *total = all.size();
    return Status::ok();
  });
}

tenon_status tenon_publisher_stats_get(tenon_publisher* publisher, tenon_publisher_stats* out,
                                       tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(publisher != nullptr, "publisher is NULL"));
    TENON_TRY(check_output(out, "tenon_publisher_stats"));
    const tenon::publish::PublisherStats now = object(publisher)->stats();
    tenon_publisher_stats stats{};
    stats.published = now.published;
    stats.dropped = now.dropped;
    stats.subscribers = now.subscribers;
    stats.gone = now.gone;
    write_struct(out, stats);
    return Status::ok();
  });
}

void tenon_publisher_release(tenon_publisher* publisher) noexcept {
  if (publisher != nullptr) Publisher::End()(object(publisher));
}

tenon_status tenon_subscriber_new(int socket, const tenon_connection_options* options,
                                  tenon_subscriber** out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    bool adopts = false;
    TENON_ASSIGN(const ConnectionOptions how, read_connection_options(options, 0, &adopts));
    TENON_ASSIGN(std::unique_ptr<Subscriber> subscriber, Subscriber::create(socket, how));
    if (adopts) subscriber->adopt_socket();
    *out = handle<tenon_subscriber>(subscriber.release());
    return Status::ok();
  });
}

tenon_status tenon_subscriber_connect(const char* path, const tenon_connection_options* options,
                                      const tenon_wait* wait, tenon_subscriber** out,
                                      tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(path != nullptr, "path is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    bool adopts = false;
    TENON_ASSIGN(const ConnectionOptions how, read_connection_options(options, 0, &adopts));
    TENON_ASSIGN(const tenon::os::Wait patience, read_wait(wait));
    TENON_ASSIGN(std::unique_ptr<Subscriber> subscriber, Subscriber::connect(path, how, patience));
    *out = handle<tenon_subscriber>(subscriber.release());
    return Status::ok();
  });
}

tenon_status tenon_subscriber_recv(tenon_subscriber* subscriber, const tenon_wait* wait,
                                   tenon_message** out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(subscriber != nullptr, "subscriber is NULL"));
    TENON_TRY(check_argument(out != nullptr, "out is NULL"));
    TENON_ASSIGN(const tenon::os::Wait how, read_wait(wait));
    TENON_ASSIGN(auto message, object(subscriber)->recv(how));
    *out = handle<tenon_message>(message.release());
    return Status::ok();
  });
}

int tenon_subscriber_fd(const tenon_subscriber* subscriber) noexcept {
  return subscriber == nullptr ? -1 : object(subscriber)->fd();
}

tenon_status tenon_subscriber_stats_get(const tenon_subscriber* subscriber,
                                        tenon_subscriber_stats* out, tenon_error** err) noexcept {
  return boundary(err, [&]() -> Status {
    TENON_TRY(check_argument(subscriber != nullptr, "subscriber is NULL"));
    TENON_TRY(check_output(out, "tenon_subscriber_stats"));
    const tenon::publish::SubscriberStats now = object(subscriber)->stats();
    tenon_subscriber_stats stats{};
    stats.received = now.received;
    stats.dropped = now.dropped;
    stats.pid = object(subscriber)->peer().pid;
    stats.uid = object(subscriber)->peer().uid;
    write_struct(out, stats);
    return Status::ok();
  });
}

void tenon_subscriber_release(tenon_subscriber* subscriber) noexcept { delete object(subscriber); }
}

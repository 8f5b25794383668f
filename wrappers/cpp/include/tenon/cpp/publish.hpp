/// @file
/// Publishers and subscribers: one process publishes messages, and each of them reaches every
/// subscriber. tenon/publish.h has the details.
#ifndef TENON_CPP_PUBLISH_HPP
#define TENON_CPP_PUBLISH_HPP

#include <tenon/publish.h>
#include <tenon/cpp/connection.hpp>
#include <tenon/cpp/message.hpp>
#include <tenon/cpp/text.hpp>
#include <tenon/cpp/wait.hpp>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

TENON_CPP_BEGIN

/// What publish does when a subscriber has no room for another message.
enum class PublishPolicy : tenon_publish_policy {
  /// It waits until every subscriber has room.
  kBlock = TENON_PUBLISH_BLOCK,
  /// It withdraws the oldest message that the subscriber has not taken, and never waits.
  /// tenon/publish.h says which messages such a subscriber can miss besides.
  kDropOldest = TENON_PUBLISH_DROP_OLDEST,
  /// It fails with kResourceExhausted, and no subscriber gets the message.
  kError = TENON_PUBLISH_ERROR,
};

/// How to make a publisher. 0 means the library's default.
struct PublisherOptions {
  PublishPolicy policy = PublishPolicy::kBlock;
  /// How many messages can wait for one subscriber, a power of two up to 65,536. 0 means 64.
  std::uint32_t capacity = 0;
  /// The bytes of a slot, which holds the description of one message: a multiple of 64, from 64 to
  /// 65,536. 0 means 1,024. Each subscriber takes capacity * slot_nbytes bytes.
  std::uint32_t slot_nbytes = 0;
  /// The most subscribers at a time. 0 means 256.
  std::uint32_t max_subscribers = 0;
  /// Refuse a subscriber whose user is neither this process's user nor root.
  bool same_user = false;
  /// As same_user, but also accept members of the group with this id.
  std::optional<std::uint32_t> group = std::nullopt;
  /// publish does not report that a subscriber is gone.
  bool ignore_deaths = false;
  /// A new subscriber does not get the latest message. Otherwise the publisher keeps its memory.
  bool forget_latest = false;
};

/// Figures about a publisher. tenon/publish.h explains each figure.
using PublisherStats = tenon_publisher_stats;

/// What a subscriber is doing.
enum class SubscriberState : tenon_subscriber_state {
  /// It has not read anything yet.
  kJoining = TENON_SUBSCRIBER_JOINING,
  kHere = TENON_SUBSCRIBER_HERE,
  /// It has left in order. The next publish removes it.
  kLeft = TENON_SUBSCRIBER_LEFT,
  /// It is gone. The next publish removes and reports it.
  kGone = TENON_SUBSCRIBER_GONE,
};

/// A subscriber, as its publisher sees it.
struct PublisherSubscriber {
  SubscriberState state{};
  /// The process id, as the kernel told it last: when the socket was connected, or when the
  /// subscriber took leases.
  std::int32_t pid = 0;
  /// The effective user id.
  std::uint32_t uid = 0;
  /// It sleeps until there is a message.
  bool asleep = false;
  /// How many messages it has not taken.
  std::uint64_t waiting = 0;
  /// How many messages were published since it came, also those that it did not get.
  std::uint64_t published = 0;
  /// How many of these were withdrawn before it took them.
  std::uint64_t dropped = 0;
};

/// Figures about a subscriber. tenon/publish.h explains each figure.
using SubscriberStats = tenon_subscriber_stats;

/// Sends messages to all its subscribers. The destructor removes the sockets on which it listens.
/// Subscribers still receive what was published, and then kPeerGone.
///
/// Unlike other objects, a Publisher may be used by several threads at once, as long as none of
/// them closes or moves it. After fork only the process that made the publisher can use it. The
/// child may close it.
class Publisher : public detail::Owned<Publisher, tenon_publisher, tenon_publisher_release> {
 public:
  /// Makes a publisher without subscribers.
  static Result<Publisher> try_make(const PublisherOptions& options = {}) {
    tenon_publisher_options c{};
    c.struct_size = sizeof c;
    c.flags = (options.same_user ? std::uint32_t{TENON_PUBLISHER_SAME_USER} : 0U) |
              (options.group ? std::uint32_t{TENON_PUBLISHER_GROUP} : 0U) |
              (options.ignore_deaths ? std::uint32_t{TENON_PUBLISHER_IGNORE_DEATHS} : 0U) |
              (options.forget_latest ? std::uint32_t{TENON_PUBLISHER_FORGET_LATEST} : 0U);
    c.policy = static_cast<tenon_publish_policy>(options.policy);
    c.group = options.group.value_or(0);
    c.capacity = options.capacity;
    c.slot_nbytes = options.slot_nbytes;
    c.max_subscribers = options.max_subscribers;
    return detail::make<Publisher>([&](tenon_publisher** out, tenon_error** err) {
      return tenon_publisher_new(&c, out, err);
    });
  }

  /// Makes a local socket with this path, to which subscribers connect. `mode` is the permission
  /// bits of the socket: who may connect must be able to write to it. 0 means 0600, or 0660 with
  /// PublisherOptions::group, which also gives the socket to that group. The socket of a process
  /// that has ended is replaced. A publisher can have several sockets.
  Result<void> try_listen(const std::string& path, std::uint32_t mode = 0) {
    if (!detail::is_c_text(path)) return detail::has_nul("the path");
    return detail::call(
        [&](tenon_error** err) { return tenon_publisher_listen(get(), path.c_str(), mode, err); });
  }

  /// Takes the process at the other end of a connected AF_UNIX socket as a subscriber. That process
  /// makes a Subscriber on its end. If the call succeeds, the publisher owns the socket. Unless the
  /// publisher forgets the latest message, the subscriber gets that message first.
  Result<void> try_add(int socket) {
    return detail::call([&](tenon_error** err) { return tenon_publisher_add(get(), socket, err); });
  }

  /// Sends a message to every subscriber. After a failure no subscriber gets the message, and the
  /// call can be repeated. If the wait ends first, or if the policy kError finds no room, the
  /// detail "pid" names the subscriber that has no room. The storages that the message lends stay
  /// valid for the subscribers after the message is released here. kPeerGone with the detail "pid"
  /// reports once that a subscriber is gone, and the publisher goes on.
  Result<void> try_publish(const Message& message, const Wait& wait = {}) {
    return detail::waiting(wait, [&](const tenon_wait* waiting, tenon_error** err) {
      return tenon_publish(get(), message.get(), waiting, err);
    });
  }

  /// Removes the subscribers of a process, for example one that an error has named as slow. They
  /// receive what waits for them, and then kPeerGone. A publish that waits for one of them goes on.
  /// The removal is not reported. kNotFound says that no subscriber is of this process.
  Result<void> try_remove(std::int32_t pid) {
    return detail::call([&](tenon_error** err) { return tenon_publisher_remove(get(), pid, err); });
  }

  /// Lists the subscribers.
  Result<std::vector<PublisherSubscriber>> try_subscribers() const {
    const auto all = detail::list<tenon_publisher_subscriber>(
        [&](tenon_publisher_subscriber* out, std::size_t n, std::size_t* total, tenon_error** err) {
          return tenon_publisher_subscribers(get(), out, n, total, err);
        });
    if (!all) return all.error();
    std::vector<PublisherSubscriber> subscribers;
    subscribers.reserve(all->size());
    for (const tenon_publisher_subscriber& each : *all)
      subscribers.push_back({static_cast<SubscriberState>(each.state), each.pid, each.uid,
                             each.asleep != 0, each.waiting, each.published, each.dropped});
    return subscribers;
  }

  /// Gives the figures of this moment.
  Result<PublisherStats> try_stats() const {
    return detail::fill<PublisherStats>([&](tenon_publisher_stats* out, tenon_error** err) {
      return tenon_publisher_stats_get(get(), out, err);
    });
  }

#ifndef TENON_NO_EXCEPTIONS
  // Each function throws the error that its try_ form returns.
  static Publisher make(const PublisherOptions& options = {}) { return try_make(options).value(); }
  void listen(const std::string& path, std::uint32_t mode = 0) { try_listen(path, mode).value(); }
  void add(int socket) { try_add(socket).value(); }
  void publish(const Message& message, const Wait& wait = {}) {
    try_publish(message, wait).value();
  }
  void remove(std::int32_t pid) { try_remove(pid).value(); }
  std::vector<PublisherSubscriber> subscribers() const { return try_subscribers().value(); }
  PublisherStats stats() const { return try_stats().value(); }
#endif
};

/// Receives what one publisher sends. The destructor leaves the publisher in order. Received memory
/// stays valid.
///
/// Unlike other objects, a Subscriber may be used by several threads at once, as long as none of
/// them closes or moves it. After fork only the process that made the subscriber can use it. The
/// child may close it.
class Subscriber : public detail::Owned<Subscriber, tenon_subscriber, tenon_subscriber_release> {
 public:
  /// Makes a subscriber on one end of a socket, whose other end the publisher takes or has taken
  /// (Publisher::add). The socket is borrowed until the subscriber ends, unless it is adopted. A
  /// subscriber always has a ring, so ConnectionOptions::ring is kUnsupported.
  static Result<Subscriber> try_make(int socket, const ConnectionOptions& options = {}) {
    const tenon_connection_options c = detail::c_options(options);
    return detail::make<Subscriber>([&](tenon_subscriber** out, tenon_error** err) {
      return tenon_subscriber_new(socket, &c, out, err);
    });
  }

  /// Connects to the socket of a publisher (Publisher::listen), and waits until the publisher has
  /// taken this subscriber. Every message that is published after this call reaches it, and the
  /// latest one before comes first.
  static Result<Subscriber> try_connect(const std::string& path,
                                        const ConnectionOptions& options = {},
                                        const Wait& wait = {}) {
    if (!detail::is_c_text(path)) return detail::has_nul("the path");
    const tenon_connection_options c = detail::c_options(options);
    tenon_subscriber* out = nullptr;
    const Result<void> called =
        detail::waiting(wait, [&](const tenon_wait* waiting, tenon_error** err) {
          return tenon_subscriber_connect(path.c_str(), &c, waiting, &out, err);
        });
    if (!called) return called.error();
    return adopt(out);
  }

  /// Receives the next message. If the wait ends first, nothing is lost. kPeerGone with the detail
  /// "pid" says that the publisher is gone, and that all that it published is received.
  Result<Message> try_recv(const Wait& wait = {}) {
    tenon_message* out = nullptr;
    const Result<void> called =
        detail::waiting(wait, [&](const tenon_wait* waiting, tenon_error** err) {
          return tenon_subscriber_recv(get(), waiting, &out, err);
        });
    if (!called) return called.error();
    return Message::adopt(out);
  }

  /// The fd to poll, borrowed; -1 for an empty object. When it is readable, receive with timeout 0
  /// until kWouldBlock. Receive so before the first poll too, because the fd does not become
  /// readable for a message that comes before such a call has found nothing.
  int fd() const noexcept { return tenon_subscriber_fd(get()); }

  /// Gives the figures of this moment.
  Result<SubscriberStats> try_stats() const {
    return detail::fill<SubscriberStats>([&](tenon_subscriber_stats* out, tenon_error** err) {
      return tenon_subscriber_stats_get(get(), out, err);
    });
  }

#ifndef TENON_NO_EXCEPTIONS
  // Each function throws the error that its try_ form returns.
  static Subscriber make(int socket, const ConnectionOptions& options = {}) {
    return try_make(socket, options).value();
  }
  static Subscriber connect(const std::string& path, const ConnectionOptions& options = {},
                            const Wait& wait = {}) {
    return try_connect(path, options, wait).value();
  }
  Message recv(const Wait& wait = {}) { return try_recv(wait).value(); }
  SubscriberStats stats() const { return try_stats().value(); }

  /// The messages, as an input range: `for (tenon::Message& message : subscriber)`. Each step
  /// receives without a time limit. The range ends when the publisher is gone and all that it
  /// published is received. Any other error is thrown, and a new loop goes on behind it.
  class Iterator {
   public:
    using value_type = Message;
    using difference_type = std::ptrdiff_t;

    explicit Iterator(Subscriber& from) : from_(&from) { ++*this; }
    Message& operator*() const noexcept { return message_; }
    Message* operator->() const noexcept { return &message_; }
    Iterator& operator++() {
      Result<Message> next = from_->try_recv();
      is_over_ = next.code() == Code::kPeerGone;
      message_ = is_over_ ? Message() : std::move(next).value();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const noexcept { return is_over_; }

   private:
    Subscriber* from_;
    mutable Message message_;
    bool is_over_ = false;
  };
  Iterator begin() { return Iterator(*this); }
  static std::default_sentinel_t end() noexcept { return std::default_sentinel; }
#endif
};

TENON_CPP_END

#endif

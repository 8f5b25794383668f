#include "publish/publisher.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "base/make_room.h"

namespace tenon::publish {

using channel::Connection;
using tensor::Message;

// A subscriber. The publisher's mutex_ guards all fields but the connection's own.
struct Publisher::Reader {
  Connection::Owned connection;
  UnsharedSocket unshared;        // ends before the connection closes the socket
  Connection::Standing standing;  // as publish() saw it last
  Status broken;                  // not OK: how the subscriber broke the protocol
  bool is_skipped = false;        // it does not get the message that is being published
  bool is_prepared = false;       // its connection has prepared that message, and is locked
  uint64_t sent = 0;
  uint64_t dropped = 0;
};

// Things whose end may run release functions of storages' owners. These functions may use this
// publisher, so a function that takes locks declares its Discarded before them.
struct Publisher::Discarded {
  std::vector<Connection::TakenBack> leases;
  std::vector<std::shared_ptr<Reader>> readers;
  std::shared_ptr<const Message> latest;
};

namespace {

// Copies the message, not the tensors, so that a later subscriber can get it after the caller has
// ended its own.
std::shared_ptr<const Message> copy_message(const Message& message) {
  auto copy = std::make_shared<Message>();
  copy->reserve(message.items().size());
  const auto name_of = [&](const auto& item) {
    const std::string* const name = message.name_of(item);
    return name != nullptr ? std::optional<std::string_view>(*name) : std::nullopt;
  };
  for (const Message::Item& each : message.items())
    copy->add_received(each.tensor, each.access, name_of(each));
  for (const Message::CompositeItem& each : message.composites())
    copy->add_received(each.composite, each.first_part, name_of(each));
  (void)copy->set_user_bytes(message.user_bytes());
  return copy;
}

Status name_subscriber(Status status, Connection* connection) {
  return std::move(status).with("pid", connection->borrower().pid);
}

}  // namespace

Publisher::Publisher(const PublisherOptions& options) : options_(options) {}

Result<Publisher::Owned> Publisher::create(const PublisherOptions& options) {
  TENON_TRY(channel::check_geometry(options.ring));
  if (options.max_subscribers == 0) return invalid("a publisher without subscribers");
  Owned publisher(new Publisher(options));
  publisher->seat_ = take_seat(publisher.get());
  return publisher;
}

void Publisher::End::operator()(Publisher* publisher) const noexcept {
  if (!publisher->check_process().is_ok()) {
    // A lock that cannot be taken belonged to a thread of the parent, and its data may be torn.
    if (!publisher->mutex_.try_lock()) return;
    publisher->mutex_.unlock();
    if (publisher->turn_.is_held()) return;
  } else if (publisher->seat_) {
    leave_seat(publisher->seat_.get());
    // Notifies the subscribers, even if a child has copies of the sockets by now.
    for (const auto& each : publisher->readers_) ::shutdown(each->connection->socket(), SHUT_RDWR);
  }
  delete publisher;
}

Status Publisher::check_process() const {
  if (generation_ == fork_generation()) return Status::ok();
  return Status(Code::kUnsupported,
                "the publisher belongs to the process that made it, and this one is a child of "
                "fork: make a publisher in the child");
}

Status Publisher::listen(const std::string& path, mode_t mode) {
  TENON_TRY(check_process());
  const bool for_group = options_.peers == channel::Peers::kGroup;
  return open_door(seat_, path, mode, for_group ? options_.group : static_cast<gid_t>(-1));
}

// How many subscribers have neither left nor died. The caller holds mutex_.
size_t Publisher::count_here() const {
  return static_cast<size_t>(std::count_if(readers_.begin(), readers_.end(), [](const auto& each) {
    const auto standing = each->connection->standing();
    return !standing.has_left && !standing.is_gone;
  }));
}

Status Publisher::add(os::Fd* socket, UnsharedSocket unshared) {
  TENON_TRY(check_process());
  channel::ConnectionOptions how;
  how.peers = options_.peers;
  how.group = options_.group;
  how.ring_geometry = options_.ring;
  // A subscriber sends no messages.
  how.limits = {.max_nbytes = 4096, .max_tensors = 1, .max_segments = 1};
  auto reader = std::make_shared<Reader>();
  TENON_ASSIGN(reader->connection, Connection::create(socket->get(), how));
  reader->unshared =
      unshared.has_socket() ? std::move(unshared) : UnsharedSocket::of(socket->get());
  Connection& connection = *reader->connection;
  const std::lock_guard<std::mutex> lock(mutex_);
  // Subscribers that are gone are removed by the next publish, which reports them. Until then they
  // may take as many places as the others have.
  const size_t most = options_.max_subscribers;
  if (readers_.size() >= 2 * most || (readers_.size() >= most && count_here() >= most))
    return Status(Code::kResourceExhausted,
                  format("the publisher has %u subscribers, and takes no more",
                         options_.max_subscribers))
        .with("limit", "subscribers")
        .with("limit_value", uint64_t{options_.max_subscribers});
  make_room(&readers_, 1);
  TENON_TRY(connection.begin_publishing());
  if (latest_) {
    // A message that cannot be lent any more, because its storage was dropped for example, is no
    // reason to refuse the subscriber.
    bool is_blocked = false;
    if (connection.prepare_publish(*latest_, &is_blocked).is_ok()) {
      connection.publish_prepared();
      ++reader->sent;
    }
  }
  connection.adopt_unshared_socket();
  (void)socket->detach();
  readers_.push_back(std::move(reader));
  return Status::ok();
}

// Removes the subscribers that have left or are gone. PEER_GONE: one of them is to be reported. The
// leases of a subscriber that left are taken back here, because its process may live on. When a
// process dies, its leases end by themselves. The caller holds mutex_.
Status Publisher::remove_gone(Discarded* discarded) {
  Status told;
  for (size_t i = 0; i < readers_.size();) {
    Reader& reader = *readers_[i];
    Connection& connection = *reader.connection;
    reader.standing = connection.standing();
    const bool has_left = reader.standing.has_left;
    if (!has_left && !reader.standing.is_gone && reader.broken.is_ok()) {
      ++i;
      continue;
    }
    // A peer that hung up and had read nothing never was a subscriber.
    const bool is_death = !reader.broken.is_ok() || (!has_left && reader.standing.has_joined);
    if (is_death && options_.report_deaths) {
      if (!told.is_ok()) return told;  // the next call reports this one
      const int32_t pid = connection.borrower().pid;
      told = reader.broken.is_ok()
                 ? Status(Code::kPeerGone, format("subscriber %d is gone: publish again", pid))
                 : Status(Code::kPeerGone,
                          format("subscriber %d is removed, because it broke the protocol: publish "
                                 "again",
                                 pid))
                       .caused_by(reader.broken);
      told = std::move(told).with("pid", pid);
    }
    make_room(&discarded->readers, 1);
    // Nobody else ends these leases while a child of the subscriber lives.
    if (has_left || reader.standing.is_gone) connection.take_all_back(&discarded->leases);
    if (is_death) ++totals_.gone;
    discarded->readers.push_back(std::move(readers_[i]));
    readers_.erase(readers_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return told;
}

// Returns a subscriber that has no room, or null. With kDropOldest it makes room instead, and
// returns null. The caller holds mutex_.
std::shared_ptr<Publisher::Reader> Publisher::find_slow(Discarded* discarded) {
  for (const std::shared_ptr<Reader>& each : readers_) {
    Reader& reader = *each;
    reader.is_skipped = false;
    if (reader.standing.is_stuck) {
      reader.connection->flush_some();
      reader.standing = reader.connection->standing();
    }
    if (reader.standing.has_room) continue;
    if (options_.policy != Policy::kDropOldest) return each;
    // A frame that waits for the socket cannot be withdrawn.
    reader.is_skipped = reader.standing.is_stuck;
    if (reader.is_skipped) continue;
    uint64_t withdrawn = 0;
    (void)reader.connection->withdraw_oldest(&discarded->leases, &withdrawn);
    reader.dropped += withdrawn;
    totals_.dropped += withdrawn;
  }
  return nullptr;
}

// Sends the message to all subscribers that have room, or to none. `slow` is set if one of them
// needs a frame on the socket, and the socket is full. Then nothing is sent. The caller holds
// mutex_.
Status Publisher::send_to_all(const Message& message, std::shared_ptr<Reader>* slow) {
  struct Undo {
    std::vector<std::shared_ptr<Reader>>* readers;
    ~Undo() {
      for (const auto& each : *readers) {
        if (std::exchange(each->is_prepared, false)) each->connection->drop_prepared();
      }
    }
  } undo{&readers_};
  for (const std::shared_ptr<Reader>& each : readers_) {
    if (each->is_skipped) continue;
    bool is_blocked = false;
    TENON_TRY(each->connection->prepare_publish(message, &is_blocked));
    each->is_prepared = true;
    if (!is_blocked) continue;
    if (options_.policy != Policy::kDropOldest) {
      *slow = each;
      return Status::ok();
    }
    each->is_prepared = false;
    each->is_skipped = true;
    each->connection->drop_prepared();
  }
  for (const std::shared_ptr<Reader>& each : readers_) {
    ++each->sent;
    if (each->is_prepared) {
      each->connection->publish_prepared();
      each->is_prepared = false;
    } else {
      ++each->dropped;
      ++totals_.dropped;
    }
  }
  return Status::ok();
}

// Reads what a subscriber sent. A subscriber sends only bells, so a message breaks the protocol.
void Publisher::read_bells(Reader* reader) {
  const os::Wait now{.timeout_ns = 0};
  const Result<std::unique_ptr<Message>> got = reader->connection->recv(now);
  const Code code = got.status().code();
  // The connection's watch reports the peer's end (Standing::is_gone).
  if (code == Code::kWouldBlock || code == Code::kPeerGone) return;
  reader->broken =
      got.is_ok() ? Status(Code::kCorrupt, "a subscriber that sends messages") : got.status();
}

// Waits until something has changed at a subscriber. If its ring is full, that is room in the ring,
// which a bell reports. If its socket is full, that is room in the socket. `lock` is that of
// mutex_, which the function releases meanwhile.
Status Publisher::wait_for(Reader* reader, os::Waiter* waiter, std::unique_lock<std::mutex>* lock) {
  Connection& connection = *reader->connection;
  const auto has_changed = [&] {
    const Connection::Standing now = connection.standing();
    return now.has_room || now.is_gone || now.has_left;
  };
  const bool for_ring = !reader->standing.is_stuck && !reader->standing.has_room;
  lock->unlock();
  Status ready;
  if (for_ring && waiter->may_wait() && os::spin_for(&spin_, false, has_changed)) {
    ready = waiter->check_cancel();
  } else if (for_ring) {
    connection.wait_for_room();
    if (!has_changed())
      ready =
          waiter->until_ready(connection.socket(), POLLIN, "room for a message at a subscriber");
    connection.stop_waiting_for_room();
  } else {
    ready = waiter->until_ready(connection.socket(), POLLOUT, "a subscriber to read its socket");
  }
  lock->lock();
  if (!ready.is_ok()) return name_subscriber(std::move(ready), &connection);
  if (for_ring) read_bells(reader);
  if (has_changed() || !reader->broken.is_ok() || !for_ring) return Status::ok();
  // A subscriber that rings again and again and takes nothing must not hold the call beyond its
  // time.
  Status over = waiter->check_over(connection.socket(), "room for a message at a subscriber");
  return over.is_ok() ? over : name_subscriber(std::move(over), &connection);
}

Status Publisher::publish(const Message& message, const os::Wait& wait) {
  TENON_TRY(check_process());
  Discarded discarded;
  os::Waiter waiter(wait);
  const Result<os::WaitLock::Held> turn =
      turn_.lock_within(os::WaitLimits(wait), "another thread to publish its message");
  if (!turn.is_ok()) return turn.status();
  TENON_TRY(waiter.check_cancel());
  std::shared_ptr<const Message> latest = options_.keep_latest ? copy_message(message) : nullptr;
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    TENON_TRY(remove_gone(&discarded));
    std::shared_ptr<Reader> slow = find_slow(&discarded);
    if (!slow) {
      TENON_TRY(send_to_all(message, &slow));
      if (!slow) break;
    }
    if (options_.policy == Policy::kError) {
      return name_subscriber(
          Status(Code::kResourceExhausted,
                 format("subscriber %d has not taken %u messages, and there is no room for another "
                        "one",
                        slow->connection->borrower().pid, options_.ring.capacity))
              .with("limit", "capacity")
              .with("limit_value", uint64_t{options_.ring.capacity}),
          slow->connection.get());
    }
    Status waited = wait_for(slow.get(), &waiter, &lock);
    // If remove() was called meanwhile, `slow` is the last reference.
    if (slow.use_count() == 1) discarded.readers.push_back(std::move(slow));
    if (!waited.is_ok()) return waited;
  }
  ++totals_.published;
  discarded.latest = std::exchange(latest_, std::move(latest));
  if (has_stuck()) flush_later();
  return Status::ok();
}

Status Publisher::remove(int32_t pid) {
  TENON_TRY(check_process());
  Discarded discarded;
  const std::lock_guard<std::mutex> lock(mutex_);
  discarded.readers.reserve(readers_.size());
  std::erase_if(readers_, [&](std::shared_ptr<Reader>& each) {
    if (each->connection->borrower().pid != pid) return false;
    // Wakes a publish() that waits for this subscriber.
    (void)::shutdown(each->connection->socket(), SHUT_RDWR);
    discarded.readers.push_back(std::move(each));
    return true;
  });
  if (!discarded.readers.empty()) return Status::ok();
  return Status(Code::kNotFound, format("the publisher has no subscriber of process %d", pid))
      .with("pid", pid);
}

bool Publisher::has_stuck() const noexcept {
  return std::any_of(readers_.begin(), readers_.end(),
                     [](const auto& each) { return each->connection->is_stuck(); });
}

bool Publisher::flush_stuck() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& each : readers_) each->connection->flush_some();
  return has_stuck();
}

std::vector<SubscriberInfo> Publisher::subscribers() {
  std::vector<SubscriberInfo> all;
  if (!check_process().is_ok()) return all;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const std::shared_ptr<Reader>& each : readers_) {
    const Connection::Standing now = each->connection->standing();
    SubscriberInfo info;
    info.process = each->connection->borrower();
    info.state = now.has_left                           ? SubscriberState::kLeft
                 : now.is_gone || !each->broken.is_ok() ? SubscriberState::kGone
                 : now.has_joined                       ? SubscriberState::kHere
                                                        : SubscriberState::kJoining;
    info.is_asleep = now.is_asleep;
    info.waiting = now.waiting;
    info.sent = each->sent;
    info.dropped = each->dropped;
    all.push_back(info);
  }
  return all;
}

PublisherStats Publisher::stats() {
  if (!check_process().is_ok()) return {};
  const std::lock_guard<std::mutex> lock(mutex_);
  PublisherStats stats = totals_;
  stats.subscribers = readers_.size();
  return stats;
}

}  // namespace tenon::publish

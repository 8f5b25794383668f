/// @file
/// Queues: many processes send messages to many processes, and each message goes to exactly one of
/// them. tenon/queue.h has the details.
#ifndef TENON_CPP_QUEUE_HPP
#define TENON_CPP_QUEUE_HPP

#include <tenon/queue.h>
#include <tenon/cpp/message.hpp>
#include <tenon/cpp/storage.hpp>
#include <tenon/cpp/wait.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

TENON_CPP_BEGIN

/// How to make a queue or to join one. 0 means the library's default. To join, leave the first
/// three numbers 0, or give the queue's own numbers.
struct QueueOptions {
  /// The most processes that can be members at a time, 1 to 256. 0 means 32.
  std::uint32_t members = 0;
  /// How many messages of one member can wait, a power of two from 2 to 65,536. 0 means 128. When
  /// so many wait, the member's next send waits for a receiver.
  std::uint32_t capacity = 0;
  /// The bytes of a slot, which holds the description of one message: a multiple of 64, from 64 to
  /// 65,536. 0 means 1,024. The queue takes members * capacity * slot_nbytes bytes.
  std::uint32_t slot_nbytes = 0;
  /// The largest descriptor that is accepted, in bytes.
  std::uint64_t max_message_nbytes = 0;
  /// The most tensors that are accepted in one message.
  std::uint64_t max_tensors = 0;
  /// send and recv do not report that a member has died.
  bool ignore_deaths = false;
  /// A message comes again if its receiver dies, or leaves the queue, before it has released the
  /// message. All of TENON_QUEUE_REDELIVER in tenon/queue.h holds. To join, leave it false, or give
  /// what the queue has.
  bool redeliver = false;
};

/// Figures about a queue. tenon/queue.h explains each figure.
using QueueStats = tenon_queue_stats;

/// What a member of a queue is doing.
enum class QueueMemberState : tenon_queue_member_state {
  /// It is about to become a member.
  kJoining = TENON_QUEUE_MEMBER_JOINING,
  kHere = TENON_QUEUE_MEMBER_HERE,
  /// It left in order.
  kLeft = TENON_QUEUE_MEMBER_LEFT,
  /// Its process ended while it was a member.
  kDead = TENON_QUEUE_MEMBER_DEAD,
};

/// A member of a queue, or one that has gone and whose place nobody has taken since. The member
/// itself wrote these facts, and they may be wrong.
struct QueueMember {
  /// The member's number in the queue.
  std::uint32_t index = 0;
  QueueMemberState state{};
  /// The process id, as the member itself sees it.
  std::int32_t pid = 0;
  /// The member's effective user id.
  std::uint32_t uid = 0;
  /// How many messages it has sent that no process has received yet.
  std::uint64_t waiting = 0;
  /// It sleeps until there is a message or room for one.
  bool asleep = false;
  /// It is this member.
  bool self = false;
};

/// The membership of this process in a queue. A queue lies in a storage. Another process opens that
/// storage, in any way in which storages travel, and joins the queue with it. The destructor leaves
/// the queue.
///
/// Unlike other objects, a Queue may be used by several threads at once, as long as none of them
/// closes or moves it. leave() ends the waits of the other threads. After fork only the process
/// that joined can send and receive. The child joins again with storage().
class Queue : public detail::Owned<Queue, tenon_queue, tenon_queue_release> {
 public:
  /// Makes a queue in a new storage, and makes this process its first member.
  static Result<Queue> try_make(const QueueOptions& options = {}) {
    const tenon_queue_options c = c_options(options);
    return detail::make<Queue>(
        [&](tenon_queue** out, tenon_error** err) { return tenon_queue_new(&c, out, err); });
  }

  /// Joins the queue that lies in a storage, which must be opened writable. The membership keeps
  /// the storage.
  static Result<Queue> try_join(const Storage& storage, const QueueOptions& options = {}) {
    const tenon_queue_options c = c_options(options);
    return detail::make<Queue>([&](tenon_queue** out, tenon_error** err) {
      return tenon_queue_join(storage.get(), &c, out, err);
    });
  }

  /// The storage in which the queue lies, to hand it to other processes. No other code may write to
  /// it. Empty for an empty object.
  Storage storage() const noexcept { return Storage::retain(tenon_queue_storage(get())); }

  /// Sends a message to one of the processes that receive from the queue, this process included. If
  /// the capacity of this member is used up, the call waits for room. After a failure nothing was
  /// sent, and the call can be repeated. The storages that the message lends stay valid for the
  /// receiver after the message is released here. kPeerGone with the detail "member" reports once
  /// that a member has died, and the queue goes on.
  Result<void> try_send(const Message& message, const Wait& wait = {}) {
    return detail::waiting(wait, [&](const tenon_wait* waiting, tenon_error** err) {
      return tenon_queue_send(get(), message.get(), waiting, err);
    });
  }

  /// Receives a message. If the wait ends first, nothing is lost. kPeerGone reports once that a
  /// member has died (details "pid" and "member"). With the detail "lost", a message went with its
  /// sender. The queue goes on after both.
  Result<Message> try_recv(const Wait& wait = {}) {
    tenon_message* out = nullptr;
    const Result<void> called =
        detail::waiting(wait, [&](const tenon_wait* waiting, tenon_error** err) {
          return tenon_queue_recv(get(), waiting, &out, err);
        });
    if (!called) return called.error();
    return Message::adopt(out);
  }

  /// Sends messages in their order, and waits until all are sent. If the wait ends or another error
  /// comes before that, the result is how many were sent, and a call with the others gives the
  /// error. If none was sent, this call gives it.
  Result<std::size_t> try_send_many(std::span<const Message> messages, const Wait& wait = {}) {
    std::vector<const tenon_message*> all;
    all.reserve(messages.size());
    for (const Message& each : messages) all.push_back(each.get());
    std::size_t sent = 0;
    const Result<void> called =
        detail::waiting(wait, [&](const tenon_wait* waiting, tenon_error** err) {
          return tenon_queue_send_many(get(), all.data(), all.size(), waiting, &sent, err);
        });
    if (!called) return called.error();
    return sent;
  }

  /// Receives up to `most` messages: waits for the first one, and then takes those that are there.
  /// An error that comes after the first message is the result of the next receive.
  Result<std::vector<Message>> try_recv_many(std::size_t most, const Wait& wait = {}) {
    std::vector<tenon_message*> all(most);
    std::size_t received = 0;
    const Result<void> called =
        detail::waiting(wait, [&](const tenon_wait* waiting, tenon_error** err) {
          return tenon_queue_recv_many(get(), waiting, all.data(), most, &received, err);
        });
    if (!called) return called.error();
    std::vector<Message> messages(received);
    for (std::size_t i = 0; i < received; ++i) messages[i] = Message::adopt(all[i]);
    return messages;
  }

  /// Tells how often a received message had been delivered before (QueueOptions::redeliver).
  static std::uint32_t redelivered(const Message& message) noexcept {
    return tenon_queue_redelivered(message.get());
  }

  /// Takes back the messages of this member that no process has received, and returns how many they
  /// were. Each message is either received or taken back.
  Result<std::size_t> try_discard() {
    std::size_t discarded = 0;
    const Result<void> called = detail::call(
        [&](tenon_error** err) { return tenon_queue_discard(get(), &discarded, err); });
    if (!called) return called.error();
    return discarded;
  }

  /// Gives the fd by which an event loop waits for messages, borrowed from the queue. When it is
  /// readable (POLLIN), call try_recv with timeout 0. The fd stays readable until that has returned
  /// kWouldBlock, and it may be readable in vain. Do not read from it. tenon_queue_recv_fd in
  /// tenon/queue.h says what other members see meanwhile.
  Result<int> try_recv_fd() { return fd_by(tenon_queue_recv_fd); }

  /// Gives the fd by which an event loop waits for room. It is readable (POLLIN) when there may be
  /// room, until try_send with timeout 0 has returned kWouldBlock.
  Result<int> try_send_fd() { return fd_by(tenon_queue_send_fd); }

  /// Says that the program does not look at the fds for now, so that senders wake other receivers.
  /// The next call with timeout 0 that returns kWouldBlock ends the pause.
  void pause_fds() noexcept { tenon_queue_pause_fds(get()); }

  /// Gives the figures of this moment.
  Result<QueueStats> try_stats() const {
    return detail::fill<QueueStats>([&](tenon_queue_stats* out, tenon_error** err) {
      return tenon_queue_stats_get(get(), out, err);
    });
  }

  /// Lists the members in the order of their numbers.
  Result<std::vector<QueueMember>> try_members() const {
    const auto all = detail::list<tenon_queue_member>(
        [&](tenon_queue_member* out, std::size_t n, std::size_t* total, tenon_error** err) {
          return tenon_queue_members(get(), out, n, total, err);
        });
    if (!all) return all.error();
    std::vector<QueueMember> members;
    members.reserve(all->size());
    for (const tenon_queue_member& each : *all)
      members.push_back({each.index, static_cast<QueueMemberState>(each.state), each.pid, each.uid,
                         each.waiting, each.asleep != 0, each.self != 0});
    return members;
  }

  /// Leaves the queue. Threads of this process that wait in it get kInvalidArgument, and so do
  /// later calls. Messages that were sent stay in the queue as long as this process lives. A second
  /// call does nothing.
  void leave() noexcept { tenon_queue_leave(get()); }

#ifndef TENON_NO_EXCEPTIONS
  // Each function throws the error that its try_ form returns.
  static Queue make(const QueueOptions& options = {}) { return try_make(options).value(); }
  static Queue join(const Storage& storage, const QueueOptions& options = {}) {
    return try_join(storage, options).value();
  }
  void send(const Message& message, const Wait& wait = {}) { try_send(message, wait).value(); }
  Message recv(const Wait& wait = {}) { return try_recv(wait).value(); }
  std::size_t send_many(std::span<const Message> messages, const Wait& wait = {}) {
    return try_send_many(messages, wait).value();
  }
  std::vector<Message> recv_many(std::size_t most, const Wait& wait = {}) {
    return try_recv_many(most, wait).value();
  }
  std::size_t discard() { return try_discard().value(); }
  int recv_fd() { return try_recv_fd().value(); }
  int send_fd() { return try_send_fd().value(); }
  QueueStats stats() const { return try_stats().value(); }
  std::vector<QueueMember> members() const { return try_members().value(); }
#endif

 private:
  Result<int> fd_by(tenon_status (*function)(tenon_queue*, int*, tenon_error**)) {
    int out = -1;
    const Result<void> called =
        detail::call([&](tenon_error** err) { return function(get(), &out, err); });
    if (!called) return called.error();
    return out;
  }

  static tenon_queue_options c_options(const QueueOptions& options) noexcept {
    tenon_queue_options c{};
    c.struct_size = sizeof c;
    c.flags = (options.ignore_deaths ? std::uint32_t{TENON_QUEUE_IGNORE_DEATHS} : 0U) |
              (options.redeliver ? std::uint32_t{TENON_QUEUE_REDELIVER} : 0U);
    c.members = options.members;
    c.capacity = options.capacity;
    c.slot_nbytes = options.slot_nbytes;
    c.max_message_nbytes = options.max_message_nbytes;
    c.max_tensors = options.max_tensors;
    return c;
  }
};

TENON_CPP_END

#endif

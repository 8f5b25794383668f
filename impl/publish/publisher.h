// A publisher sends messages to many subscribers, each message to each of them. It has one
// connection (channel/connection.h) for each subscriber, with a ring of its own
// (channel/frame_ring.h). So the memory that a subscriber can write is read by the publisher alone,
// and a hostile subscriber disturbs no other one. A tenon_publisher of the C API is a Publisher.
//
// The socket of the connection brings subscribers and publisher together, carries fds, wakes a
// subscriber that sleeps, and tells when the other end is gone.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/fork.h"
#include "base/status.h"
#include "channel/connection.h"
#include "os/fd.h"
#include "os/spin.h"
#include "os/wait.h"
#include "os/wait_lock.h"
#include "publish/door.h"
#include "tensor/message.h"

namespace tenon::publish {

// What publish() does when a subscriber has no room for another message. kBlock: it waits.
// kDropOldest: it withdraws the subscriber's oldest message. kError: it fails.
enum class Policy { kBlock, kDropOldest, kError };

struct PublisherOptions {
  channel::ring_page::Geometry ring{64, 1024};  // of each subscriber: slots, and bytes of a slot
  uint32_t max_subscribers = 256;
  Policy policy = Policy::kBlock;
  bool report_deaths = true;  // publish() returns PEER_GONE once for each death
  bool keep_latest = true;    // a new subscriber gets the latest message first
  channel::Peers peers = channel::Peers::kAny;
  gid_t group = 0;  // used with Peers::kGroup
};

enum class SubscriberState {
  kJoining = 1,  // it has not read anything yet
  kHere = 2,
  kLeft = 3,  // it has left in order
  kGone = 4,  // its process has ended, or it broke the protocol
};

// One entry of the list of subscribers.
struct SubscriberInfo {
  memory::Borrower process;
  SubscriberState state = SubscriberState::kJoining;
  bool is_asleep = false;
  uint64_t waiting = 0;  // messages in its ring that it has not taken
  uint64_t sent = 0;     // messages since it came, with those that were dropped
  uint64_t dropped = 0;  // messages that were withdrawn, or for which its socket had no room
};

struct PublisherStats {
  uint64_t published = 0;
  uint64_t dropped = 0;      // of all subscribers together
  uint64_t subscribers = 0;  // now
  uint64_t gone = 0;         // subscribers that died or broke the protocol
};

// Any thread may call the functions. Calls of publish() wait for each other. The functions lend and
// release storages, so their caller holds no ranked lock (base/lock_rank.h). In a forked child all
// functions but the destructor return UNSUPPORTED or nothing.
//
// Locks: publish() takes `turn_` and then `mutex_`. It holds `turn_` for the whole call, also while
// it waits for a subscriber. `mutex_` guards all that changes, and is never held during a wait.
class Publisher {
 public:
  // Ends a publisher, which no thread uses any more. Subscribers still receive the messages that
  // lie in their rings. In a forked child, which has no copies of the sockets, it only frees
  // memory.
  struct End {
    void operator()(Publisher* publisher) const noexcept;
  };
  using Owned = std::unique_ptr<Publisher, End>;

  // INVALID_ARGUMENT: no ring has such sizes.
  static Result<Owned> create(const PublisherOptions& options);

  // Lets subscribers connect to a socket with this path, until the publisher ends. The errors are
  // those of os::listen_local_again() and os::serve_fd().
  Status listen(const std::string& path, mode_t mode);
  // Takes the peer of a connected socket as a subscriber. The publisher closes the socket when the
  // subscriber is removed. On failure the caller keeps the socket. `unshared` is empty, or made for
  // this socket. RESOURCE_EXHAUSTED with limit "subscribers", and the errors of
  // Connection::create() and of making a ring.
  Status add(os::Fd* socket, UnsharedSocket unshared = {});
  // Publishes a message. After an error no subscriber gets it. The wait also bounds the time until
  // another thread's publish() is over. Errors: those of the wait, with the slow subscriber as
  // detail "pid". RESOURCE_EXHAUSTED with limit "capacity" and "pid": policy kError. PEER_GONE with
  // "pid": a subscriber has died or broke the protocol. It is removed, and the call reports it
  // once, if `report_deaths`. A subscriber that left in order or never read anything is removed
  // without a report. UNSUPPORTED: memory of a device. Also the errors of lending.
  Status publish(const tensor::Message& message, const os::Wait& wait);

  // Removes the subscribers of this process. They take what waits for them, and are then told that
  // the publisher is gone. A publish() that waits for one of them goes on. NOT_FOUND: there is
  // none.
  Status remove(int32_t pid);

  std::vector<SubscriberInfo> subscribers();
  PublisherStats stats();
  const PublisherOptions& options() const noexcept { return options_; }

  // Hands frames to the sockets that did not take them before. True: some are left. The library's
  // thread calls this (door.h).
  bool flush_stuck() noexcept;

 private:
  struct Reader;  // a subscriber
  struct Discarded;
  explicit Publisher(const PublisherOptions& options);
  Status check_process() const;
  size_t count_here() const;
  Status remove_gone(Discarded* discarded);
  std::shared_ptr<Reader> find_slow(Discarded* discarded);
  Status send_to_all(const tensor::Message& message, std::shared_ptr<Reader>* slow);
  Status wait_for(Reader* reader, os::Waiter* waiter, std::unique_lock<std::mutex>* lock);
  void read_bells(Reader* reader);
  bool has_stuck() const noexcept;

  const PublisherOptions options_;
  const uint64_t generation_ = fork_generation();
  std::shared_ptr<Seat> seat_;
  os::WaitLock turn_;
  os::Spin spin_;  // guarded by turn_
  std::mutex mutex_;
  std::vector<std::shared_ptr<Reader>> readers_;
  std::shared_ptr<const tensor::Message> latest_;
  PublisherStats totals_;
};

}  // namespace tenon::publish

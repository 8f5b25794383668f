// A queue carries messages between processes, each message to exactly one receiver. Its memory
// (page.h) is a storage that all members map, so a queue is handed on by every way by which a
// storage is: fd, name, connection. A tenon_queue of the C API is a Queue.
//
// A message is deposited (channel/deposit.h): the sender's depot (memory/depot.h) keeps it, and its
// ticket (channel/ticket.h) goes through a slot of the sender's lane. A lease says that a message
// or a process still uses a block of memory. The lender does not use the block again before the
// lease has ended. The leases of a message that nobody has received yet belong to the message, and
// end when the sender's depot ends. The receiver holds them from its fetch on, which is the step
// that opens the message's memory. A send or a receive makes no system call, except to wake a
// thread that sleeps, to sleep itself, to get new memory, and when two processes meet for the first
// time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/counted.h"
#include "base/fork.h"
#include "base/status.h"
#include "channel/deposit.h"
#include "channel/fetch.h"
#include "channel/known_lender.h"
#include "memory/board.h"
#include "os/spin.h"
#include "os/wait.h"
#include "os/wait_limits.h"
#include "os/wait_lock.h"
#include "queue/page.h"
#include "queue/process_watch.h"
#include "queue/ready_fd.h"
#include "storage/storage.h"
#include "tensor/message.h"

namespace tenon::queue {

struct QueueOptions {
  // How recv() fetches messages. Private openings (share/by_fd.h) must not be asked for: every
  // fetch would fail, and lose its message. A message beyond `limits` is lost too.
  channel::FetchOptions fetch;
  // recv() and send() return PEER_GONE once for each death. A lost message is reported in any case.
  bool report_deaths = true;
};

// What tenon_queue_stats reports.
struct QueueStats {
  uint64_t waiting = 0;   // messages in all lanes that nobody has received
  uint64_t sent = 0;      // by this member
  uint64_t received = 0;  // by this member
  uint64_t lost = 0;      // sent by this member; a receiver took them and died before its fetch
};

struct MemberInfo {
  uint32_t index = 0;
  page::MemberWord word;
  uint32_t user = 0;
  uint64_t waiting = 0;  // messages in its lane
  bool asleep = false;   // a thread of it waits for a message or for room
  bool is_self = false;
};

// One process's membership. Any thread may call its functions. Sends wait for each other, and so do
// receives. The functions deposit, fetch and release storages, so their caller holds no ranked lock
// (base/lock_rank.h).
//
// A forked child is no member: send() and recv() return UNSUPPORTED there, and leave() and the end
// of the child's copy do nothing to the queue. members() and stats() still read the memory there.
// The child joins by join() on the same storage.
//
// Locks: send_lock_ and recv_lock_ are held for a whole send or receive, while the thread waits
// too. sent_mutex_ and members_mutex_ are only taken for a short time, and never both. The private
// fields stand in groups, each of which begins with the lock that guards it. Atomic fields are read
// without that lock too.
//
// The private functions are explained at their definitions: queue.cc (members, deaths),
// queue_send.cc and queue_recv.cc.
class Queue final : public ProcessWatcher {
 public:
  // Makes a storage, writes an empty queue into it, and joins. INVALID_ARGUMENT for a geometry that
  // cannot be, and the errors of storage::Storage::create() and join().
  static Result<Ref<Queue>> create(const page::Geometry& geometry, const QueueOptions& options);
  // Joins the queue in a storage. A field of `wanted` that is not 0 must be equal to the queue's.
  // INVALID_ARGUMENT: a field differs, or the storage is private, read-only, on a device, or may be
  // cut short. CORRUPT, INCOMPATIBLE: the storage holds no queue that this version knows.
  // RESOURCE_EXHAUSTED with limit "members": the queue is full of members.
  static Result<Ref<Queue>> join(Ref<storage::Storage> storage, const page::Geometry& wanted,
                                 const QueueOptions& options);

  const Ref<storage::Storage>& storage() const noexcept { return storage_; }
  const page::Geometry& geometry() const noexcept { return geometry_; }
  const QueueOptions& options() const noexcept { return options_; }

  // Sends a message. The call waits while the lane of this member is full, which means that nobody
  // has taken the message in the next slot. After an error nothing was sent. Errors: those of the
  // wait and of channel::deposit_message(). INVALID_ARGUMENT: a slot of this queue is too short for
  // the ticket. PEER_GONE with details "pid" and "member": a member has died, and the next call
  // goes on. Each death is reported once. CORRUPT: another member has overwritten this lane, and
  // this member cannot send any more.
  Status send(const tensor::Message& message, const os::Wait& wait);
  // Receives a message that any member sent to this queue, this member included. Messages of one
  // sender come in order. If a sender does not answer the fetch of its message, the message stays
  // in this object (Lane::stalled), later calls try it again, and other senders' messages come
  // before it. Errors: those of the wait (TIMEOUT names a sender that does not answer).
  // RESOURCE_EXHAUSTED or IO without the detail "lost": memory or fds are lacking, and the message
  // stays here too. PEER_GONE with detail "pid": a member has died. CORRUPT with detail "pid": that
  // member sent what is no message, and this member reads nothing more of its lane until the entry
  // has a new member. A message that was taken and can never be fetched is lost. The error of its
  // fetch then comes with the detail "lost": PEER_GONE if its sender died, RESOURCE_EXHAUSTED if it
  // is beyond the limits of QueueOptions, INCOMPATIBLE or CORRUPT if this Tenon cannot read it (its
  // lane is given up too). After each of these errors the next call goes on.
  Result<std::unique_ptr<tensor::Message>> recv(const os::Wait& wait);

  // Sends messages in their order, and returns how many it sent. It waits until all are sent. If
  // the wait ends or another error comes after the first message, the result is the number of
  // messages that were sent, and the next call meets the error again. If none was sent, the result
  // is the error, as from send().
  Result<size_t> send_many(std::span<const tensor::Message* const> messages, const os::Wait& wait);
  // Waits for the first message as recv() does, then takes those that are there, as many as fit
  // into `out`. Returns how many it received. An error that comes after the first message is the
  // result of the next recv() or recv_many().
  Result<size_t> recv_many(std::span<std::unique_ptr<tensor::Message>> out, const os::Wait& wait);

  // Takes back the messages of this member that nobody has taken, and returns how many they were. A
  // send that waits for room goes on. The newest message comes first, so the messages that
  // receivers take meanwhile are older than those that are taken back. UNSUPPORTED in a forked
  // child.
  Result<size_t> discard();

  // Gives the fd that is readable when recv() may not have to wait: there may be a message, a death
  // or a message that was lost may be reported, or leave() was called. It is borrowed. A program
  // that finds it readable calls recv() with timeout 0 until that returns WOULD_BLOCK. The fd stays
  // readable until then. The first call starts a thread. Errors: ReadyFd::open(), and UNSUPPORTED
  // in a forked child.
  Result<int> recv_fd();
  // The same for send() and room.
  Result<int> send_fd();
  // Call this when the program will not look at the fds for a while. Otherwise a sender could wake
  // this member for a message that another member would receive at once. Both fds become readable.
  // The next recv() or send() with timeout 0 that returns WOULD_BLOCK ends the pause. The call does
  // nothing for a side (receiving or sending) on which
  // another thread is in recv() or send(), or in a forked child.
  void pause_fds() noexcept;

  // Leaves the queue in order. Messages that were sent and not received stay in the queue as long
  // as this process lives. Threads that wait in send() or recv() are woken. They and later calls of
  // send() and recv() return INVALID_ARGUMENT. members() and stats() still work. A second call does
  // nothing. exit() and the end of the last reference leave too.
  void leave() noexcept override;
  // The entries that have had a member, also of members that left or died.
  std::vector<MemberInfo> members();
  QueueStats stats();

  // ProcessWatcher (process_watch.h): the service thread calls these.
  void process_ended(uint32_t pid) noexcept override;
  void file_closed() noexcept override;
  void look_again() noexcept override;

 private:
  // How this member reads another one's lane.
  struct Lane {
    uint64_t cursor = 0;    // the position of the next message
    uint32_t put_back = 0;  // LaneHeader::put_back as it was when no put-back was left
    // The message that was taken last, in a queue that redelivers.
    page::SlotWord taken;
    bool has_start = false;
    // The lane's member wrote what cannot be, so the lane is given up. `bad_generation` is the
    // generation of that member. Once the entry has another generation, a new member has it, and
    // the lane is read again.
    bool is_bad = false;
    uint32_t bad_generation = 0;
    // If `has_stalled`: the bytes of the message that was taken last and is not fetched yet. They
    // stay here if the sender does not answer, and nothing more is taken from the lane until the
    // fetch has ended. Otherwise the vector only keeps its memory for the next message.
    std::vector<std::byte> stalled;
    size_t stalled_nbytes = 0;
    bool has_stalled = false;
    std::span<const std::byte> bytes() const noexcept {
      return std::span(stalled).first(stalled_nbytes);
    }
    page::Kind stalled_kind = page::Kind::kTicket;
    // The depot of the lane's member, for messages of the short form, and the number
    // (LaneHeader::address_number) of the address from which `lender` was made. A message with
    // another number needs a new lender.
    std::unique_ptr<channel::KnownLender> lender;
    uint32_t address = 0;
    uint32_t lender_generation = 0;  // of the lane's member when `lender` was made
    // The layout of the last tensor (ShortForm::layout_bytes()) and the bytes of its storage, which
    // have been checked together. Most tensors of a lane have the same two, and need no new check.
    std::vector<std::byte> checked_layout;
    uint64_t checked_nbytes = 0;
    // The address that the taken message needs, and its number. It is read before the message is
    // taken: afterwards the lane may have another member, which writes its own address there.
    std::optional<channel::Ticket> read_address;
    uint32_t read_number = 0;
  };
  // The content of a slot.
  struct Form {
    page::Kind kind = page::Kind::kTicket;
    std::span<const std::byte> bytes;
  };
  // No message of a lane has this position, because positions have 48 bits.
  static constexpr uint64_t kNoPosition = UINT64_MAX;
  // A message of this member that lies in a slot, or that a receiver took and has not fetched yet.
  struct Sent {
    Ref<memory::Depot> depot;
    memory::Depot::MessageSlot place;
    Ref<memory::Depot> outer_depot;  // kIndirect: the message that holds the ticket
    memory::Depot::MessageSlot outer;
    uint64_t position = kNoPosition;
    uint32_t taker = 0;  // only in `unfetched_`: who took it (page::taker_of())
    // In a queue that redelivers: the message, if the slot alone does not hold it, until it was
    // acknowledged, and how often it was put back.
    std::unique_ptr<tensor::Message> message;
    uint32_t put_backs = 0;

    // Each send moves one. As calls these took 3 % of the instructions of a message.
    [[gnu::always_inline]] Sent() noexcept = default;
    [[gnu::always_inline]] Sent(Sent&&) noexcept = default;
    [[gnu::always_inline]] Sent& operator=(Sent&&) noexcept = default;
    [[gnu::always_inline]] ~Sent() = default;
  };
  // A message as it goes into a slot.
  struct Ready {
    Sent sent;
    page::Kind kind = page::Kind::kTicket;
    uint32_t address = 0;  // kShort: the number of the address that it names
    std::vector<std::byte> bytes;
  };
  // Another member, as this one saw it last.
  enum class Watch : uint8_t {
    kNone,
    kProcess,  // by a pidfd
    kLock,     // by its lock: it is of another pid namespace
  };
  struct Known {
    page::MemberWord word;
    Watch watch = Watch::kNone;  // how this member learns of its death
  };
  struct Death {
    uint32_t pid = 0;
    uint32_t member = 0;
  };

  Queue(Ref<storage::Storage> storage, const page::Geometry& geometry, const QueueOptions& options);
  void dispose() noexcept override;
  Status enter();
  Status check_member() const {
    return generation_ == fork_generation() && !has_left_.load(std::memory_order_acquire)
               ? Status::ok()
               : refuse_call();
  }
  Status refuse_call() const;
  void show_on_board() noexcept;
  static void count(const tensor::Message& message, memory::board::Word* messages,
                    memory::board::Word* nbytes) noexcept;
  bool is_drained(uint32_t index) const noexcept;
  uint64_t next_position(uint32_t index) const noexcept;
  void drop_held(uint32_t index) const noexcept;
  // Looks at the members if one has joined or left since the last time.
  void look_at_members() {
    if (header().joined.load(std::memory_order_acquire) !=
        joined_seen_.load(std::memory_order_relaxed))
      look_at_all_members();
  }
  void look_at_all_members();
  // What look_at_member() found.
  enum class Change { kNone, kLeft, kDead };
  bool is_gone(uint32_t index, page::MemberWord word) noexcept;
  bool is_near(uint32_t index) const noexcept;
  bool has_lost_lock(uint32_t index, page::MemberWord word) noexcept;
  bool look_at_locks() noexcept;
  void note_old_deaths();
  // How long after a wake look_again() checks that this member's messages have been taken. If not,
  // it wakes other receivers.
  static constexpr int64_t kLookAgainNs = 100'000'000;
  // How often a member looks which of its messages were acknowledged, if it does not send.
  static constexpr int64_t kLetGoNs = 500'000'000;
  // The kernel tells that a file was closed before it drops the lock. So this member asks for the
  // locks for a while.
  static constexpr int64_t kFirstLockLookNs = 5'000'000;
  static constexpr int64_t kLockLookNs = 50'000'000;
  static constexpr int64_t kLockLooksNs = 1'000'000'000;
  Change look_at_member(uint32_t index);
  bool mark_dead(uint32_t index, page::MemberWord word) noexcept;
  void note_death(uint32_t index, uint32_t pid) noexcept;
  Status take_death();
  bool has_deaths() const noexcept {
    return n_deaths_.load(std::memory_order_acquire) > 0 ||
           header().joined.load(std::memory_order_seq_cst) !=
               joined_seen_.load(std::memory_order_relaxed);
  }
  void forget_taken_by(uint32_t taker) noexcept;
  static bool withdraw(const Sent& sent) noexcept;
  void lose() noexcept;
  void wake_own_sender() noexcept;
  void put_back_taken_by(uint32_t taker) noexcept;
  bool put_back(Sent sent) noexcept;
  bool put_back_as(Sent* sent, bool may_be_short);
  Result<Ready> deposit_again(const tensor::Message& message, bool may_be_short);
  bool let_go_of_acknowledged() noexcept;

  Status send_within(const tensor::Message& message, const os::WaitLimits& limits, bool is_first);
  Result<bool> has_room(uint64_t position) const;
  Status publish(const tensor::Message& message);
  Result<bool> publish_short(const tensor::Message& message);
  Result<Ready> deposit_ticket_of(const tensor::Message& message) const;
  void fill_next(Sent sent, const Form& form);
  void prefetch_slot() const noexcept;
  bool ring_one_receiver() noexcept;
  void ring_sender(uint32_t index) noexcept;
  void ring_all() noexcept;

  bool take_next(uint32_t* from);
  bool take_from(uint32_t index);
  enum class Take { kDone, kChanged, kScrambled };
  Take take_slot(uint32_t index, page::Word* slot, uint64_t seen);
  bool take_put_back(uint32_t index);
  bool sees_put_back(uint32_t index) const noexcept;
  void read_address_of(uint32_t index, std::span<const std::byte> bytes);
  bool has_new_member(uint32_t index) noexcept;
  void forget_lenders();
  void give_up_lane(uint32_t index) noexcept;
  Status name_scrambled();
  void find_start(uint32_t index) noexcept;
  bool sees_message() const noexcept;
  bool has_message(uint32_t index) noexcept;
  void pass_wake_on() noexcept;
  Result<std::unique_ptr<tensor::Message>> recv_within(const os::WaitLimits& limits,
                                                       bool* has_slept);
  size_t recv_more(std::span<std::unique_ptr<tensor::Message>> out) noexcept;
  Result<std::unique_ptr<tensor::Message>> open(uint32_t index);
  Result<std::unique_ptr<tensor::Message>> open_short(uint32_t index);
  Result<std::unique_ptr<tensor::Message>> open_user_bytes(uint32_t index);
  Status give_up(uint32_t index, const Status& why);
  std::optional<Result<std::unique_ptr<tensor::Message>>> retry_stalled(
      const os::WaitLimits& limits, uint32_t* stalled);
  void forget_stalled(uint32_t index) noexcept;
  Status name_stalled(const Status& over, uint32_t index) const;

  page::Header& header() const noexcept { return page::header(base_); }
  page::Member& member(uint32_t index) const noexcept { return page::member(base_, index); }
  std::byte* lane(uint32_t index) const noexcept { return page::lane(base_, geometry_, index); }

  Ref<storage::Storage> storage_;
  std::byte* base_;
  page::Geometry geometry_;
  QueueOptions options_;
  uint64_t generation_ = fork_generation();
  uint32_t self_ = UINT32_MAX;                       // the index of this member
  uint32_t taker_ = 0;                               // page::taker_of() this member
  page::SlotState taken_ = page::SlotState::kTaken;  // what it makes a slot that it takes
  uint64_t pid_namespace_ = 0;                       // of this process when it joined
  uint64_t lock_at_ = 0;                             // page::lock_at() this member
  std::atomic<bool> has_left_{false};
  // Set at the end of enter(). The service thread may call look_again() before that.
  std::atomic<bool> is_member_{false};
  // What other processes see of this member (docs/format/board.md). Without a row on the board the
  // figures are counted in `unseen_figures_`.
  memory::OnBoard on_board_;
  memory::board::QueueFigures unseen_figures_{};
  memory::board::QueueFigures* figures_ = &unseen_figures_;

  os::WaitLock send_lock_;
  uint64_t next_ = 0;         // the position of the next message of this lane
  size_t last_nbytes_ = 0;    // of the slot of the last message
  bool has_lane_ = false;     // this member is in Header::lanes
  Ref<memory::Depot> depot_;  // the depot whose address the lane has
  os::Spin send_spin_;
  // Guards the next two, and changes of `depot_`. A put-back holds it while it fills a slot, and
  // leave() while it says that this member has left. Held for a short time.
  std::mutex sent_mutex_;
  std::vector<Sent> sent_;       // by slot
  std::vector<Sent> unfetched_;  // taken and perhaps not fetched, and their slot is filled again
  ReadyFd send_ready_;
  std::atomic<uint64_t> n_sent_{0};
  std::atomic<uint64_t> n_lost_{0};
  // The odd number with which each member was woken last, so that nobody is woken twice for it.
  std::array<std::atomic<uint32_t>, page::kMostMembers> rung_{};
  std::atomic<uint32_t> last_rung_{0};

  os::WaitLock recv_lock_;
  std::vector<Lane> lanes_;
  uint32_t n_stalled_ = 0;  // lanes with a `stalled` message
  // The lane from which the next try of the lanes with a `stalled` message begins.
  uint32_t next_stalled_ = 0;
  uint32_t next_lane_ = 0;                                  // the lane whose turn it is
  uint32_t scrambled_ = UINT32_MAX;                         // a lane that was given up just now
  uint32_t from_last_ = 0;                                  // the lane of the last message
  std::array<uint32_t, page::kMostMembers> sender_rung_{};  // as rung_, for senders
  os::Spin recv_spin_;
  ReadyFd recv_ready_;
  Status recv_later_;  // the result of the next recv(), if it is an error
  // look_again() makes the fd readable, so that the program tries a stalled lane again.
  std::atomic<bool> has_retry_{false};
  std::atomic<uint64_t> n_received_{0};

  std::mutex members_mutex_;  // guards the next two; held for a short time
  std::vector<Known> known_;
  std::deque<Death> deaths_;
  std::atomic<uint32_t> n_deaths_{0};
  std::atomic<int64_t> lock_looks_end_ns_{0};  // until then, look_again() asks for the locks
  std::atomic<bool> has_unwatched_{false};     // there was no fd to watch a member
  std::atomic<bool> has_gone_{false};          // a member is gone, and recv() has not looked yet
  std::atomic<uint64_t> joined_seen_{UINT64_MAX};
};

}  // namespace tenon::queue

#include "queue/queue.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "os/host.h"
#include "queue/sleep.h"

namespace tenon::queue {
namespace {

using page::MemberState;
using page::MemberWord;
using page::SlotState;

Status check_storage(const storage::Storage& storage) {
  const char* why = nullptr;
  if (storage.device_memory() != nullptr) {
    why = "a queue lies in memory of the CPU, and the storage is on a device";
  } else if (!storage.segment()) {
    why = "a queue lies in shared memory, and the storage is private or empty";
  } else if (storage.is_read_only()) {
    why = "every member of a queue writes to it, and the storage is read-only: open it writable";
  } else if (!storage.is_sealed()) {
    why =
        "the storage may be cut short, which would kill the members of a queue: use one of "
        "Tenon's";
  } else if (reinterpret_cast<uintptr_t>(storage.data()) % 64 != 0) {
    why = "a queue begins at a multiple of 64 bytes";
  }
  return why == nullptr ? Status::ok() : Status(Code::kInvalidArgument, why);
}

Status check_number(uint32_t wanted, uint32_t there, const char* what) {
  if (wanted == 0 || wanted == there) return Status::ok();
  return invalid(format("the queue was made with %s %u, not %u", what, there, wanted));
}

}  // namespace

Result<Ref<Queue>> Queue::create(const page::Geometry& geometry, const QueueOptions& options) {
  TENON_TRY(page::check_geometry(geometry));
  storage::StorageOptions how;
  how.isolated = true;
  how.zeroed = true;
  TENON_ASSIGN(Ref<storage::Storage> storage, storage::Storage::create(how, geometry.nbytes()));
  TENON_ASSIGN(std::byte* const base, storage->data_mut());
  page::write_header(base, geometry);
  return join(std::move(storage), geometry, options);
}

Result<Ref<Queue>> Queue::join(Ref<storage::Storage> storage, const page::Geometry& wanted,
                               const QueueOptions& options) {
  TENON_TRY(storage->check_lender());
  TENON_TRY(check_storage(*storage));
  std::array<std::byte, sizeof(page::Header)> bytes;
  if (storage->nbytes() < bytes.size())
    return Status(Code::kCorrupt, "the storage is too short for a queue")
        .with("field", std::string("queue"));
  std::memcpy(bytes.data(), storage->data(), bytes.size());
  TENON_ASSIGN(const page::Geometry geometry, page::read_header(bytes, storage->nbytes()));
  TENON_TRY(check_number(wanted.members, geometry.members, "members"));
  TENON_TRY(check_number(wanted.capacity, geometry.capacity, "capacity"));
  TENON_TRY(check_number(wanted.slot_nbytes, geometry.slot_nbytes, "slot_nbytes"));
  if (wanted.redelivers && !geometry.redelivers)
    return invalid("the queue was not made to redeliver messages: join it without that option");
  auto queue = Ref<Queue>::adopt(new Queue(std::move(storage), geometry, options));
  add_watcher(queue.get());
  TENON_TRY(queue->enter());
  queue->show_on_board();
  return queue;
}

Queue::Queue(Ref<storage::Storage> storage, const page::Geometry& geometry,
             const QueueOptions& options)
    : storage_(std::move(storage)),
      base_(storage_->segment()->base() + storage_->offset()),
      geometry_(geometry),
      options_(options),
      sent_(geometry.capacity),
      lanes_(geometry.members),
      known_(geometry.members) {
  if (geometry.redelivers) taken_ = SlotState::kHeld;
}

void Queue::dispose() noexcept {
  if (generation_ == fork_generation()) {
    leave();
    remove_watcher(this);
    recv_ready_.end();
    send_ready_.end();
    on_board_.leave();
    lanes_.clear();
    channel::KnownLender::forget_gone();
  }
  storage_ = nullptr;
}

void Queue::show_on_board() noexcept {
  const memory::SegmentKey file = storage_->segment()->key();
  const uint64_t generation =
      page::member_of(member(self_).word.load(std::memory_order_relaxed)).generation;
  memory::board::QueueFigures* const row =
      on_board_.join_queue({file.device, file.inode, storage_->offset()}, generation << 32 | self_);
  if (row != nullptr) figures_ = row;
}

// Adds a message to two figures of the board. The caller is the only thread that writes them.
void Queue::count(const tensor::Message& message, memory::board::Word* messages,
                  memory::board::Word* nbytes) noexcept {
  uint64_t sum = 0;
  for (const tensor::Message::Item& item : message.items()) sum += item.tensor->nbytes();
  memory::board::add(*messages, 1);
  memory::board::add(*nbytes, sum);
}

// Whether nobody will receive anything from this lane any more.
bool Queue::is_drained(uint32_t index) const noexcept {
  for (uint32_t i = 0; i < geometry_.capacity; ++i) {
    const uint64_t word = page::slot(lane(index), geometry_, i)->load(std::memory_order_acquire);
    if (page::slot_of(word).state == SlotState::kFull) return false;
  }
  return true;
}

// The first position of a lane that was never used.
uint64_t Queue::next_position(uint32_t index) const noexcept {
  uint64_t next = 0;
  for (uint32_t i = 0; i < geometry_.capacity; ++i) {
    const page::SlotWord slot =
        page::slot_of(page::slot(lane(index), geometry_, i)->load(std::memory_order_acquire));
    if (slot.state != SlotState::kEmpty) next = std::max(next, slot.position + 1);
  }
  return next;
}

// Ends the state kHeld of all slots of a lane that a joiner takes over. The former member puts no
// message back any more, so a message that a receiver holds is that receiver's alone.
void Queue::drop_held(uint32_t index) const noexcept {
  for (uint32_t i = 0; i < geometry_.capacity; ++i) {
    page::Word* const slot = page::slot(lane(index), geometry_, i);
    const page::SlotWord word = page::slot_of(slot->load(std::memory_order_acquire));
    if (word.state == SlotState::kHeld) (void)page::acknowledge(slot, word.position, word.taker);
  }
  page::Half& put_back = page::lane_header(lane(index)).put_back;
  put_back.store((put_back.load(std::memory_order_relaxed) + 1) & ~1U, std::memory_order_seq_cst);
}

// Takes an entry for this member. It prefers entries that no member ever had, so that the entry of
// a former member stays readable as long as possible.
Status Queue::enter() {
  const auto pid = static_cast<uint32_t>(os::process_id());
  pid_namespace_ = os::pid_namespace();
  if (Result<int> file = storage_->segment()->lending_fd(); file.is_ok())
    open_lock_file(this, file.value());
  const auto take = [&](uint32_t index, uint64_t seen) {
    const MemberWord joining{pid, (page::member_of(seen).generation + 1) & 0xffffffU,
                             MemberState::kJoining};
    page::Member& entry = member(index);
    if (!entry.word.compare_exchange_strong(seen, page::word_of(joining),
                                            std::memory_order_acq_rel))
      return false;
    entry.pid_namespace.store(pid_namespace_, std::memory_order_relaxed);
    entry.started.store(process_start(pid), std::memory_order_relaxed);
    entry.user.store(os::user_id(), std::memory_order_relaxed);
    lock_at_ = page::lock_at(index, joining.generation);
    const bool is_locked = hold_lock(this, lock_at_);
    entry.lock.store(is_locked ? page::lock_of(joining.generation) : 0, std::memory_order_relaxed);
    // Clears the bits of a member that ended asleep. Nobody else may clear them, because the entry
    // may have a new member by then.
    page::remove(&header().receivers_asleep, index);
    page::remove(&header().senders_asleep, index);
    if (geometry_.redelivers) drop_held(index);
    const uint64_t next = next_position(index);
    seen = page::word_of(joining);
    const MemberWord here{pid, joining.generation, MemberState::kHere};
    // A process of another pid namespace may have taken the entry of this one for a dead member's.
    if (!entry.word.compare_exchange_strong(seen, page::word_of(here), std::memory_order_acq_rel)) {
      drop_lock(this, lock_at_);
      return false;
    }
    self_ = index;
    taker_ = page::taker_of(index, joining.generation);
    next_ = next;
    return true;
  };
  for (const bool again : {false, true}) {
    for (uint32_t index = 0; index < geometry_.members && self_ == UINT32_MAX; ++index) {
      uint64_t seen = member(index).word.load(std::memory_order_acquire);
      MemberWord word = page::member_of(seen);
      bool is_free = word.state == MemberState::kFree;
      if (again) {
        const MemberWord dead{word.pid, word.generation, MemberState::kDead};
        // No member has noticed this death yet.
        if (word.state == MemberState::kHere && is_gone(index, word) &&
            member(index).word.compare_exchange_strong(seen, page::word_of(dead),
                                                       std::memory_order_acq_rel)) {
          word = dead;
          seen = page::word_of(dead);
        }
        is_free = word.state == MemberState::kLeft || word.state == MemberState::kDead ||
                  (word.state == MemberState::kJoining && process_has_ended(word.pid, 0));
        is_free = is_free && is_drained(index);
      }
      if (is_free) (void)take(index, seen);
    }
  }
  if (self_ == UINT32_MAX)
    return Status(Code::kResourceExhausted,
                  format("the queue has %u members, as many as it was made for, or they left "
                         "messages that nobody has received: make it with more members",
                         geometry_.members))
        .with("limit", std::string("members"))
        .with("limit_value", uint64_t{geometry_.members});
  note_old_deaths();
  header().joined.fetch_add(1, std::memory_order_seq_cst);
  look_at_members();
  ring_all();  // sleeping members watch this process from now on
  is_member_.store(true, std::memory_order_release);
  return Status::ok();
}

// Whether a member is of this process's pid namespace. A pid of another namespace says nothing
// here.
bool Queue::is_near(uint32_t index) const noexcept {
  return member(index).pid_namespace.load(std::memory_order_relaxed) == pid_namespace_;
}

// Whether a member held its lock when it joined and does not hold it now.
bool Queue::has_lost_lock(uint32_t index, MemberWord word) noexcept {
  return member(index).lock.load(std::memory_order_relaxed) == page::lock_of(word.generation) &&
         is_unlocked(this, page::lock_at(index, word.generation));
}

// Whether the process of a member has ended.
bool Queue::is_gone(uint32_t index, MemberWord word) noexcept {
  if (!is_near(index)) return has_lost_lock(index, word);
  return process_has_ended(word.pid, member(index).started.load(std::memory_order_relaxed));
}

// The deaths before this process joined are not reported.
void Queue::note_old_deaths() {
  const std::lock_guard<std::mutex> lock(members_mutex_);
  for (uint32_t index = 0; index < geometry_.members; ++index) {
    const MemberWord word = page::member_of(member(index).word.load(std::memory_order_acquire));
    if (word.state == MemberState::kDead) known_[index] = {word, Watch::kNone};
  }
}

// The failure of check_member().
Status Queue::refuse_call() const {
  if (generation_ != fork_generation())
    return Status(Code::kUnsupported,
                  "the queue was joined by the process from which this one was forked: join it "
                  "again on the same storage (tenon_queue_join)");
  return Status(Code::kInvalidArgument, "this process has left the queue");
}

void Queue::leave() noexcept {
  if (self_ == UINT32_MAX || generation_ != fork_generation() || has_left_.exchange(true)) return;
  page::Member& entry = member(self_);
  if (geometry_.redelivers) {
    // A put-back that has begun ends before the lane can get another member, and none begins.
    const std::lock_guard<std::mutex> lock(sent_mutex_);
  }
  uint64_t seen = entry.word.load(std::memory_order_acquire);
  MemberWord word = page::member_of(seen);
  if (word.state == MemberState::kHere) {
    word.state = MemberState::kLeft;
    entry.word.compare_exchange_strong(seen, page::word_of(word), std::memory_order_acq_rel);
  }
  drop_lock(this, lock_at_);  // after the word, or the member would look dead
  header().joined.fetch_add(1, std::memory_order_seq_cst);
  // Wakes the threads of this process that wait in the queue, so that they see that it was left.
  wake(&entry.receive);
  wake(&entry.send);
  recv_ready_.leave();
  send_ready_.leave();
}

Result<int> Queue::recv_fd() {
  TENON_TRY(check_member());
  return recv_ready_.open(&member(self_).receive, &header().receivers_asleep, self_);
}

Result<int> Queue::send_fd() {
  TENON_TRY(check_member());
  return send_ready_.open(&member(self_).send, &header().senders_asleep, self_);
}

void Queue::pause_fds() noexcept {
  try {
    if (!check_member().is_ok()) return;
    const os::WaitLimits at_once(os::Wait{.timeout_ns = 0});
    if (const auto lock = recv_lock_.lock_within(at_once, "another thread to leave the queue");
        lock.is_ok()) {
      if (recv_ready_.disarm()) pass_wake_on();
      recv_ready_.settle();
    }
    if (const auto lock = send_lock_.lock_within(at_once, "another thread to leave the queue");
        lock.is_ok()) {
      (void)send_ready_.disarm();
      send_ready_.settle();
    }
  } catch (...) {
    // No memory to say that another thread has the lock.
  }
}

// ---- the other members

void Queue::look_at_all_members() {
  const uint64_t joined = header().joined.load(std::memory_order_acquire);
  if (joined_seen_.exchange(joined, std::memory_order_relaxed) == joined) return;
  has_gone_.store(true, std::memory_order_relaxed);
  bool has_dead = false;
  std::vector<uint32_t> takers;
  {
    const std::lock_guard<std::mutex> lock(members_mutex_);
    for (uint32_t index = 0; index < geometry_.members; ++index) {
      const MemberWord before = known_[index].word;
      const Change change = look_at_member(index);
      const MemberWord now = known_[index].word;
      has_dead = has_dead || change == Change::kDead;
      if (change != Change::kNone) takers.push_back(page::taker_of(index, now.generation));
      // Adds the members that had the entry before. This member may never have seen some of them.
      constexpr uint32_t kGenerations = 15;
      const uint32_t gone =
          std::min((now.generation - before.generation) & 0xffffffU, kGenerations);
      for (uint32_t i = 1; i <= gone; ++i)
        takers.push_back(page::taker_of(index, now.generation - i));
    }
  }
  for (const uint32_t taker : takers) forget_taken_by(taker);
  // A joiner wakes the sleeping members, so that they watch it. The dead member may have ended
  // before it did so.
  if (has_dead) ring_all();
}

// Returns what this call found. The caller holds members_mutex_.
Queue::Change Queue::look_at_member(uint32_t index) {
  const MemberWord word = page::member_of(member(index).word.load(std::memory_order_acquire));
  Known& known = known_[index];
  if (known.word == word && (known.watch != Watch::kNone || word.state != MemberState::kHere))
    return Change::kNone;
  const bool is_same = known.word.generation == word.generation;
  if (word.state == MemberState::kLeft && known.word.state == MemberState::kHere && is_same) {
    known = {word, Watch::kNone};
    return Change::kLeft;
  }
  const bool was_seen_dead = known.word.state == MemberState::kDead && is_same;
  if (word.state == MemberState::kDead && known.watch != Watch::kProcess && !was_seen_dead) {
    // Another member found the death first.
    known = {word, Watch::kNone};
    note_death(index, word.pid);
    return Change::kDead;
  }
  if (word.state != MemberState::kHere) return Change::kNone;
  known = {word, Watch::kNone};
  Status watched;
  if (is_near(index)) {
    if (word.pid == static_cast<uint32_t>(os::process_id())) return Change::kNone;
    watched = watch_process(this, word.pid, member(index).started.load(std::memory_order_relaxed));
    if (watched.is_ok()) known.watch = Watch::kProcess;
  } else if (member(index).lock.load(std::memory_order_relaxed) == page::lock_of(word.generation)) {
    watched = watch_locks(this);
    if (watched.is_ok()) known.watch = Watch::kLock;
    // The lock is asked for after the watch has begun, so its end is not missed in between.
    if (has_lost_lock(index, word)) watched = Status(Code::kPeerGone, "the member has ended");
  }
  if (watched.code() == Code::kResourceExhausted) {
    has_unwatched_.store(true, std::memory_order_relaxed);
    look_later(kLookAgainNs);
  }
  if (watched.code() != Code::kPeerGone) return Change::kNone;
  return mark_dead(index, word) ? Change::kDead : Change::kNone;
}

// Returns false if the member left in order before it ended. The caller holds members_mutex_.
bool Queue::mark_dead(uint32_t index, MemberWord word) noexcept {
  known_[index].watch = Watch::kNone;
  known_[index].word.state = MemberState::kDead;
  uint64_t seen = page::word_of(word);
  const MemberWord dead{word.pid, word.generation, MemberState::kDead};
  if (member(index).word.compare_exchange_strong(seen, page::word_of(dead),
                                                 std::memory_order_acq_rel)) {
    header().died.fetch_add(1, std::memory_order_release);
  } else if (page::member_of(seen).state != MemberState::kDead) {
    return false;  // it left in order before it ended
  }
  note_death(index, word.pid);
  return true;
}

// The caller holds members_mutex_.
void Queue::note_death(uint32_t index, uint32_t pid) noexcept {
  has_gone_.store(true, std::memory_order_relaxed);
  // More deaths than members can only come from a member that overwrites the entries.
  if (deaths_.size() >= page::kMostMembers) return;
  try {
    deaths_.push_back({pid, index});
    n_deaths_.fetch_add(1, std::memory_order_release);
  } catch (...) {
    // There is no memory. So the death is not reported here, but the entry says it.
  }
}

void Queue::process_ended(uint32_t pid) noexcept {
  for (uint32_t index = 0; index < geometry_.members; ++index) {
    uint32_t taker = 0;
    {
      const std::lock_guard<std::mutex> lock(members_mutex_);
      const Known& known = known_[index];
      if (known.watch != Watch::kProcess || known.word.pid != pid) continue;
      taker = page::taker_of(index, known.word.generation);
      mark_dead(index, known.word);
    }
    forget_taken_by(taker);
  }
  wake(&member(self_).receive);
  wake(&member(self_).send);
}

void Queue::file_closed() noexcept {
  if (!look_at_locks()) return;
  lock_looks_end_ns_.store(os::monotonic_ns() + kLockLooksNs, std::memory_order_relaxed);
  look_later(kFirstLockLookNs);
}

// Looks which members of other pid namespaces have ended. Returns whether some are still here.
bool Queue::look_at_locks() noexcept {
  bool has_others = false;
  bool has_dead = false;
  for (uint32_t index = 0; index < geometry_.members; ++index) {
    uint32_t taker = 0;
    {
      const std::lock_guard<std::mutex> lock(members_mutex_);
      const Known known = known_[index];
      if (known.watch != Watch::kLock) continue;
      if (!has_lost_lock(index, known.word)) {
        has_others = true;
        continue;
      }
      taker = page::taker_of(index, known.word.generation);
      mark_dead(index, known.word);
    }
    forget_taken_by(taker);
    has_dead = true;
  }
  if (has_dead) {
    wake(&member(self_).receive);
    wake(&member(self_).send);
  }
  return has_others;
}

Status Queue::take_death() {
  const std::lock_guard<std::mutex> lock(members_mutex_);
  if (deaths_.empty()) return Status::ok();
  const Death death = deaths_.front();
  deaths_.pop_front();
  n_deaths_.fetch_sub(1, std::memory_order_relaxed);
  if (!options_.report_deaths) return Status::ok();
  return Status(Code::kPeerGone,
                format("process %u, a member of the queue, has ended without leaving it; the "
                       "queue goes on",
                       death.pid))
      .with("pid", int64_t{death.pid})
      .with("member", int64_t{death.member});
}

std::vector<MemberInfo> Queue::members() {
  // A forked child must not lock, and watches nobody.
  if (generation_ == fork_generation()) look_at_members();
  std::vector<MemberInfo> all;
  for (uint32_t index = 0; index < geometry_.members; ++index) {
    MemberInfo info;
    info.index = index;
    info.word = page::member_of(member(index).word.load(std::memory_order_acquire));
    // A hostile member may have written any state.
    if (info.word.state == MemberState::kFree || info.word.state > MemberState::kDead) continue;
    info.user = static_cast<uint32_t>(member(index).user.load(std::memory_order_relaxed));
    info.is_self = index == self_;
    info.asleep = ((member(index).receive.asleep.load(std::memory_order_relaxed) |
                    member(index).send.asleep.load(std::memory_order_relaxed)) &
                   1) != 0;
    for (uint32_t i = 0; i < geometry_.capacity; ++i) {
      const uint64_t word = page::slot(lane(index), geometry_, i)->load(std::memory_order_relaxed);
      if (page::slot_of(word).state == SlotState::kFull) ++info.waiting;
    }
    all.push_back(info);
  }
  return all;
}

QueueStats Queue::stats() {
  QueueStats stats;
  for (const MemberInfo& each : members()) stats.waiting += each.waiting;
  stats.sent = n_sent_.load(std::memory_order_relaxed);
  stats.received = n_received_.load(std::memory_order_relaxed);
  stats.lost = n_lost_.load(std::memory_order_relaxed);
  return stats;
}

// ---- waking

// A receiver that was woken may be stopped, or its wait may have ended just then. So this member
// checks again a little later whether somebody has received its messages. There may also be fds by
// now to watch the members that could not be watched.
void Queue::look_again() noexcept {
  if (!is_member_.load(std::memory_order_acquire)) return;
  if (has_unwatched_.exchange(false, std::memory_order_relaxed)) {
    joined_seen_.store(UINT64_MAX, std::memory_order_relaxed);
    try {
      look_at_members();
    } catch (...) {
      has_unwatched_.store(true, std::memory_order_relaxed);
      look_later(kLookAgainNs);
    }
    wake(&member(self_).receive);
    wake(&member(self_).send);
  }
  if (geometry_.redelivers && let_go_of_acknowledged()) look_later(kLetGoNs);
  if (const int64_t end_ns = lock_looks_end_ns_.load(std::memory_order_relaxed);
      end_ns != 0 && look_at_locks()) {
    if (os::monotonic_ns() < end_ns) {
      look_later(kLockLookNs);
    } else {
      lock_looks_end_ns_.store(0, std::memory_order_relaxed);
    }
  }
  if (has_retry_.exchange(false, std::memory_order_relaxed)) recv_ready_.signal();
  if (is_drained(self_)) return;
  while (ring_one_receiver()) {
  }
}

void Queue::ring_all() noexcept {
  for (uint32_t index = 0; index < geometry_.members; ++index) {
    if (index == self_) continue;
    page::Member& entry = member(index);
    if ((entry.receive.asleep.load(std::memory_order_seq_cst) & 1) != 0) wake(&entry.receive);
    if ((entry.send.asleep.load(std::memory_order_seq_cst) & 1) != 0) wake(&entry.send);
  }
}

}  // namespace tenon::queue

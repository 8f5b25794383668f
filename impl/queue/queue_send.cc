// The sender's side of a queue (queue.h): the functions of Queue by which a member fills slots of
// its lane, wakes receivers, and withdraws what a receiver that died had taken.
#include <sched.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/prefetch.h"
#include "queue/queue.h"
#include "queue/short_form.h"
#include "queue/sleep.h"

namespace tenon::queue {
namespace {

using channel::Deposited;
using memory::Depot;
using page::Half;
using page::SlotState;

// Withdraws a message that was deposited, unless it went into a slot.
class DepositGuard {
 public:
  // The caller keeps a reference to the depot.
  DepositGuard(Depot* depot, Depot::MessageSlot place) noexcept : depot_(depot), place_(place) {}
  DepositGuard(const DepositGuard&) = delete;
  DepositGuard& operator=(const DepositGuard&) = delete;
  ~DepositGuard() {
    if (depot_ != nullptr) (void)depot_->withdraw(place_);
  }
  void keep() noexcept { depot_ = nullptr; }

 private:
  Depot* depot_;
  Depot::MessageSlot place_;
};

// Writes on the board (memory/board.h) since when a send waits for room. The destructor writes that
// none waits.
class FullMark {
 public:
  explicit FullMark(memory::board::Word* since_ns) noexcept : since_ns_(since_ns) {}
  FullMark(const FullMark&) = delete;
  FullMark& operator=(const FullMark&) = delete;
  ~FullMark() {
    if (is_set_) memory::board::put(*since_ns_, 0);
  }
  void set() noexcept {
    if (std::exchange(is_set_, true)) return;
    memory::board::put(*since_ns_, static_cast<uint64_t>(os::monotonic_ns()));
  }

 private:
  memory::board::Word* since_ns_;
  bool is_set_ = false;
};

// Puts a ticket that is longer than a slot into a message of its own, which has a short ticket.
Result<Deposited> deposit_ticket(std::span<const std::byte> ticket) {
  storage::StorageOptions how;
  how.mode = memory::Mode::kLenderWrites;
  TENON_ASSIGN(Ref<storage::Storage> storage,
               storage::Storage::create_from(how, ticket.data(), ticket.size()));
  const std::array<int64_t, 1> size{static_cast<int64_t>(ticket.size())};
  const std::array<int64_t, 1> stride{1};
  const tensor::Layout layout{page::kBytes, size, stride, 0};
  TENON_ASSIGN(const Ref<tensor::Tensor> bytes,
               tensor::Tensor::create(std::move(storage), layout, 0));
  tensor::Message message;
  tensor::Tensor* const only = bytes.get();
  TENON_TRY(message.add(std::span(&only, 1), nullptr, memory::Access::kAuto));
  return channel::deposit_message(message);
}

}  // namespace

// Whether the slot for `position` can be filled. CORRUPT: the slot's word is none that this member
// or a receiver writes.
Result<bool> Queue::has_room(uint64_t position) const {
  const page::SlotWord slot =
      page::slot_of(page::slot(lane(self_), geometry_, position)->load(std::memory_order_seq_cst));
  const bool is_of_last_round = slot.position + geometry_.capacity == position;
  if (slot.state == SlotState::kTaken && is_of_last_round) return true;
  if (slot.state == SlotState::kEmpty) return true;
  if (slot.state == SlotState::kFull && is_of_last_round) return false;
  if (slot.state == SlotState::kHeld && is_of_last_round && geometry_.redelivers) return false;
  return Status(Code::kCorrupt,
                "another member has overwritten this process's lane of the queue: join a new queue")
      .with("field", std::string("queue"));
}

// Prefetches the cache lines of the next slot. The next message will most likely be as long as the
// last one.
void Queue::prefetch_slot() const noexcept {
  const auto* const slot =
      reinterpret_cast<const std::byte*>(page::slot(lane(self_), geometry_, next_));
  for (size_t at = 0; at < last_nbytes_; at += 64) prefetch_for_write(slot + at);
}

Status Queue::send(const tensor::Message& message, const os::Wait& wait) {
  const tensor::Message* const one = &message;
  return send_many(std::span(&one, 1), wait).status();
}

Result<size_t> Queue::send_many(std::span<const tensor::Message* const> messages,
                                const os::Wait& wait) {
  TENON_TRY(check_member());
  const os::WaitLimits limits(wait);
  const Result<os::WaitLock::Held> lock =
      send_lock_.lock_within(limits, "another thread to leave the queue");
  if (!lock.is_ok()) {
    send_ready_.note_busy();
    return lock.status();
  }
  const Settled settled(&send_ready_);
  (void)send_ready_.disarm();
  if (depot_) depot_->prefetch_next();
  prefetch_slot();
  size_t sent = 0;
  for (const tensor::Message* message : messages) {
    Status status = send_within(*message, limits, sent == 0);
    if (!status.is_ok() && sent == 0) return status;
    if (!status.is_ok()) break;
    ++sent;
  }
  return sent;
}

// Sends one message with the lock held. Only the first message of a call reports a death. At a
// later message the error ends the call, which then returns how many messages it sent. The death
// stays in `deaths_`, and the next call reports it.
Status Queue::send_within(const tensor::Message& message, const os::WaitLimits& limits,
                          bool is_first) {
  FullMark full(&figures_->full_since_ns);
  for (;;) {
    look_at_members();
    if (n_deaths_.load(std::memory_order_acquire) > 0) {
      if (!is_first && options_.report_deaths)
        return Status(Code::kPeerGone, "a member of the queue has died");
      TENON_TRY(take_death());
    }
    TENON_TRY(check_member());
    TENON_ASSIGN(const bool room, has_room(next_));
    if (room) {
      TENON_TRY(publish(message));
      count(message, &figures_->sent, &figures_->sent_nbytes);
      return Status::ok();
    }
    const auto look = [&] {
      Result<bool> now = has_room(next_);
      return !now.is_ok() || now.value() || has_deaths() || has_left_.load();
    };
    if (Status over = limits.check("room in the queue"); !over.is_ok()) {
      if (over.code() == Code::kWouldBlock) (void)send_ready_.arm(look);
      return over;
    }
    full.set();
    const page::Word& likely = *page::slot(lane(self_), geometry_, next_);
    if (os::spin_for(&send_spin_, false, likely, look)) continue;
    send_ready_.clear_for_sleep();
    TENON_TRY(sleep_once(&member(self_).send, &header().senders_asleep, self_, &send_spin_, limits,
                         -1, look));
  }
}

// Sends the message in its short form. False: nothing was sent, and the message must travel by its
// ticket. It has no short form, its storage cannot be deposited alone, or its depot is not the one
// whose address the lane has.
Result<bool> Queue::publish_short(const tensor::Message& message) {
  const tensor::Message::Item* const item = short_item(message);
  if (item == nullptr ||
      geometry_.room() < short_nbytes(item->tensor->sizes().size(), message.user_bytes().size()))
    return false;
  channel::DepositedStorage deposited;
  TENON_ASSIGN(const bool is_deposited,
               channel::deposit_storage(item->tensor->storage(), item->access, &deposited));
  if (!is_deposited) return false;
  DepositGuard guard(deposited.depot.get(), deposited.place);
  page::LaneHeader& header = page::lane_header(lane(self_));
  if (depot_.get() != deposited.depot.get()) {
    TENON_ASSIGN(const channel::Ticket address, channel::depot_address(*deposited.depot));
    const std::lock_guard<std::mutex> lock(sent_mutex_);
    // A message that still lies in the lane may need the address that this member wrote before.
    if (depot_ && !is_drained(self_)) return false;
    write_address(&header, address);
    depot_ = deposited.depot;
  }
  std::array<std::byte, kShortNbytes> bytes;
  const size_t nbytes = encode_short(message, deposited,
                                     header.address_number.load(std::memory_order_relaxed), bytes);
  Sent sent;
  sent.depot = std::move(deposited.depot);  // the guard's pointer stays good: `depot_` keeps it too
  sent.place = deposited.place;
  if (geometry_.redelivers) sent.message = message.copy();
  fill_next(std::move(sent), {page::Kind::kShort, std::span(bytes).first(nbytes)});
  guard.keep();
  return true;
}

// Deposits the message and puts it into the next slot, which has room. A message without tensors
// that fits into the slot lends nothing, so it needs no deposit.
Status Queue::publish(const tensor::Message& message) {
  if (message.items().empty() && message.composites().empty() &&
      message.user_bytes().size() <= geometry_.room()) {
    fill_next(Sent(), {page::Kind::kBytes, message.user_bytes()});
    return Status::ok();
  }
  TENON_ASSIGN(const bool is_done, publish_short(message));
  if (is_done) return Status::ok();
  TENON_ASSIGN(Ready ready, deposit_ticket_of(message));
  const Ref<Depot> depot = ready.sent.depot;
  const Ref<Depot> outer_depot = ready.sent.outer_depot;
  DepositGuard guard(depot.get(), ready.sent.place);
  DepositGuard outer_guard(outer_depot.get(), ready.sent.outer);
  if (geometry_.redelivers) ready.sent.message = message.copy();
  fill_next(std::move(ready.sent), {ready.kind, ready.bytes});
  outer_guard.keep();
  guard.keep();
  return Status::ok();
}

// Deposits the message, and gives its ticket in a form that fits into a slot.
Result<Queue::Ready> Queue::deposit_ticket_of(const tensor::Message& message) const {
  TENON_ASSIGN(Deposited deposited, channel::deposit_message(message));
  DepositGuard guard(deposited.depot.get(), deposited.place);
  Ready ready;
  ready.sent.depot = deposited.depot;
  ready.sent.place = deposited.place;
  if (deposited.ticket.size() <= geometry_.room()) {
    ready.bytes = std::move(deposited.ticket);
    guard.keep();
    return ready;
  }
  TENON_ASSIGN(Deposited outer, deposit_ticket(deposited.ticket));
  DepositGuard outer_guard(outer.depot.get(), outer.place);
  if (outer.ticket.size() > geometry_.room())
    return invalid(
        format("a ticket of %zu bytes does not fit into a slot of this queue, which has "
               "room for %u: make the queue with a larger slot_nbytes",
               outer.ticket.size(), geometry_.room()));
  ready.sent.outer_depot = outer.depot;
  ready.sent.outer = outer.place;
  ready.kind = page::Kind::kIndirect;
  ready.bytes = std::move(outer.ticket);
  outer_guard.keep();
  guard.keep();
  return ready;
}

// Fills the next slot, and wakes a receiver. After std::bad_alloc nothing has changed.
void Queue::fill_next(Sent sent, const Form& form) {
  page::Word* const slot = page::slot(lane(self_), geometry_, next_);
  sent.position = next_;
  Sent before;  // released after the lock
  bool has_rung = false;
  {
    // If the lock were free between these steps, forget_taken_by() could miss the message that lay
    // in this slot before.
    const std::lock_guard<std::mutex> lock(sent_mutex_);
    if (unfetched_.size() == unfetched_.capacity()) {
      std::erase_if(unfetched_,
                    [](const Sent& each) { return !each.depot->is_unfetched(each.place); });
      unfetched_.reserve(2 * unfetched_.size() + 8);
    }
    // From here on nothing fails.
    before = std::exchange(sent_[next_ & (geometry_.capacity - 1)], std::move(sent));
    before.taker = page::slot_of(slot->load(std::memory_order_relaxed)).taker;
    if (!has_lane_) {
      page::add(&header().lanes, self_);
      has_lane_ = true;
    }
    page::fill(slot, next_, form.kind, form.bytes);
    has_rung = ring_one_receiver();
    // The taker of the message that lay in this slot may not have fetched it yet. The depot is
    // asked after the wake, so that the new message's receiver does not wait for the answer.
    if (before.depot && before.depot->is_unfetched(before.place))
      unfetched_.push_back(std::move(before));
  }
  ++next_;
  if (has_rung) look_later(kLookAgainNs);
  if (geometry_.redelivers) look_later(kLetGoNs);
  last_nbytes_ = page::kSlotHeadNbytes + form.bytes.size();
  prefetch_slot();
  Half& cpu = page::lane_header(lane(self_)).cpu;
  const auto here = static_cast<uint32_t>(::sched_getcpu());
  if (cpu.load(std::memory_order_relaxed) != here) cpu.store(here, std::memory_order_relaxed);
  n_sent_.store(n_sent_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

// Withdraws the deposits of a message. False: a receiver has claimed it.
bool Queue::withdraw(const Sent& sent) noexcept {
  if (!sent.depot->withdraw(sent.place)) return false;
  if (sent.outer_depot) (void)sent.outer_depot->withdraw(sent.outer);
  return true;
}

// The lock keeps sends away, so no newer message of this member comes meanwhile. If the lane has
// another member by now, its positions are none that this member had, so its messages stay.
Result<size_t> Queue::discard() {
  if (generation_ != fork_generation()) return refuse_call();
  size_t discarded = 0;
  std::vector<Sent> withdrawn;  // their storages are released after the lock
  {
    const std::lock_guard<std::mutex> lock(sent_mutex_);
    uint64_t end = 0;
    for (const Sent& each : sent_) {
      if (each.position != kNoPosition) end = std::max(end, each.position + 1);
    }
    withdrawn.reserve(std::min<uint64_t>(end, geometry_.capacity));
    // From here on nothing fails.
    for (uint64_t n = 0; n < geometry_.capacity && n < end; ++n) {
      const uint64_t position = end - 1 - n;
      Sent& here = sent_[position & (geometry_.capacity - 1)];
      page::Word* const slot = page::slot(lane(self_), geometry_, position);
      const uint64_t full = page::word_of({position, here.put_backs, SlotState::kFull});
      if (here.position != position || slot->load(std::memory_order_relaxed) != full ||
          !page::take(slot, full, taker_))
        continue;
      ++discarded;
      if (here.depot) withdrawn.push_back(std::exchange(here, Sent()));
    }
  }
  for (const Sent& each : withdrawn) (void)withdraw(each);
  if (discarded > 0) wake_own_sender();
  return discarded;
}

// Withdraws the messages that a member took before it died or left, and did not fetch. `taker` is
// page::taker_of() that member. Any thread calls this, without a lock. Each message is withdrawn
// without sent_mutex_, because a withdrawal can run release functions of storages' owners.
void Queue::forget_taken_by(uint32_t taker) noexcept {
  if (n_sent_.load(std::memory_order_acquire) == 0) return;
  if (geometry_.redelivers) put_back_taken_by(taker);
  for (uint32_t i = 0; i < geometry_.capacity; ++i) {
    Sent sent;
    {
      const std::lock_guard<std::mutex> lock(sent_mutex_);
      Sent& here = sent_[i];
      const page::SlotWord slot =
          page::slot_of(page::slot(lane(self_), geometry_, i)->load(std::memory_order_acquire));
      if (!here.depot || slot.state != SlotState::kTaken || slot.taker != taker ||
          slot.position != here.position)
        continue;
      sent = std::exchange(here, Sent());
    }
    if (withdraw(sent)) lose();
  }
  for (;;) {
    Sent sent;
    {
      const std::lock_guard<std::mutex> lock(sent_mutex_);
      const auto found = std::find_if(unfetched_.begin(), unfetched_.end(),
                                      [&](const Sent& each) { return each.taker == taker; });
      if (found == unfetched_.end()) return;
      sent = std::move(*found);
      unfetched_.erase(found);
    }
    if (withdraw(sent)) lose();
  }
}

void Queue::lose() noexcept {
  n_lost_.fetch_add(1, std::memory_order_relaxed);
  figures_->lost.fetch_add(1, std::memory_order_relaxed);
}

// ---- messages that are put back

// Puts back the messages that a dead or former member took and did not acknowledge.
void Queue::put_back_taken_by(uint32_t taker) noexcept {
  for (uint32_t i = 0; i < geometry_.capacity; ++i) {
    page::Word* const slot = page::slot(lane(self_), geometry_, i);
    Sent sent;
    {
      const std::lock_guard<std::mutex> lock(sent_mutex_);
      Sent& here = sent_[i];
      // A taker that has left may still acknowledge the message. From this exchange on it cannot.
      if (here.position == kNoPosition || !page::hold(slot, here.position, taker, taker_)) continue;
      // After this exchange no other thread finds the message here. The sender fills no slot that
      // is held.
      sent = std::exchange(here, Sent());
    }
    const uint64_t position = sent.position;
    if (put_back(std::move(sent))) continue;
    lose();
    (void)page::acknowledge(slot, position, taker_);
    wake_own_sender();
  }
}

// Puts a message back into its slot, in which this member holds it. False: it is lost.
bool Queue::put_back(Sent sent) noexcept {
  try {
    // The leases of a receiver that had claimed the message end with its token.
    if (sent.depot) (void)withdraw(sent);
    if (sent.put_backs == page::kMostPutBacks) return false;
    ++sent.put_backs;
    return put_back_as(&sent, true) || put_back_as(&sent, false);
  } catch (...) {
    return false;  // no memory
  }
}

// Puts the message back into its slot, in its short form if it has one and `may_be_short`. False:
// the lane has another address than the short form names, or the message is lost. Then the message
// is still in `sent`.
bool Queue::put_back_as(Sent* sent, bool may_be_short) {
  Ready again;
  // Without `message`, the bytes of the message still lie in the slot, and only the word changes.
  if (sent->message) {
    Result<Ready> ready = deposit_again(*sent->message, may_be_short);
    if (!ready.is_ok()) return false;
    again = std::move(ready).value();
  }
  const Ref<Depot> depot = again.sent.depot;
  const Ref<Depot> outer_depot = again.sent.outer_depot;
  DepositGuard guard(depot.get(), again.sent.place);
  DepositGuard outer_guard(outer_depot.get(), again.sent.outer);
  bool has_rung = false;
  {
    const std::lock_guard<std::mutex> lock(sent_mutex_);
    if (has_left_.load()) return false;  // another member may have the lane
    page::LaneHeader& header = page::lane_header(lane(self_));
    if (again.kind == page::Kind::kShort &&
        (depot_.get() != depot.get() ||
         header.address_number.load(std::memory_order_relaxed) != again.address))
      return false;
    const uint32_t count = header.put_back.load(std::memory_order_relaxed);
    header.put_back.store(count | 1, std::memory_order_seq_cst);
    page::Word* const slot = page::slot(lane(self_), geometry_, sent->position);
    if (sent->message) {
      page::fill(slot, sent->position, again.kind, again.bytes, sent->put_backs);
    } else {
      slot->store(page::word_of({sent->position, sent->put_backs, SlotState::kFull}),
                  std::memory_order_seq_cst);
    }
    header.put_back.store((count | 1) + 1, std::memory_order_seq_cst);
    again.sent.position = sent->position;
    again.sent.put_backs = sent->put_backs;
    again.sent.message = std::move(sent->message);
    sent_[again.sent.position & (geometry_.capacity - 1)] = std::move(again.sent);
    has_rung = ring_one_receiver();
  }
  outer_guard.keep();
  guard.keep();
  if (has_rung) look_later(kLookAgainNs);
  look_later(kLetGoNs);
  return true;
}

// Deposits a message that is put back. A message that had the short form may need it, because the
// slot may have no room for its ticket.
Result<Queue::Ready> Queue::deposit_again(const tensor::Message& message, bool may_be_short) {
  const tensor::Message::Item* const item = short_item(message);
  channel::DepositedStorage deposited;
  bool is_short = false;
  if (may_be_short && item != nullptr &&
      geometry_.room() >= short_nbytes(item->tensor->sizes().size(), message.user_bytes().size())) {
    TENON_ASSIGN(is_short,
                 channel::deposit_storage(item->tensor->storage(), item->access, &deposited));
  }
  if (!is_short) return deposit_ticket_of(message);
  DepositGuard guard(deposited.depot.get(), deposited.place);
  Ready ready;
  ready.kind = page::Kind::kShort;
  ready.address = page::lane_header(lane(self_)).address_number.load(std::memory_order_relaxed);
  ready.bytes.resize(kShortNbytes);
  ready.bytes.resize(encode_short(message, deposited, ready.address,
                                  std::span<std::byte, kShortNbytes>(ready.bytes)));
  ready.sent.depot = deposited.depot;
  ready.sent.place = deposited.place;
  guard.keep();
  return ready;
}

// Releases the messages that were acknowledged, and checks for members that have left. Returns
// whether other messages may still have to be put back.
bool Queue::let_go_of_acknowledged() noexcept {
  if (n_sent_.load(std::memory_order_acquire) == 0) return false;
  const uint32_t deaths = n_deaths_.load(std::memory_order_relaxed);
  try {
    look_at_members();
  } catch (...) {
    // There is no memory. The next check comes later.
  }
  if (n_deaths_.load(std::memory_order_relaxed) > deaths) {
    // Wakes this member's sleeping threads, which have not seen the deaths that this check found.
    wake(&member(self_).receive);
    wake(&member(self_).send);
  }
  bool has_others = false;
  constexpr uint32_t kAtOnce = 64;  // a send does not wait for more slots
  for (uint32_t first = 0; first < geometry_.capacity; first += kAtOnce) {
    // The storages of these messages are released after the lock.
    std::array<std::unique_ptr<tensor::Message>, kAtOnce> acknowledged;
    const std::lock_guard<std::mutex> lock(sent_mutex_);
    for (uint32_t i = first; i < std::min(first + kAtOnce, geometry_.capacity); ++i) {
      Sent& here = sent_[i];
      if (here.position == kNoPosition) continue;
      const page::SlotWord word =
          page::slot_of(page::slot(lane(self_), geometry_, i)->load(std::memory_order_acquire));
      if (word.position != here.position || word.state == SlotState::kTaken) {
        acknowledged[i - first] = std::move(here.message);
      } else {
        has_others = true;
      }
    }
  }
  return has_others && !has_left_.load(std::memory_order_relaxed);
}

void Queue::wake_own_sender() noexcept {
  page::SleepWords& words = member(self_).send;
  if ((words.asleep.load(std::memory_order_seq_cst) & 1) != 0) wake(&words);
}

// Wakes one receiver that sleeps and that this member has not woken for that sleep yet. Returns
// whether there was one. Each sender keeps records of its own (`rung_`). So if a sender dies or is
// stopped before its wake, the next sender's message still wakes the receiver. A former member can
// have left its bit behind, and is passed over: a wake for it would be lost.
bool Queue::ring_one_receiver() noexcept {
  const uint32_t first = last_rung_.load(std::memory_order_relaxed) + 1;
  return page::any_from(header().receivers_asleep, geometry_.members, first, [&](uint32_t index) {
    if (page::member_of(member(index).word.load(std::memory_order_acquire)).state !=
        page::MemberState::kHere)
      return false;
    page::SleepWords& words = member(index).receive;
    const uint32_t asleep = words.asleep.load(std::memory_order_seq_cst);
    if ((asleep & 1) == 0 || rung_[index].load(std::memory_order_relaxed) == asleep) return false;
    rung_[index].store(asleep, std::memory_order_relaxed);
    last_rung_.store(index, std::memory_order_relaxed);
    wake(&words);
    return true;
  });
}

}  // namespace tenon::queue

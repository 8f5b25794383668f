// The receiver's side of a queue (queue.h): the functions of Queue by which a member takes messages
// from the lanes, fetches them, and passes wakes on.
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/prefetch.h"
#include "queue/queue.h"
#include "queue/short_form.h"
#include "queue/sleep.h"

namespace tenon::queue {
namespace {

using page::SlotState;
using tensor::Message;

// How long a fetch may wait for a sender that is new to this process. A sender that does not answer
// within that time is stopped or busy, and only its own lane waits for it.
constexpr os::Wait kFetchWait{.timeout_ns = 20'000'000};
// How often a lane that waits for its sender is tried again.
constexpr int64_t kStalledNs = 50'000'000;

// Whether a later try can still fetch the message after this error. A message beyond a limit of
// this member never can be fetched.
bool may_be_fetched(const Status& status) noexcept {
  const std::string_view limit = status.detail("limit");
  if (limit == "max_tensors" || limit == "max_message_nbytes") return false;
  switch (status.code()) {
    case Code::kWouldBlock:
    case Code::kTimeout:
    case Code::kInterrupted:
    case Code::kCancelled:
    case Code::kResourceExhausted:
    case Code::kIo: return true;
    default: return false;
  }
}

// Acknowledges a message of a queue that redelivers when the message ends. The message may outlive
// the membership, so the receipt keeps the queue's memory.
class QueueReceipt final : public Message::Receipt {
 public:
  // `full` is the word that the slot had before `taker` took it.
  QueueReceipt(Ref<storage::Storage> storage, const page::Geometry& geometry, uint32_t lane,
               page::SlotWord full, uint32_t taker) noexcept
      : storage_(std::move(storage)),
        geometry_(geometry),
        lane_(lane),
        full_(full),
        taker_(taker) {}
  ~QueueReceipt() override {
    // A forked child has a copy of its parent's message, and must not acknowledge it.
    if (!is_armed_ || generation_ != fork_generation()) return;
    std::byte* const base = storage_->segment()->base() + storage_->offset();
    page::Word* const slot =
        page::slot(page::lane(base, geometry_, lane_), geometry_, full_.position);
    if (!page::acknowledge(slot, full_.position, taker_)) return;
    // The lane has room now, for which its member may wait.
    page::SleepWords& words = page::member(base, lane_).send;
    if ((words.asleep.load(std::memory_order_seq_cst) & 1) != 0) wake(&words);
  }
  void arm() noexcept { is_armed_ = true; }
  uint32_t redelivered() const noexcept override { return full_.taker; }

 private:
  const Ref<storage::Storage> storage_;
  const page::Geometry geometry_;
  const uint32_t lane_;
  const page::SlotWord full_;
  const uint32_t taker_;
  const uint64_t generation_ = fork_generation();
  bool is_armed_ = false;
};

bool is_of_wait(Code code) noexcept { return code == Code::kWouldBlock || code == Code::kTimeout; }

}  // namespace

// Sets the cursor of a lane that is new to this member. The cursor begins one round before the
// first position that was never used, because older messages have all been taken. To begin with the
// oldest message that a pass over the lane finds would be wrong: an older one may be sent into a
// slot behind the pass, and then a newer one into a slot before it.
void Queue::find_start(uint32_t index) noexcept {
  const uint64_t next = next_position(index);
  lanes_[index].cursor = next < geometry_.capacity ? 0 : next - geometry_.capacity;
  lanes_[index].has_start = true;
}

// Copies the message of a slot whose word is `seen`, and takes it. A receive spends most of its
// time here, so the function is inlined.
[[gnu::always_inline]] inline Queue::Take Queue::take_slot(uint32_t index, page::Word* slot,
                                                           uint64_t seen) {
  Lane& from = lanes_[index];
  prefetch_for_write(slot);  // for page::take()
  // The memory for the copy is allocated before the message is taken.
  if (from.stalled.size() < geometry_.room()) from.stalled.resize(geometry_.room());
  const uint32_t nbytes =
      page::copy(slot, geometry_.room(), &from.stalled_kind, from.stalled.data());
  if (nbytes == UINT32_MAX) {
    // If the word has changed, the sender was filling the slot again. Otherwise the length is
    // wrong.
    if (slot->load(std::memory_order_seq_cst) != seen) return Take::kChanged;
    give_up_lane(index);
    return Take::kScrambled;
  }
  from.stalled_nbytes = nbytes;
  if (from.stalled_kind == page::Kind::kShort) read_address_of(index, from.bytes());
  if (!page::take(slot, seen, taker_, taken_)) return Take::kChanged;
  from.taken = page::slot_of(seen);
  from.has_stalled = true;
  ++n_stalled_;
  return Take::kDone;
}

// Takes the next message of a lane, if it has one. Its bytes are in Lane::stalled then.
bool Queue::take_from(uint32_t index) {
  Lane& from = lanes_[index];
  if (from.has_stalled || (from.is_bad && !has_new_member(index))) return false;
  if (!from.has_start) find_start(index);
  if (geometry_.redelivers && take_put_back(index)) return true;
  std::byte* const base = lane(index);
  for (uint32_t steps = 0; steps <= 2 * geometry_.capacity; ++steps) {
    page::Word* const slot = page::slot(base, geometry_, from.cursor);
    const uint64_t seen = slot->load(std::memory_order_seq_cst);
    const page::SlotWord word = page::slot_of(seen);
    if (word.state == SlotState::kEmpty || word.position < from.cursor) return false;
    if (word.position > from.cursor) {
      // The sender has filled this slot again, so all messages that are a round or more older than
      // the one in it were taken.
      if (((word.position ^ from.cursor) & (geometry_.capacity - 1)) != 0) {
        give_up_lane(index);
        return false;
      }
      from.cursor = word.position - geometry_.capacity + 1;
      continue;
    }
    if (word.state == SlotState::kFull) {
      switch (take_slot(index, slot, seen)) {
        case Take::kDone: ++from.cursor; return true;
        case Take::kChanged: continue;
        case Take::kScrambled: return false;
      }
    }
    ++from.cursor;
  }
  return false;  // other receivers are faster, and the next call goes on from this cursor
}

// Takes a message that was put back. The cursor may have passed it, so this function checks all
// slots of the lane. It does so until a pass that began after the last put-back has found none.
bool Queue::take_put_back(uint32_t index) {
  Lane& from = lanes_[index];
  std::byte* const base = lane(index);
  const uint32_t count = page::lane_header(base).put_back.load(std::memory_order_seq_cst);
  if (count == from.put_back) return false;
  for (uint32_t i = 0; i < geometry_.capacity; ++i) {
    page::Word* const slot = page::slot(base, geometry_, i);
    const uint64_t seen = slot->load(std::memory_order_seq_cst);
    const page::SlotWord word = page::slot_of(seen);
    if (word.state != SlotState::kFull || word.taker == 0) continue;
    const Take taken = take_slot(index, slot, seen);
    if (taken == Take::kDone) return true;
    if (taken == Take::kScrambled) return false;
  }
  if ((count & 1) == 0) from.put_back = count;
  return false;
}

// Whether take_put_back() would find a message. This function takes nothing.
bool Queue::sees_put_back(uint32_t index) const noexcept {
  std::byte* const base = lane(index);
  if (page::lane_header(base).put_back.load(std::memory_order_seq_cst) == lanes_[index].put_back)
    return false;
  for (uint32_t i = 0; i < geometry_.capacity; ++i) {
    const page::SlotWord word =
        page::slot_of(page::slot(base, geometry_, i)->load(std::memory_order_seq_cst));
    if (word.state == SlotState::kFull && word.taker != 0) return true;
  }
  return false;
}

// Reads the address of a lane, if the message of the short form in `bytes` needs one that this
// member has not read. It is called before the message is taken, because until then the lane keeps
// its member, and the member keeps the address.
void Queue::read_address_of(uint32_t index, std::span<const std::byte> bytes) {
  Lane& from = lanes_[index];
  uint32_t number = 0;
  if (bytes.size() < kShortAddressOffset + sizeof number) return;  // open_short() refuses it
  std::memcpy(&number, bytes.data() + kShortAddressOffset, sizeof number);
  if (from.lender) {
    uint32_t message = 0;
    std::memcpy(&message, bytes.data(), sizeof message);
    from.lender->prefetch(message);
  }
  if ((from.lender && from.address == number) || (from.read_address && from.read_number == number))
    return;
  Result<std::optional<channel::Ticket>> address =
      read_address(page::lane_header(lane(index)), number);
  if (!address.is_ok() || !address.value()) return;
  from.read_address = std::move(address).value();
  from.read_number = number;
}

// Marks a lane whose member wrote invalid words. No message of that member is taken any more.
void Queue::give_up_lane(uint32_t index) noexcept {
  Lane& from = lanes_[index];
  from.is_bad = true;
  from.bad_generation =
      page::member_of(member(index).word.load(std::memory_order_acquire)).generation;
  scrambled_ = index;
}

// Whether a lane that was given up belongs to another member by now.
bool Queue::has_new_member(uint32_t index) noexcept {
  const page::MemberWord word = page::member_of(member(index).word.load(std::memory_order_acquire));
  if (word.state != page::MemberState::kHere || word.generation == lanes_[index].bad_generation)
    return false;
  lanes_[index] = Lane();
  return true;
}

// Forgets the lenders of lanes whose members have ended or left, because a lender that is kept in
// mind keeps its memory mapped here. A lender with messages in its lane waits for the next call.
void Queue::forget_lenders() {
  has_gone_.store(false, std::memory_order_relaxed);
  bool has_forgotten = false;
  for (uint32_t index = 0; index < geometry_.members; ++index) {
    Lane& from = lanes_[index];
    if (!from.lender) continue;
    const page::MemberWord word =
        page::member_of(member(index).word.load(std::memory_order_acquire));
    if (word.state == page::MemberState::kHere && word.generation == from.lender_generation)
      continue;
    if (from.has_stalled || has_message(index)) {
      has_gone_.store(true, std::memory_order_relaxed);
    } else {
      from.lender.reset();
      has_forgotten = true;
    }
  }
  if (has_forgotten) channel::KnownLender::forget_gone();
}

// The error for the lane that give_up_lane() marked last. The caller reports it once.
Status Queue::name_scrambled() {
  const uint32_t index = std::exchange(scrambled_, UINT32_MAX);
  const uint32_t pid = page::member_of(member(index).word.load(std::memory_order_relaxed)).pid;
  return Status(Code::kCorrupt,
                format("process %u wrote what cannot be into its lane of the queue; "
                       "no message of that process is received any more",
                       pid))
      .with("field", std::string("queue"))
      .with("pid", int64_t{pid})
      .with("member", int64_t{index});
}

// Whether a lane may have a message for this member. It costs one load for each lane, and may be
// true for a message that another receiver takes first.
bool Queue::sees_message() const noexcept {
  return page::any_from(header().lanes, geometry_.members, 0, [&](uint32_t index) {
    const Lane& from = lanes_[index];
    if (from.is_bad || from.has_stalled) return false;
    if (!from.has_start) return true;
    if (geometry_.redelivers && sees_put_back(index)) return true;
    const page::SlotWord word = page::slot_of(
        page::slot(lane(index), geometry_, from.cursor)->load(std::memory_order_seq_cst));
    return word.state != SlotState::kEmpty && word.position >= from.cursor;
  });
}

// Whether a message lies in a lane, also if this member does not take it because an earlier one of
// the lane is stalled.
bool Queue::has_message(uint32_t index) noexcept {
  Lane& from = lanes_[index];
  if (from.is_bad) return false;
  if (!from.has_start) find_start(index);
  if (geometry_.redelivers && sees_put_back(index)) return true;
  uint64_t at = from.cursor;
  for (uint32_t steps = 0; steps <= geometry_.capacity; ++steps) {
    const page::SlotWord word =
        page::slot_of(page::slot(lane(index), geometry_, at)->load(std::memory_order_seq_cst));
    if (word.state == SlotState::kEmpty || word.position < at) return false;
    if (word.state == SlotState::kFull || word.position > at) return true;
    ++at;
  }
  return false;
}

// Wakes another receiver if a message lies in a lane. A thread that slept calls it before it does
// something else: two senders may have woken it for a message each, and it takes one.
void Queue::pass_wake_on() noexcept {
  if (page::any_from(header().lanes, geometry_.members, 0,
                     [&](uint32_t index) { return has_message(index); }))
    (void)ring_one_receiver();
}

// Takes the next message of any lane. The lanes take turns.
bool Queue::take_next(uint32_t* from) {
  return page::any_from(header().lanes, geometry_.members, next_lane_, [&](uint32_t index) {
    if (!take_from(index)) return false;
    next_lane_ = index + 1;
    from_last_ = index;
    *from = index;
    return true;
  });
}

// Wakes the member whose lane has room now, if it waits for that.
void Queue::ring_sender(uint32_t index) noexcept {
  const uint64_t bits = header().senders_asleep[index / 64].load(std::memory_order_seq_cst);
  if ((bits >> (index % 64) & 1) == 0) return;
  page::SleepWords& words = member(index).send;
  const uint32_t asleep = words.asleep.load(std::memory_order_seq_cst);
  // In a queue that redelivers, a message makes room only when it is acknowledged.
  if ((asleep & 1) == 0 || sender_rung_[index] == asleep || geometry_.redelivers) return;
  sender_rung_[index] = asleep;
  wake(&words);
}

// Ends the fetch of the message that was taken from a lane. The message was opened, or is lost.
void Queue::forget_stalled(uint32_t index) noexcept {
  lanes_[index].has_stalled = false;
  --n_stalled_;
}

// Gives the taken message of a lane up, and returns the error that says so. If the bytes were no
// message of this version, the lane is given up too.
Status Queue::give_up(uint32_t index, const Status& why) {
  forget_stalled(index);
  // Acknowledges the message, because another receiver could not open it either.
  if (geometry_.redelivers)
    QueueReceipt(storage_, geometry_, index, lanes_[index].taken, taker_).arm();
  if (why.code() == Code::kCorrupt || why.code() == Code::kIncompatible) {
    give_up_lane(index);
    scrambled_ = UINT32_MAX;  // the error that this function returns reports it already
  }
  Status lost =
      Status(why.code(), format("a message of the queue is lost: %s", why.message().c_str()))
          .with_details_of(why)
          .with("member", int64_t{index})
          .with("lost", int64_t{1});
  if (!why.detail("pid").empty()) return lost;
  const uint64_t word = member(index).word.load(std::memory_order_relaxed);
  return std::move(lost).with("pid", int64_t{page::member_of(word).pid});
}

// Opens a message of the short form, which was taken from a lane.
Result<std::unique_ptr<Message>> Queue::open_short(uint32_t index) {
  Lane& from = lanes_[index];
  TENON_ASSIGN(const ShortForm form, decode_short(from.bytes()));
  if (!from.lender || from.address != form.address) {
    if (!from.read_address || from.read_number != form.address)
      return Status(Code::kCorrupt, "a short form with an address that its lane did not have")
          .with("field", std::string("queue"));
    TENON_ASSIGN(from.lender, channel::KnownLender::create(*from.read_address));
    from.address = form.address;
    from.lender_generation =
        page::member_of(member(index).word.load(std::memory_order_relaxed)).generation;
  }
  TENON_ASSIGN(Ref<storage::Storage> storage,
               from.lender->fetch(form.place, form.storage, options_.fetch, kFetchWait));
  const memory::Access access =
      storage->is_read_only() ? memory::Access::kReadOnly : memory::Access::kAuto;
  if (from.checked_nbytes != storage->nbytes() ||
      from.checked_layout.size() != form.layout_bytes.size() ||
      std::memcmp(from.checked_layout.data(), form.layout_bytes.data(), form.layout_bytes.size()) !=
          0) {
    const Result<Ref<tensor::Tensor>> tensor =
        tensor::Tensor::create(storage, form.layout(), form.flags);
    if (!tensor.is_ok())
      return Status(Code::kCorrupt, tensor.status().message()).with("field", std::string("queue"));
    // assign() may throw and leave half a layout. 0 fits no storage, so that counts as unchecked.
    from.checked_nbytes = 0;
    from.checked_layout.assign(form.layout_bytes.begin(), form.layout_bytes.end());
    from.checked_nbytes = storage->nbytes();
  }
  auto message = std::make_unique<Message>();
  message->add_received(
      tensor::Tensor::create_checked(std::move(storage), form.layout(), form.flags), access,
      std::nullopt);
  if (!form.user.empty()) TENON_TRY(message->set_user_bytes(form.user));
  return message;
}

// Opens a message without tensors, which was taken from a lane.
Result<std::unique_ptr<Message>> Queue::open_user_bytes(uint32_t index) {
  const std::span<const std::byte> bytes = lanes_[index].bytes();
  if (bytes.size() > options_.fetch.limits.max_nbytes)
    return Status(Code::kResourceExhausted,
                  format("a message of %zu bytes, and %llu are accepted", bytes.size(),
                         as_llu(options_.fetch.limits.max_nbytes)))
        .with("limit", std::string("max_message_nbytes"))
        .with("limit_value", options_.fetch.limits.max_nbytes);
  auto message = std::make_unique<Message>();
  if (Status set = message->set_user_bytes(bytes); !set.is_ok())
    return Status(Code::kCorrupt, set.message()).with("field", std::string("queue"));
  return message;
}

// Opens the message that was taken from a lane. After an error that may pass, the lane keeps it.
Result<std::unique_ptr<Message>> Queue::open(uint32_t index) {
  Lane& from = lanes_[index];
  if (from.stalled_kind == page::Kind::kIndirect) {
    Result<std::unique_ptr<Message>> outer =
        channel::fetch(from.bytes(), options_.fetch, kFetchWait);
    if (!outer.is_ok()) {
      if (may_be_fetched(outer.status())) return outer;
      return give_up(index, outer.status());
    }
    const auto& items = outer.value()->items();
    if (items.size() != 1 || items[0].tensor->data() == nullptr ||
        items[0].tensor->dtype() != page::kBytes || items[0].tensor->sizes().size() != 1 ||
        items[0].tensor->strides()[0] != 1 ||
        items[0].tensor->nbytes() > options_.fetch.limits.max_nbytes)
      return give_up(index, Status(Code::kCorrupt, "a long ticket that is no tensor of bytes"));
    const std::byte* const bytes = items[0].tensor->data();
    from.stalled.assign(bytes, bytes + items[0].tensor->nbytes());
    from.stalled_nbytes = from.stalled.size();
    from.stalled_kind = page::Kind::kTicket;
  }
  // The error for an unknown kind is made last and only if it is needed, because making a Status
  // with a text takes longer than the rest of a receive.
  const auto open_bytes = [&]() -> Result<std::unique_ptr<Message>> {
    if (from.stalled_kind == page::Kind::kShort) return open_short(index);
    if (from.stalled_kind == page::Kind::kBytes) return open_user_bytes(index);
    if (from.stalled_kind == page::Kind::kTicket)
      return channel::fetch(from.bytes(), options_.fetch, kFetchWait);
    return Status(Code::kIncompatible, "a message of a kind that this Tenon does not know");
  };
  std::unique_ptr<QueueReceipt> receipt;
  if (geometry_.redelivers)
    receipt = std::make_unique<QueueReceipt>(storage_, geometry_, index, from.taken, taker_);
  Result<std::unique_ptr<Message>> message = open_bytes();
  if (!message.is_ok()) {
    if (may_be_fetched(message.status())) return message;
    return give_up(index, message.status());
  }
  if (receipt) {
    receipt->arm();
    message.value()->set_receipt(std::move(receipt));
  }
  forget_stalled(index);
  n_received_.store(n_received_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return message;
}

// Tries to fetch the messages of stalled lanes again. A value is the result of recv(). No value: no
// sender answered, and `stalled` is a lane that still waits, or UINT32_MAX.
std::optional<Result<std::unique_ptr<Message>>> Queue::retry_stalled(const os::WaitLimits& limits,
                                                                     uint32_t* stalled) {
  *stalled = UINT32_MAX;
  if (n_stalled_ == 0) return std::nullopt;
  const uint32_t first = next_stalled_;
  for (uint32_t i = 0; i < geometry_.members; ++i) {
    const uint32_t index = (first + i) % geometry_.members;
    if (!lanes_[index].has_stalled) continue;
    next_stalled_ = (index + 1) % geometry_.members;
    Result<std::unique_ptr<Message>> opened = open(index);
    if (opened.is_ok() || !is_of_wait(opened.status().code())) return opened;
    *stalled = index;
    // Each lane takes time. The next call begins with the next lane.
    if (!limits.check("a message in the queue").is_ok()) break;
  }
  return std::nullopt;
}

// Adds to the error of a wait that ended: a message has been taken, and its sender does not answer.
Status Queue::name_stalled(const Status& over, uint32_t index) const {
  const uint32_t pid = page::member_of(member(index).word.load(std::memory_order_relaxed)).pid;
  return Status(over.code(), format("%s: a message of process %u waits for that process, which "
                                    "does not answer",
                                    over.message().c_str(), pid))
      .with("pid", int64_t{pid})
      .with("member", int64_t{index});
}

Result<std::unique_ptr<Message>> Queue::recv(const os::Wait& wait) {
  std::unique_ptr<Message> message;
  TENON_TRY(recv_many(std::span(&message, 1), wait).status());
  return message;
}

Result<size_t> Queue::recv_many(std::span<std::unique_ptr<Message>> out, const os::Wait& wait) {
  TENON_TRY(check_member());
  if (out.empty()) return size_t{0};
  const os::WaitLimits limits(wait);
  const Result<os::WaitLock::Held> lock =
      recv_lock_.lock_within(limits, "another thread to leave the queue");
  if (!lock.is_ok()) {
    recv_ready_.note_busy();
    return lock.status();
  }
  const Settled settled(&recv_ready_);
  if (!recv_later_.is_ok()) return std::exchange(recv_later_, Status::ok());
  // A thread that waited at the fd may have been woken for a message, like a thread that slept.
  bool has_slept = recv_ready_.disarm();
  Result<std::unique_ptr<Message>> first = recv_within(limits, &has_slept);
  if (!first.is_ok()) {
    if (has_slept) pass_wake_on();
    return std::move(first).status();
  }
  out[0] = std::move(first).value();
  const size_t received = 1 + recv_more(out.subspan(1));
  if (has_slept) pass_wake_on();
  for (const std::unique_ptr<Message>& each : out.first(received))
    count(*each, &figures_->received, &figures_->received_nbytes);
  return received;
}

// Takes more messages that are there, without a wait, and returns how many. A message that cannot
// be opened now ends the call and stays stalled.
size_t Queue::recv_more(std::span<std::unique_ptr<Message>> out) noexcept {
  size_t received = 0;
  try {
    for (uint32_t from = 0; received < out.size() && take_next(&from);) {
      ring_sender(from);
      Result<std::unique_ptr<Message>> message = open(from);
      if (!message.is_ok()) {
        if (!is_of_wait(message.status().code())) recv_later_ = std::move(message).status();
        break;
      }
      out[received++] = std::move(message).value();
    }
  } catch (...) {
    // No memory: the next call tries again.
  }
  return received;
}

// Receives one message with the lock held. `has_slept` says whether a sender may have woken this
// thread. Then the caller must pass the wake on (pass_wake_on()).
Result<std::unique_ptr<Message>> Queue::recv_within(const os::WaitLimits& limits, bool* has_slept) {
  for (;;) {
    look_at_members();
    TENON_TRY(check_member());
    if (has_gone_.load(std::memory_order_relaxed)) forget_lenders();
    uint32_t from = 0;
    while (take_next(&from)) {
      ring_sender(from);
      Result<std::unique_ptr<Message>> message = open(from);
      if (message.is_ok() || !is_of_wait(message.status().code())) return message;
      if (!limits.check("a message in the queue").is_ok()) break;
    }
    if (scrambled_ != UINT32_MAX) return name_scrambled();
    uint32_t stalled = UINT32_MAX;
    if (auto retried = retry_stalled(limits, &stalled)) return std::move(*retried);
    const bool has_stalled = stalled != UINT32_MAX;
    if (n_deaths_.load(std::memory_order_acquire) > 0) TENON_TRY(take_death());
    const auto look = [&] { return sees_message() || has_deaths() || has_left_.load(); };
    if (Status over = limits.check("a message in the queue"); !over.is_ok()) {
      if (over.code() == Code::kWouldBlock && recv_ready_.is_open()) {
        // The wake is passed on before the member is armed, so that the member does not get it
        // back.
        if (*has_slept) pass_wake_on();
        // If arm() found something, the member was armed for a moment, and may have been woken.
        *has_slept = !recv_ready_.arm(look);
        if (has_stalled) {
          has_retry_.store(true, std::memory_order_relaxed);
          look_later(kStalledNs);
        }
      }
      return has_stalled ? name_stalled(over, stalled) : over;
    }
    const bool same_cpu = page::lane_header(lane(from_last_)).cpu.load(std::memory_order_relaxed) ==
                          static_cast<uint32_t>(::sched_getcpu());
    const page::Word& likely = *page::slot(lane(from_last_), geometry_, lanes_[from_last_].cursor);
    if (!has_stalled && os::spin_for(&recv_spin_, same_cpu, likely, look)) continue;
    // A sender may have woken this thread for a message of the lane that waits.
    if (has_stalled && *has_slept) pass_wake_on();
    *has_slept = true;
    recv_ready_.clear_for_sleep();
    TENON_TRY(sleep_once(&member(self_).receive, &header().receivers_asleep, self_, &recv_spin_,
                         limits, has_stalled ? kStalledNs : -1, look));
  }
}

}  // namespace tenon::queue

#include "channel/deposit.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "channel/deposit_server.h"
#include "channel/lease_block.h"
#include "memory/ledger.h"
#include "memory/spare.h"
#include "names/filename.h"
#include "os/host.h"
#include "os/local_socket.h"
#include "os/memfd.h"
#include "tensor/descriptor.h"
#include "tensor/pack.h"

namespace tenon::channel {
namespace {

using memory::Depot;
using memory::LeaseToken;
using memory::Segment;
using os::Fd;

// The storages that a message keeps beside its leases, until its receiver has opened all of it.
class Envelope final : public memory::Leased {
 public:
  uint64_t leased_nbytes() const noexcept override { return 0; }
  void keep(Ref<storage::Storage> storage) {
    const std::lock_guard<std::mutex> lock(mutex_);
    storages_.push_back(std::move(storage));
  }

 private:
  std::mutex mutex_;
  std::vector<Ref<storage::Storage>> storages_;  // each keeps its segment
};

// Makes `depot` the depot of this process, with its socket, unless another thread has made one. The
// caller holds the lock.
Status open_depot(DepositState* all, Ref<Depot> depot) {
  if (all->depot) return Status::ok();
  TENON_ASSIGN(all->id, os::random_nonce());
  TENON_ASSIGN(all->name, names::choose_filename(names::kSharedMemory, names::kDefaultPrefix, ""));
  // The sticky bit means nothing on a socket. It marks the socket as Tenon's, so that a sweep
  // recognises it when its lender is dead.
  TENON_ASSIGN(all->listener, os::listen_local(os::SocketKind::kPackets, all->name.path(), 01600,
                                               static_cast<gid_t>(-1)));
  if (!all->exit_hook) all->exit_hook = std::atexit([]() { leave_deposits(); }) == 0;
  if (Status served = serve_depot(all); !served.is_ok()) {
    unlink_depot(*all);
    all->listener.reset();
    return served;
  }
  all->depot = std::move(depot);
  return Status::ok();
}

// Writes into the ticket where the depot is. The caller holds the lock of the state.
void note_address(const DepositState& all, Ticket* ticket) {
  ticket->pid = os::process_id();
  ticket->depot = all.id;
  ticket->rendezvous = all.name.path();
}

// Takes the lock of the state, and makes the depot if there is none. Checks for at most `looks` of
// the numbered things whether they have ended.
Result<std::unique_lock<std::mutex>> enter_depot(DepositState* all, size_t looks) {
  std::unique_lock<std::mutex> lock(all->mutex);
  if (!all->depot) {
    // Both calls may take locks of a lower rank: with_spare() gives back kept memory.
    lock.unlock();
    sweep_depots();
    TENON_ASSIGN(Ref<Depot> depot, memory::with_spare([] { return Depot::create(); }));
    lock.lock();
    TENON_TRY(open_depot(all, std::move(depot)));
  }
  sweep_things(all, looks);
  return lock;
}

// Takes in the leases that receivers gave back, once for many deposits. Requests for memory would
// do that too. But a process that lends the same memory again and again makes none, and its records
// would grow.
void drain_sometimes() noexcept {
  constexpr uint32_t kDeposits = 256;
  static std::atomic<uint32_t> deposits{0};
  // Threads that count at the same time may lose a count, which does no harm.
  const uint32_t count = deposits.load(std::memory_order_relaxed) + 1;
  deposits.store(count, std::memory_order_relaxed);
  if (count % kDeposits == 0) (void)memory::drain_ledgers();
}

// ---- numbers

Status too_many_segments(uint64_t most) {
  return Status(Code::kResourceExhausted,
                format("%llu segments wait to be fetched by the receivers of earlier messages: let "
                       "them read first, keep small tensors "
                       "together in an arena, or raise max_unfetched_segments",
                       as_llu(most)))
      .with("limit", std::string("max_unfetched_segments"))
      .with("limit_value", most);
}

Result<Thing> number(DepositState* all, NumberedThing thing) {
  auto& serials = thing.kind == ThingKind::kSegment ? all->segment_serials : all->token_serials;
  if (const auto known = serials.find(thing.key); known != serials.end()) {
    const NumberedThing& there = all->things.at(known->second);
    return Thing{there.number.thing, thing.kind, there.number.serial};
  }
  if (thing.kind == ThingKind::kSegment && serials.size() >= most_segments(*all)) {
    sweep_things(all, all->things.size());
    if (serials.size() >= most_segments(*all)) return too_many_segments(most_segments(*all));
  }
  all->things.reserve(all->things.size() + 1);
  serials.reserve(serials.size() + 1);
  TENON_ASSIGN(thing.number, all->depot->number_thing());
  const Thing result{thing.number.thing, thing.kind, thing.number.serial};
  serials.emplace(thing.key, result.serial);
  all->things.emplace(result.serial, std::move(thing));
  return result;
}

Result<Thing> number_segment(DepositState* all, Segment* segment) {
  if (all->last_segment.serial != 0 && all->last_segment_key == segment->serial())
    return all->last_segment;
  NumberedThing thing;
  thing.segment = Weak<Segment>(segment);
  thing.key = segment->serial();
  TENON_ASSIGN(all->last_segment, number(all, std::move(thing)));
  all->last_segment_key = segment->serial();
  return all->last_segment;
}

Status number_all(DepositState* all, const tensor::Packed& packed, std::vector<Thing>* out) {
  for (const Ref<Segment>& segment : packed.segments) {
    TENON_ASSIGN(const Thing numbered, number_segment(all, segment.get()));
    out->push_back(numbered);
  }
  for (const memory::Holding* const holding : packed.upstream) {
    for (const std::shared_ptr<LeaseToken>& token : holding->tokens()) {
      NumberedThing thing;
      thing.kind = ThingKind::kToken;
      thing.token = token;
      thing.key = token->id;
      TENON_ASSIGN(const Thing numbered, number(all, std::move(thing)));
      if (std::find(out->begin(), out->end(), numbered) == out->end()) out->push_back(numbered);
    }
  }
  return Status::ok();
}

}  // namespace

Result<Deposited> deposit_message(const tensor::Message& message) {
  tensor::Packed packed;
  TENON_TRY(tensor::pack(message, tensor::Leases::kYes, &packed));
  if (!packed.device_segments.empty()) {
    return Status(Code::kUnsupported,
                  "a message with memory of a device cannot be deposited: send it over a "
                  "connection, or share its handle "
                  "(tenon_share_cuda)");
  }
  auto envelope = Ref<Envelope>::adopt(new Envelope());
  for (const tensor::Message::Item& item : message.items()) envelope->keep(item.tensor->storage());
  std::vector<memory::Leased*> objects{envelope.get()};
  std::copy_if(packed.leased.begin(), packed.leased.end(), std::back_inserter(objects),
               [](const memory::Leased* each) { return each != nullptr; });
  std::vector<uint32_t> slots(objects.size());
  Ticket ticket;
  DepositState& all = deposit_state();
  Ref<Depot> depot;
  Depot::MessageSlot place;
  {
    TENON_ASSIGN(const std::unique_lock<std::mutex> lock,
                 enter_depot(&all, 2 + 2 * packed.segments.size()));
    note_address(all, &ticket);
    depot = all.depot;
    TENON_TRY(number_all(&all, packed, &ticket.things));
    TENON_ASSIGN(place, depot->deposit(objects, slots.data()));
  }
  // The message is withdrawn again unless the ticket exists, for want of memory for example.
  struct Undo {
    Depot* depot;
    Depot::MessageSlot place;
    ~Undo() {
      if (depot != nullptr) (void)depot->withdraw(place);
    }
  } undo{depot.get(), place};
  ticket.message = place.message;
  ticket.generation = place.generation;
  ticket.envelope = slots[0];
  size_t next = 1;
  ticket.slots.reserve(packed.leased.size());
  for (const memory::Leased* const each : packed.leased)
    ticket.slots.push_back(each != nullptr ? slots[next++] : kNoLease);
  for (size_t i = 0; i < packed.content.segments.size(); ++i) {
    tensor::SegmentRecord& record = packed.content.segments[i];
    record.reach = tensor::Reach::kKnown;
    record.id = ticket.things[i].serial;
    record.fd_index = 0;
  }
  packed.content.sender_pid = ticket.pid;
  packed.content.boot_id = os::host_identity().boot_id;
  packed.content.pid_namespace = os::host_identity().pid_namespace;
  std::vector<std::byte> bytes = encode_ticket(ticket, tensor::encode_descriptor(packed.content));
  depot->open(place);
  undo.depot = nullptr;
  uint64_t nbytes = 0;
  for (const tensor::StorageRecord& each : packed.content.storages) nbytes += each.nbytes;
  count_deposit(depot, place, nbytes);
  drain_sometimes();
  return Deposited{std::move(bytes), std::move(depot), place};
}

Result<bool> deposit_storage(const Ref<storage::Storage>& storage, memory::Access access,
                             DepositedStorage* out) {
  if (!storage->is_own() || storage->nbytes() == 0) return false;
  TENON_ASSIGN(const share::Lend lend, share::lend(storage, access, true));
  if (lend.fd < 0) return false;
  memory::Leased* leased = storage->leased();
  StorageTicket& ticket = out->storage;
  if (leased == nullptr) {
    if (!storage->has_own_segment()) return false;
    leased = storage.get();
    ticket.ends_when_opened = true;
  }
  const Ref<Segment>& segment = storage->segment();
  DepositState& all = deposit_state();
  {
    TENON_ASSIGN(const std::unique_lock<std::mutex> lock, enter_depot(&all, 1));
    TENON_ASSIGN(ticket.segment, number_segment(&all, segment.get()));
    TENON_ASSIGN(out->place, all.depot->deposit({&leased, 1}, &ticket.slot));
    out->depot = all.depot;
  }
  ticket.offset = lend.offset;
  ticket.nbytes = lend.nbytes;
  ticket.segment_nbytes = lend.segment_nbytes;
  ticket.access = static_cast<uint32_t>(lend.access);
  ticket.mode = static_cast<uint32_t>(segment->mode());
  out->depot->open(out->place);
  count_deposit(out->depot, out->place, lend.nbytes);
  drain_sometimes();
  return true;
}

Result<Ticket> depot_address(const Depot& depot) {
  DepositState& all = deposit_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (all.depot.get() != &depot)
    return Status(Code::kInvalidArgument, "the depot was handed over to a keeper");
  Ticket address;
  note_address(all, &address);
  return address;
}

Result<std::vector<std::byte>> deposit(const tensor::Message& message) {
  TENON_ASSIGN(Deposited deposited, deposit_message(message));
  return std::move(deposited.ticket);
}

Result<std::unique_ptr<Deposit>> Deposit::create() {
  std::unique_ptr<Deposit> deposit(new Deposit());
  deposit->envelope_ = Ref<memory::Leased>::adopt(new Envelope());
  memory::Leased* const envelope = deposit->envelope_.get();
  Ticket ticket;
  DepositState& all = deposit_state();
  {
    TENON_ASSIGN(const std::unique_lock<std::mutex> lock, enter_depot(&all, 2));
    note_address(all, &ticket);
    deposit->depot_ = all.depot;
  }
  TENON_ASSIGN(deposit->place_, deposit->depot_->deposit({&envelope, 1}, &ticket.envelope));
  ticket.message = deposit->place_.message;
  ticket.generation = deposit->place_.generation;
  try {
    deposit->head_ = encode_ticket(ticket, {});
  } catch (...) {
    (void)deposit->withdraw();
    throw;
  }
  deposit->depot_->open(deposit->place_);
  return deposit;
}

Result<std::vector<std::byte>> Deposit::add(const Ref<storage::Storage>& storage,
                                            memory::Access access) {
  if (!depot_->made_by_this_process())
    return Status(Code::kInvalidArgument,
                  "the deposit is of the process that this one was forked from");
  if (!depot_->is_unfetched(place_))
    return Status(Code::kInvalidArgument, "the deposit was withdrawn, or is fetched already");
  tensor::Packed packed;
  TENON_TRY(tensor::pack_storage(storage, access, &packed));
  if (!packed.device_segments.empty())
    return Status(Code::kUnsupported,
                  "memory of a device cannot be deposited: share its handle (tenon_share_cuda)");
  std::vector<Thing> things;
  {
    DepositState& all = deposit_state();
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (all.depot.get() != depot_.get())
      return Status(Code::kInvalidArgument, "the message was handed over to a keeper");
    TENON_TRY(number_all(&all, packed, &things));
  }
  if (things.size() > kMostRecordThings)
    return Status(
        Code::kUnsupported,
        "the storage counts on more lenders further up than a record has room for: clone it");
  StorageTicket ticket;
  ticket.slot = kNoLease;
  static_cast<Envelope*>(envelope_.get())->keep(storage);
  if (memory::Leased* const leased = packed.leased[0]; leased != nullptr)
    TENON_TRY(depot_->add(place_, {&leased, 1}, &ticket.slot));
  const tensor::StorageRecord& record = packed.content.storages[0];
  ticket.offset = record.offset;
  ticket.nbytes = record.nbytes;
  ticket.access = static_cast<uint32_t>(storage->is_read_only() ? memory::Access::kReadOnly
                                                                : memory::Access::kWritable);
  ticket.mode = static_cast<uint32_t>(storage->mode());
  if (!packed.content.segments.empty()) {
    const tensor::SegmentRecord& segment = packed.content.segments[0];
    ticket.segment = things[0];
    ticket.segment_nbytes = segment.nbytes;
    ticket.access = segment.access;
    ticket.tokens.assign(things.begin() + 1, things.end());
  }
  count_deposit(depot_, place_, record.nbytes);
  return encode_storage_ticket(ticket);
}

void leave_deposits() noexcept {
  DepositState& all = deposit_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  unlink_depot(all);
}

bool Deposit::withdraw() noexcept { return depot_->withdraw(place_); }

Result<OwnMessage> own_message(std::span<const std::byte> ticket) {
  const std::vector<std::byte> own(ticket.begin(), ticket.end());
  size_t used = 0;
  TENON_ASSIGN(const Ticket read, decode_ticket(own, &used));
  Ref<Depot> depot = own_depot(read.depot);
  if (!depot) {
    return Status(Code::kInvalidArgument, format("the ticket is of process %d: the process that "
                                                 "deposited a message takes it back",
                                                 read.pid))
        .with("pid", read.pid);
  }
  return OwnMessage{std::move(depot), {read.message, read.generation}};
}

Result<bool> withdraw(std::span<const std::byte> ticket) {
  TENON_ASSIGN(const OwnMessage own, own_message(ticket));
  return own.depot->withdraw(own.place);
}

Ref<Depot> own_depot(const DepotId& id) noexcept {
  DepositState& all = deposit_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  return all.depot && all.id == id ? all.depot : Ref<Depot>();
}

Ref<memory::Segment> own_segment(const Thing& thing) noexcept {
  DepositState& all = deposit_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.things.find(thing.serial);
  return found == all.things.end() ? Ref<Segment>() : found->second.segment.lock();
}

}  // namespace tenon::channel

// Deposits messages: each belongs to whoever fetches it first (fetch.h), by a ticket that travels
// by whatever carries bytes.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/counted.h"
#include "base/status.h"
#include "channel/ticket.h"
#include "memory/depot.h"
#include "tensor/message.h"

namespace tenon::channel {

// The ticket of a message, whose storages are kept until it is fetched and they are given back, or
// until it is withdrawn or this process ends. The first call makes the process's depot and its
// socket.
Result<std::vector<std::byte>> deposit(const tensor::Message& message);
// Takes back a message of this process that nobody has fetched. False: it was fetched or withdrawn
// before. INVALID_ARGUMENT: it is another process's.
Result<bool> withdraw(std::span<const std::byte> ticket);

// A message of this process by its ticket, fetched or not. INVALID_ARGUMENT: it is another
// process's.
struct OwnMessage {
  Ref<memory::Depot> depot;
  memory::Depot::Place place;
};
Result<OwnMessage> own_message(std::span<const std::byte> ticket);

// A message that is deposited piece by piece, as a pickler meets its storages. Whoever fetches it
// begins with head(), so nobody must have that before all storages are added.
class Deposit {
 public:
  static Result<std::unique_ptr<Deposit>> create();
  const std::vector<std::byte>& head() const noexcept { return head_; }
  // The storage's ticket.
  Result<std::vector<std::byte>> add(const Ref<storage::Storage>& storage, memory::Access access);
  // False: it was fetched already.
  bool withdraw() noexcept;

 private:
  Deposit() noexcept = default;
  Ref<memory::Depot> depot_;
  memory::Depot::Place place_;
  Ref<memory::Leased> envelope_;
  std::vector<std::byte> head_;
};

// Before an end without exit(): nobody finds the socket any more. Whoever has met this process goes
// on fetching.
void leave_deposits() noexcept;

// For fetch.cc: this process's depot if it has that id; null: it is another process's.
Ref<memory::Depot> own_depot(const DepotId& id) noexcept;
// And a segment of it; null: it is gone.
Ref<memory::Segment> own_segment(const Thing& thing) noexcept;

}  // namespace tenon::channel

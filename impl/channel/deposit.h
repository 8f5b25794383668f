// Deposits messages. A deposited message belongs to the process that fetches it first (fetch.h). It
// is fetched by its ticket, which is bytes. A pipe, a socket, a queue or a file brings these bytes
// to a receiver, and is called the carrier of the message. Until the message is fetched, the
// lender's depot (memory/depot.h) keeps it. The C boundary (capi/src/deposit.cc) calls these
// functions.
//
// The functions take the lock of the DepositState (deposit_server.h), make memory and release
// storages. So their caller holds no lock that has a rank (base/lock_rank.h). A forked child begins
// without a depot: its parent's messages are another process's there.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/counted.h"
#include "base/status.h"
#include "channel/ticket.h"
#include "memory/depot.h"
#include "tensor/message.h"

namespace tenon::channel {

// Deposits a message and returns its ticket. The message's storages are kept until the message was
// fetched and its leases were given back, until it is withdrawn, or until this process ends. The
// first call makes the depot of this process and its socket. UNSUPPORTED: the message has memory of
// a device. Also the errors of lending its storages (tensor::pack()). RESOURCE_EXHAUSTED: a limit
// of segments, leases or messages. On failure, std::bad_alloc included, nothing is deposited.
Result<std::vector<std::byte>> deposit(const tensor::Message& message);
// Does the same, and tells where the message lies in the depot of this process. A carrier of
// tickets that can tell that nobody will fetch the message withdraws it there.
struct Deposited {
  std::vector<std::byte> ticket;
  Ref<memory::Depot> depot;
  memory::Depot::MessageSlot place;
};
Result<Deposited> deposit_message(const tensor::Message& message);
// Deposits a message of one storage, for a carrier that has a shorter form than a ticket for it
// (queue/short_form.h). It has no envelope: its one lease is the storage's. A storage that needs no
// lease has one until the receiver has opened it. False, and `out` is as it was: the storage needs
// more than a lease of this process's depot, so its message is deposited by deposit_message().
// Errors as for that.
struct DepositedStorage {
  Ref<memory::Depot> depot;
  memory::Depot::MessageSlot place;
  StorageTicket storage;
};
Result<bool> deposit_storage(const Ref<storage::Storage>& storage, memory::Access access,
                             DepositedStorage* out);
// The depot of this process as receivers reach it: a ticket with only `depot`, `rendezvous` and
// `pid`. INVALID_ARGUMENT: `depot` is not the depot of this process any more.
Result<Ticket> depot_address(const memory::Depot& depot);

// Takes back a message of this process. False: it was fetched or withdrawn before.
// INVALID_ARGUMENT: the message is another process's, or a keeper has it. CORRUPT or INCOMPATIBLE:
// the bytes are no ticket.
Result<bool> withdraw(std::span<const std::byte> ticket);

// Finds a message of this process by its ticket, whether it was fetched or not. The errors are
// those of withdraw().
struct OwnMessage {
  Ref<memory::Depot> depot;
  memory::Depot::MessageSlot place;
};
Result<OwnMessage> own_message(std::span<const std::byte> ticket);

// A message that is deposited in pieces, as a pickler meets its storages one by one. A receiver
// begins with head(), so head() must not leave this process before all storages are added. The
// destructor does not withdraw the message. In a forked child add() returns INVALID_ARGUMENT,
// withdraw() returns false, and the destructor does nothing to the parent's message.
class Deposit {
 public:
  // The errors are those of making the depot of this process, which its first deposit does, and
  // RESOURCE_EXHAUSTED for a limit of leases or messages.
  static Result<std::unique_ptr<Deposit>> create();
  const std::vector<std::byte>& head() const noexcept { return head_; }
  // Adds a storage, and returns the storage's ticket, a record of docs/format/deposit.md. The
  // deposit keeps a reference to the storage. INVALID_ARGUMENT: the message was fetched, withdrawn
  // or handed over to a keeper. UNSUPPORTED: memory of a device, or a storage that counts on too
  // many lenders further up. Also the errors of deposit(). After a failure the message stays,
  // without this storage.
  Result<std::vector<std::byte>> add(const Ref<storage::Storage>& storage, memory::Access access);
  // False: the message was fetched or withdrawn before.
  bool withdraw() noexcept;

 private:
  Deposit() noexcept = default;
  Ref<memory::Depot> depot_;
  memory::Depot::MessageSlot place_;
  Ref<memory::Leased> envelope_;
  std::vector<std::byte> head_;
};

// Removes the name of the socket. exit() does this too, so only a process that ends without exit()
// calls it. From then on no receiver finds the socket, but receivers that have met this process go
// on fetching.
void leave_deposits() noexcept;

// For receivers (fetch.h): this process's depot, if it has that id. Null: the depot is another
// process's.
Ref<memory::Depot> own_depot(const DepotId& id) noexcept;
// For receivers: a segment of this process's depot. Null: the segment is gone, or the thing is a
// token.
Ref<memory::Segment> own_segment(const Thing& thing) noexcept;

}  // namespace tenon::channel

// The receiver's side of deposits (deposit.h): fetches messages by their tickets. The C boundary
// (capi/src/deposit.cc) calls these functions. To meet a lender is to ask it once for a token, a
// lease page, a bell and its claims page (docs/format/deposit.md). To claim a message is to
// exchange its word in the claims page (memory/claims_page.h), after which nobody else can claim
// the message. The functions ask other processes and map memory, so their caller holds no lock that
// has a rank (base/lock_rank.h). A forked child meets each lender anew.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <unordered_set>

#include "base/counted.h"
#include "base/prefetch.h"
#include "base/status.h"
#include "channel/ticket.h"
#include "memory/depot.h"
#include "memory/holding.h"
#include "os/mapping.h"
#include "os/wait.h"
#include "share/by_fd.h"
#include "storage/storage.h"
#include "tensor/descriptor.h"
#include "tensor/message.h"

namespace tenon::channel {

struct FetchOptions {
  share::OpenOptions open;
  tensor::DescriptorLimits limits;
};

// Fetches the message of a ticket. From then on nobody else can fetch it. The call makes no system
// call if this process has met the lender since its last fork and has all segments that the message
// needs. Otherwise it asks the lender, once for every kMostThings segments and tokens that it
// lacks. NOT_FOUND: the message was fetched before, or withdrawn. PEER_GONE: the lender is gone,
// and this process lacks what the message needs. CORRUPT with field "ticket": the bytes are no
// ticket. UNSUPPORTED: private openings. PERMISSION: the lender is another user's. Also the errors
// of the wait and of mapping.
//
// An error of the wait, of asking or of mapping comes before the claim, and the ticket stays good.
// An error after the claim loses the message: its leases are given back.
Result<std::unique_ptr<tensor::Message>> fetch(std::span<const std::byte> ticket,
                                               const FetchOptions& options, const os::Wait& wait);

struct Link;  // a lender that this process has met (fetch.cc)

// A lender that a receiver keeps in mind, so that it need not look the lender up for each message.
// One thread at a time may use the object.
class KnownLender {
 public:
  // `address` is what depot_address() gave in the lender's process. It comes from outside.
  static Result<std::unique_ptr<KnownLender>> create(Ticket address);
  // Fetches a message of one storage (deposit_storage() in deposit.h). The errors, and what they
  // mean for the message, are those of channel::fetch().
  Result<Ref<storage::Storage>> fetch(memory::Depot::MessageSlot place,
                                      const StorageTicket& storage, const FetchOptions& options,
                                      const os::Wait& wait);
  // Asks the CPU for the word by which fetch() claims the message. Call it some time before.
  void prefetch(uint32_t message) const noexcept {
    if (message < messages_) prefetch_for_write(claims_ + message);
  }

 private:
  KnownLender() noexcept = default;
  Ticket address_;
  // The lender's claims as fetch() saw them last. They may be gone by now.
  const uint64_t* claims_ = nullptr;
  uint32_t messages_ = 0;
  std::shared_ptr<Link> link_;  // null: the lender is this process
};

// A message that is fetched in pieces: by the head of a Deposit, and then by the tickets of its
// storages. create() claims the message. The destructor gives back the leases of the storages that
// were not opened. One thread at a time may use the object.
//
// After a fork the child only destroys the object, whose leases are FAMILY there. open() of a
// message of the parent's own depot is UNSUPPORTED in the child. Any other open() may wait for a
// lock that a thread of the parent held at the fork.
class Fetched {
 public:
  // Takes the head of a Deposit and claims its message. The errors are those of fetch(). After an
  // error nothing was claimed.
  static Result<std::unique_ptr<Fetched>> create(std::span<const std::byte> head,
                                                 const FetchOptions& options, const os::Wait& wait);
  Fetched(const Fetched&) = delete;
  Fetched& operator=(const Fetched&) = delete;
  ~Fetched();
  // Opens a storage by its ticket, once. CORRUPT with field "ticket": the bytes are no ticket of
  // this message, or the storage was opened before. An open() that fails before its segment is
  // mapped can be repeated. The other errors are those of fetch().
  Result<Ref<storage::Storage>> open(std::span<const std::byte> storage, const os::Wait& wait);

 private:
  Fetched() noexcept = default;
  Result<Ref<storage::Storage>> open_own(const StorageTicket& storage);
  Ticket ticket_;
  FetchOptions options_;
  Ref<memory::Depot> own_;  // null: the depot is another process's
  std::shared_ptr<Link> link_;
  // The holding under which the message was claimed. Null: create() failed before the claim, or it
  // is this process's own message.
  Ref<memory::Holding> holding_;
  std::shared_ptr<os::Mapping> page_;
  uint32_t mark_ = 0;    // fork_mark() before the claim
  uint32_t number_ = 0;  // the number of this process at the lender, used for the claim
  uint32_t n_messages_ = 0;
  uint32_t n_things_ = 0;
  void look_at_slots();
  bool has_looked_ = false;
  std::unordered_set<uint32_t> left_;  // slots of the message that were not opened
  // For a message of this process: its slots that were opened.
  std::unordered_set<uint32_t> opened_here_;
};

}  // namespace tenon::channel

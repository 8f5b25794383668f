// Messages that are fetched in pieces, as a process that reads a pickle meets its storages one by
// one. The other side is Deposit (deposit.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_set>

#include "base/counted.h"
#include "base/status.h"
#include "channel/fetch.h"
#include "channel/ticket.h"
#include "memory/depot.h"
#include "memory/holding.h"
#include "os/mapping.h"
#include "os/wait.h"
#include "storage/storage.h"

namespace tenon::channel {

struct Link;  // lender_link.h

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

// Messages of one storage (deposit_storage() in deposit.h), which a queue fetches without a ticket
// of their own: by the lender's address, and the place and storage of each message.
#pragma once

#include <cstdint>
#include <memory>

#include "base/counted.h"
#include "base/prefetch.h"
#include "base/status.h"
#include "channel/fetch.h"
#include "channel/ticket.h"
#include "memory/depot.h"
#include "os/wait.h"
#include "storage/storage.h"

namespace tenon::channel {

struct Link;  // lender_link.h

// A lender that a receiver keeps in mind, so that it need not look the lender up for each message.
// One thread at a time may use the object.
class KnownLender {
 public:
  // `address` is what depot_address() gave in the lender's process. It comes from outside.
  static Result<std::unique_ptr<KnownLender>> create(Ticket address);
  // Call it after the KnownLender of a process that has ended was dropped: the memory of that
  // process is unmapped, unless it has unfetched messages.
  static void forget_gone() noexcept;
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

}  // namespace tenon::channel

#include "channel/fetch_pieces.h"

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "base/fork.h"
#include "channel/deposit.h"
#include "channel/lease_block.h"
#include "channel/lender_link.h"
#include "memory/claims_page.h"
#include "memory/lease.h"

namespace tenon::channel {
namespace claims = memory::claims_page;
using memory::Segment;

Result<std::unique_ptr<Fetched>> Fetched::create(std::span<const std::byte> head,
                                                 const FetchOptions& options,
                                                 const os::Wait& wait) {
  TENON_TRY(check_fetch_options(options));
  const std::vector<std::byte> bytes(head.begin(), head.end());
  size_t used = 0;
  std::unique_ptr<Fetched> fetched(new Fetched());
  TENON_ASSIGN(fetched->ticket_, decode_ticket(bytes, &used));
  const Ticket& ticket = fetched->ticket_;
  if (used != bytes.size() || !ticket.slots.empty() || !ticket.things.empty())
    return corrupt_ticket(
        "the ticket of a whole message, where one of a message in pieces is expected");
  fetched->options_ = options;
  if (Ref<memory::Depot> depot = own_depot(ticket.depot)) {
    if (!depot->claim_here({ticket.message, ticket.generation})) return already_fetched(ticket);
    fetched->own_ = std::move(depot);
    return fetched;
  }
  TENON_ASSIGN(fetched->link_, find_link(ticket.depot));
  Link* const link = fetched->link_.get();
  os::Waiter waiter(wait);
  TENON_ASSIGN(const std::unique_lock<std::mutex> lock, lock_link(link, &waiter));
  TENON_TRY(meet(link, ticket, {}, &waiter));
  if (ticket.message >= link->messages || ticket.envelope >= link->holding->slots())
    return corrupt_ticket("a ticket with a number beyond the claims page or the lease page");
  fetched->mark_ = fork_mark();
  fetched->number_ = link->number;
  fetched->page_ = link->page;
  fetched->n_messages_ = link->messages;
  fetched->n_things_ = link->n_things;
  if (!claims::claim(link->page->base(), ticket.message, ticket.generation, link->number))
    return already_fetched(ticket);
  fetched->holding_ = link->holding;
  return fetched;
}

Result<Ref<storage::Storage>> Fetched::open_own(const StorageTicket& storage) {
  // A thread of the parent may have held the depot's lock at the fork.
  if (!own_->made_by_this_process())
    return Status(Code::kUnsupported,
                  "the parent of this process deposited and fetched the message: only the parent "
                  "can open its storages");
  if (storage.slot != kNoLease &&
      (!own_->has_slot({ticket_.message, ticket_.generation}, storage.slot) ||
       !opened_here_.insert(storage.slot).second))
    return corrupt_ticket("a record with a lease of another message, or that was opened before");
  Ref<Segment> segment = own_segment(storage.segment);
  if (!segment) return already_fetched(ticket_);
  memory::Lease lease;
  if (memory::LentBlock* const block = memory::lease_own(segment->key(), storage.offset);
      block != nullptr)
    lease = memory::Lease(block);
  return share::open_range(segment, storage.offset, storage.nbytes, &lease);
}

Result<Ref<storage::Storage>> Fetched::open(std::span<const std::byte> bytes,
                                            const os::Wait& wait) {
  TENON_ASSIGN(const StorageTicket storage,
               decode_storage_ticket(std::vector<std::byte>(bytes.begin(), bytes.end())));
  if (storage.nbytes == 0) {
    return storage::Storage::open_empty(
        static_cast<memory::Mode>(storage.mode),
        static_cast<memory::Access>(storage.access) == memory::Access::kReadOnly);
  }
  if (own_) return open_own(storage);
  os::Waiter waiter(wait);
  std::vector<Thing> things{storage.segment};
  things.insert(things.end(), storage.tokens.begin(), storage.tokens.end());
  TENON_ASSIGN(const std::unique_lock<std::mutex> lock, lock_link(link_.get(), &waiter));
  if (storage.slot != kNoLease && storage.slot >= holding_->slots())
    return corrupt_ticket("a lease beyond the lease page");
  TENON_TRY(meet(link_.get(), ticket_, things, &waiter));
  TENON_ASSIGN(
      const Ref<Segment>* const mapped,
      map_segment(link_.get(), storage.segment, static_cast<memory::Access>(storage.access),
                  storage.segment_nbytes, storage.offset + storage.nbytes, options_.open));
  const Ref<Segment>& segment = *mapped;
  memory::Lease lease;
  if (storage.slot != kNoLease) {
    look_at_slots();
    if (left_.erase(storage.slot) == 0)
      return corrupt_ticket("a record with a lease of another message, or that was opened before");
    lease = memory::Lease(holding_, storage.slot, mark_);
    if (memory::LentBlock* const block = memory::lease_own(segment->key(), storage.offset);
        block != nullptr)
      lease = memory::Lease(block);
  }
  return share::open_range(segment, storage.offset, storage.nbytes, &lease);
}

// Follows the chain in the claims page from the envelope's slot to all slots of the message. The
// chain is whole until the message is over, and the message is not over while the envelope's lease
// is held.
void Fetched::look_at_slots() {
  if (has_looked_) return;
  std::byte* const base = page_->base();
  const uint32_t slots = holding_->slots();
  uint32_t slot = ticket_.envelope;
  for (uint32_t steps = 0; steps < slots; ++steps) {
    slot = claims::next_slot(base, n_messages_, n_things_, slot).load(std::memory_order_acquire);
    if (slot >= slots) break;
    left_.insert(slot);
  }
  has_looked_ = true;  // last: after std::bad_alloc the next call begins anew
}

Fetched::~Fetched() {
  if (own_) own_->end_message({ticket_.message, ticket_.generation});
  if (!holding_) return;
  try {
    look_at_slots();
  } catch (...) {
    // No memory: the leases of storages that were not opened end with this process.
  }
  {
    const memory::GivingBack together;  // one ring for all slots of a word
    for (const uint32_t slot : left_) (void)memory::Lease(holding_, slot, mark_);
  }
  // A forked child may have opened only a part. Its parent says when it has opened everything.
  if (!forked_since(mark_))
    claims::say_opened(page_->base(), ticket_.message, {ticket_.generation, number_});
  holding_->give_back(ticket_.envelope, mark_);
}

}  // namespace tenon::channel

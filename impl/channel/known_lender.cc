#include "channel/known_lender.h"

#include <mutex>
#include <utility>

#include "base/checked.h"
#include "channel/deposit.h"
#include "channel/lender_link.h"
#include "memory/claims_page.h"
#include "memory/lease.h"

namespace tenon::channel {
namespace claims = memory::claims_page;
using memory::Segment;

namespace {

// Fetches a message of this very process.
Result<Ref<storage::Storage>> fetch_own_storage(const Ticket& ticket,
                                                const StorageTicket& storage) {
  const Ref<memory::Depot> depot = own_depot(ticket.depot);
  const Ref<Segment> segment = depot ? own_segment(storage.segment) : Ref<Segment>();
  if (!segment) return already_fetched(ticket);
  uint64_t end = 0;
  if (!checked_add(storage.offset, storage.nbytes, &end) || end > segment->nbytes())
    return corrupt_ticket("a storage beyond its segment");
  const memory::Depot::MessageSlot place{ticket.message, ticket.generation};
  if (!depot->claim_here(place)) return already_fetched(ticket);
  memory::Lease lease;
  if (memory::LentBlock* const block = memory::lease_own(segment->key(), storage.offset);
      block != nullptr)
    lease = memory::Lease(block);
  Result<Ref<storage::Storage>> opened =
      share::open_range(segment, storage.offset, storage.nbytes, &lease);
  depot->end_message(place);
  return opened;
}

}  // namespace

Result<std::unique_ptr<KnownLender>> KnownLender::create(Ticket address) {
  std::unique_ptr<KnownLender> lender(new KnownLender());
  if (!own_depot(address.depot)) {
    TENON_ASSIGN(lender->link_, find_link(address.depot));
  }
  lender->address_ = std::move(address);
  return lender;
}

void KnownLender::forget_gone() noexcept { forget_gone_links(); }

Result<Ref<storage::Storage>> KnownLender::fetch(memory::Depot::MessageSlot place,
                                                 const StorageTicket& storage,
                                                 const FetchOptions& options,
                                                 const os::Wait& wait) {
  address_.message = place.message;
  address_.generation = place.generation;
  if (!link_) return fetch_own_storage(address_, storage);
  uint64_t end = 0;
  if (storage.nbytes == 0 || !checked_add(storage.offset, storage.nbytes, &end))
    return corrupt_ticket("a storage of a size that none has");
  Link* const link = link_.get();
  std::unique_lock<std::mutex> lock(link->mutex, std::try_to_lock);
  bool is_ready = false;
  if (lock.owns_lock() && has_met(*link)) {
    forget_ended(link);
    is_ready = find_thing(link, storage.segment) != nullptr;
  }
  if (!is_ready) {
    os::Waiter waiter(wait);  // it reads the clock, which most messages do not need
    if (!lock.owns_lock()) {
      TENON_ASSIGN(lock, lock_link(link, &waiter));
    }
    TENON_TRY(meet(link, address_, {&storage.segment, 1}, &waiter));
  }
  if (place.message >= link->messages || storage.slot >= link->holding->slots())
    return corrupt_ticket("a message or a lease beyond the claims page or the lease page");
  TENON_ASSIGN(const Ref<Segment>* const segment,
               map_segment(link, storage.segment, static_cast<memory::Access>(storage.access),
                           storage.segment_nbytes, end, options.open));
  claims_ = reinterpret_cast<const uint64_t*>(link->page->base() + claims::kClaimsOffset);
  messages_ = link->messages;
  const uint32_t mark = fork_mark();
  // The message has no other storage, so it is claimed and opened by one exchange.
  if (!claims::claim(link->page->base(), place.message, place.generation,
                     link->number | claims::kOpened))
    return already_fetched(address_);
  memory::Lease lease(link->holding, storage.slot, mark);
  return share::open_range(*segment, storage.offset, storage.nbytes,
                           storage.ends_when_opened ? nullptr : &lease);
}

}  // namespace tenon::channel

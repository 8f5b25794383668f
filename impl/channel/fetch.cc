#include "channel/fetch.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "channel/deposit.h"
#include "channel/lease_block.h"
#include "channel/lender_link.h"
#include "channel/ticket.h"
#include "memory/claims_page.h"
#include "memory/depot.h"
#include "memory/lease.h"
#include "tensor/pack.h"

namespace tenon::channel {
namespace claims = memory::claims_page;
using memory::Segment;
using tensor::DescriptorContent;
using tensor::Message;

namespace {

// Maps the segments of the message. The caller holds the link's lock.
Status resolve(Link* link, const Ticket& ticket, const DescriptorContent& content,
               const share::OpenOptions& options, std::vector<tensor::Resolved>* out) {
  const std::vector<uint64_t> needed = tensor::needed_nbytes(content);
  for (size_t i = 0; i < content.segments.size(); ++i) {
    const tensor::SegmentRecord& record = content.segments[i];
    TENON_ASSIGN(const Ref<Segment>* const segment,
                 map_segment(link, ticket.things[i], static_cast<memory::Access>(record.access),
                             record.nbytes, needed[i], options));
    out->push_back({*segment, -1, nullptr});
  }
  return Status::ok();
}

// Fetches a message of this very process. Its own blocks keep the memory, not leases of a ledger.
Result<std::unique_ptr<Message>> fetch_own(const Ref<memory::Depot>& depot, const Ticket& ticket,
                                           DescriptorContent content,
                                           const share::OpenOptions& options) {
  std::vector<tensor::Resolved> resolved;
  for (size_t i = 0; i < content.segments.size(); ++i) {
    Ref<Segment> segment = own_segment(ticket.things[i]);
    if (!segment) return already_fetched(ticket);
    if (content.segments[i].nbytes != segment->nbytes())
      return corrupt_ticket("a segment of another size than it has");
    resolved.push_back({std::move(segment), -1, nullptr});
  }
  const memory::Depot::MessageSlot place{ticket.message, ticket.generation};
  if (!depot->claim_here(place)) return already_fetched(ticket);
  struct Ending {
    memory::Depot* depot;
    memory::Depot::MessageSlot place;
    ~Ending() { depot->end_message(place); }
  } const ending{depot.get(), place};
  std::vector<memory::Lease> leases(content.storages.size());
  for (size_t i = 0; i < leases.size(); ++i) {
    const tensor::StorageRecord& record = content.storages[i];
    if (record.segment == tensor::kNoSegment) continue;
    if (memory::LentBlock* const block =
            memory::lease_own(resolved[record.segment].segment->key(), record.offset);
        block != nullptr)
      leases[i] = memory::Lease(block);
  }
  std::vector<Ref<storage::Storage>> storages;
  return tensor::unpack(std::move(content), resolved, leases, options, &storages);
}

}  // namespace

Status check_fetch_options(const FetchOptions& options) {
  if (!options.open.is_private()) return Status::ok();
  return Status(Code::kUnsupported,
                "a deposited message is fetched as it is: clone what should be private");
}

Result<std::unique_ptr<Message>> fetch(std::span<const std::byte> ticket_bytes,
                                       const FetchOptions& options, const os::Wait& wait) {
  TENON_TRY(check_fetch_options(options));
  const std::vector<std::byte> bytes(ticket_bytes.begin(), ticket_bytes.end());
  size_t used = 0;
  TENON_ASSIGN(const Ticket ticket, decode_ticket(bytes, &used));
  TENON_ASSIGN(DescriptorContent content,
               tensor::decode_descriptor(std::span(bytes).subspan(used), 0, options.limits));
  if (content.storages.size() != ticket.slots.size() ||
      content.segments.size() > ticket.things.size())
    return corrupt_ticket("a ticket of another number of storages or segments than its descriptor");
  for (size_t i = 0; i < ticket.things.size(); ++i) {
    const bool is_segment = i < content.segments.size();
    if ((ticket.things[i].kind == ThingKind::kSegment) != is_segment ||
        (is_segment && (content.segments[i].reach != tensor::Reach::kKnown ||
                        content.segments[i].id != ticket.things[i].serial)))
      return corrupt_ticket("a ticket whose segments are not those of its descriptor");
  }
  if (const Ref<memory::Depot> depot = own_depot(ticket.depot))
    return fetch_own(depot, ticket, std::move(content), options.open);
  TENON_ASSIGN(const std::shared_ptr<Link> link, find_link(ticket.depot));
  os::Waiter waiter(wait);
  std::vector<memory::Lease> leases(content.storages.size());
  std::vector<Ref<storage::Storage>> storages;
  TENON_ASSIGN(const std::unique_lock<std::mutex> lock, lock_link(link.get(), &waiter));
  TENON_TRY(meet(link.get(), ticket, ticket.things, &waiter));
  const uint32_t slots = link->holding->slots();
  const auto is_beyond = [&](uint32_t slot) { return slot != kNoLease && slot >= slots; };
  if (ticket.message >= link->messages || ticket.envelope >= slots ||
      std::any_of(ticket.slots.begin(), ticket.slots.end(), is_beyond))
    return corrupt_ticket("a ticket with a number beyond the claims page or the lease page");
  std::vector<tensor::Resolved> resolved;
  TENON_TRY(resolve(link.get(), ticket, content, options.open, &resolved));
  // All leases have one mark, from before the claim. A fork from here on makes all of them FAMILY.
  const uint32_t mark = fork_mark();
  if (!claims::claim(link->page->base(), ticket.message, ticket.generation, link->number))
    return already_fetched(ticket);
  const memory::Lease envelope(link->holding, ticket.envelope, mark);
  for (size_t i = 0; i < leases.size(); ++i) {
    if (ticket.slots[i] != kNoLease)
      leases[i] = memory::Lease(link->holding, ticket.slots[i], mark);
  }
  Result<std::unique_ptr<Message>> message =
      tensor::unpack(std::move(content), resolved, leases, options.open, &storages);
  claims::say_opened(link->page->base(), ticket.message, {ticket.generation, link->number});
  return message;
}

}  // namespace tenon::channel

// The links of this process to the lenders of messages that it fetches. To meet a lender is to ask
// it once (ask_lender.h) for a token, a lease page, a bell and its claims page. A link keeps these,
// and the segments and tokens that messages of the lender have needed. fetch.cc, known_lender.cc
// and fetch_pieces.cc find a link by the id of the lender's depot, lock it, meet the lender, and
// then claim their message.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>

#include "base/counted.h"
#include "base/fork.h"
#include "base/status.h"
#include "channel/ticket.h"
#include "memory/claims_page.h"
#include "memory/holding.h"
#include "memory/lease.h"
#include "memory/segment.h"
#include "os/fd.h"
#include "os/mapping.h"
#include "os/wait.h"
#include "share/by_fd.h"

namespace tenon::channel {

// A segment or token that a lender has numbered and that this process has.
struct KnownThing {
  uint64_t serial = 0;
  os::Fd fd;  // the fd of a segment until it is mapped
  Ref<memory::Segment> segment;
  uint64_t nbytes = 0;
  memory::Access access = memory::Access::kAuto;
  std::shared_ptr<memory::LeaseToken> token;
};

// A lender that this process has met, or is about to meet. `mutex` guards all other fields.
struct Link {
  std::mutex mutex;
  uint32_t number = 0;  // this process's number at the lender; 0: they have not met
  uint32_t mark = 0;    // fork_mark() when they met
  Ref<memory::Holding> holding;
  std::shared_ptr<os::Mapping> page;  // the claims page; a Fetched keeps it too
  uint32_t messages = 0;
  uint32_t n_things = 0;
  // How many of the lender's things had ended when this process last looked.
  uint64_t ended = 0;
  std::unordered_map<uint32_t, KnownThing> things;  // by number
  // The one of `things` that was found last, and its number. Most messages of a lender need the
  // same segment.
  KnownThing* last = nullptr;
  uint32_t last_number = 0;
};

// The errors of a ticket: CORRUPT with field "ticket", and NOT_FOUND for a message that was fetched
// before or withdrawn.
Status corrupt_ticket(const char* what);
Status already_fetched(const Ticket& ticket);

// Finds the link to the lender with this depot, or makes one, whose lender has not been met. Links
// to lenders that are gone are removed first. The caller holds no lock that has a rank.
Result<std::shared_ptr<Link>> find_link(const DepotId& id);

// Removes the links to lenders that are gone, and with them the lenders' memory. A link stays while
// one of the lender's messages is unfetched. The caller holds no lock that has a rank.
void forget_gone_links() noexcept;

// Takes the link's lock. Another thread that asks the same lender holds the lock until the lender
// answers. This thread waits no longer than its caller allows.
Result<std::unique_lock<std::mutex>> lock_link(Link* link, os::Waiter* waiter);

// The caller of all functions below holds the link's lock.

// Whether this process has met the lender. A fork has shared the old token, which says nothing of
// this process alone. So later leases are held under a new token.
inline bool has_met(const Link& link) noexcept {
  return link.number != 0 && !forked_since(link.mark);
}

// Makes sure that this process has met the lender and has the things that the message needs. The
// errors are those of ask_lender(), of mapping, and of corrupt_ticket().
Status meet(Link* link, const Ticket& ticket, std::span<const Thing> things, os::Waiter* waiter);

// Forgets the things that the lender has let go of. The lender has been met. The functions down to
// map_segment() run for every message, so their usual case is here, where it can be inlined.
void forget_ended_things(Link* link, uint64_t ended);
inline void forget_ended(Link* link) {
  const uint64_t ended =
      memory::claims_page::header(link->page->base()).ended.load(std::memory_order_acquire);
  if (ended != link->ended) forget_ended_things(link, ended);
}

// Null: this process lacks the thing.
inline KnownThing* find_thing(Link* link, const Thing& thing) {
  if (link->last == nullptr || link->last_number != thing.number) {
    const auto found = link->things.find(thing.number);
    if (found == link->things.end()) return nullptr;
    link->last = &found->second;
    link->last_number = thing.number;
  }
  return link->last->serial == thing.serial ? link->last : nullptr;
}

// Gives the segment of a thing that meet() has found, and maps it the first time. `nbytes` is the
// segment's size and `needed` the end of the last byte that the message uses. CORRUPT: the message
// contradicts itself or an earlier message. Also the errors of share::open_segment(). The result
// stays as long as the caller holds the lock.
Status map_known_thing(KnownThing* known, memory::Access access, uint64_t nbytes, uint64_t needed,
                       const share::OpenOptions& options);
inline Result<const Ref<memory::Segment>*> map_segment(Link* link, const Thing& thing,
                                                       memory::Access access, uint64_t nbytes,
                                                       uint64_t needed,
                                                       const share::OpenOptions& options) {
  KnownThing* const known = find_thing(link, thing);
  if (known == nullptr) return corrupt_ticket("a ticket that names a number twice");
  if (!known->segment) {
    TENON_TRY(map_known_thing(known, access, nbytes, needed, options));
  } else if (known->nbytes != nbytes || known->access != access || needed > known->nbytes) {
    return corrupt_ticket("a segment of another size or access than it had before");
  }
  return &known->segment;
}

}  // namespace tenon::channel

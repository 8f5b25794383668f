#include "channel/lender_link.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/process_state.h"
#include "channel/ask_lender.h"
#include "memory/ledger.h"
#include "os/memfd.h"
#include "os/token.h"

namespace tenon::channel {
namespace claims = memory::claims_page;
using memory::Holding;
using os::Fd;

namespace {

// A receiver that has met a lender can still fetch after that lender was killed. So a link to a
// lender that is gone stays while one of the lender's messages is unfetched, unless there are too
// many links.
constexpr size_t kFewLinks = 8;
// With more links than this, the lenders are checked only when the number of links has doubled.
constexpr size_t kLookedAtEachTime = 64;

struct FetchState : ProcessState<LockRank::kFetch> {
  std::map<DepotId, std::shared_ptr<Link>> links;
  size_t look_at = kFewLinks;  // with so many links, all links to lenders that are gone are removed

  // A forked child connects to each lender itself. The child's copies of the tokens are closed.
  // Another thread of the parent may have been changing a link, so such a link is leaked.
  void in_child_unlocked() noexcept {
    for (auto& [id, link] : links) {
      if (link->mutex.try_lock()) {
        link->mutex.unlock();
      } else {
        (void)new (std::nothrow) std::shared_ptr<Link>(link);
      }
    }
    links.clear();
  }
};

FetchState& fetch_state() noexcept { return process_state<FetchState>(); }

// Whether a link is kept. Its lender has been met, and the caller holds the link's lock.
bool is_worth_keeping(const Link& link) {
  if (!link.page) return false;
  return !link.holding->lender_is_gone() || claims::has_unfetched(link.page->base(), link.messages);
}

// Moves links to lenders that are gone to `gone`, because each link keeps the lender's memory. The
// caller holds the lock of the state, and releases `gone` after it: the end of a segment takes
// locks of a lower rank.
void forget_gone_lenders(FetchState* all, std::vector<std::shared_ptr<Link>>* gone) {
  const bool are_many = all->links.size() >= all->look_at;
  if (!are_many && all->links.size() > kLookedAtEachTime) return;
  gone->reserve(all->links.size());
  std::erase_if(all->links, [&](auto& entry) {
    Link& link = *entry.second;
    {
      const std::unique_lock<std::mutex> lock(link.mutex, std::try_to_lock);
      if (!lock.owns_lock()) return false;
      bool is_kept = false;
      if (!link.holding) {
        is_kept = entry.second.use_count() > 1;  // another thread may be about to meet this lender
      } else {
        is_kept = are_many ? !link.holding->lender_is_gone() : is_worth_keeping(link);
      }
      if (is_kept) return false;
    }
    gone->push_back(std::move(entry.second));
    return true;
  });
  if (are_many) all->look_at = std::max(kFewLinks, all->links.size() * 2);
}

// Checks and maps the claims page that the lender sent.
Status map_claims(Fd* fd, Link* link) {
  std::array<std::byte, sizeof(claims::Header)> bytes;
  TENON_ASSIGN(const uint64_t nbytes,
               memory::check_page_file(fd->get(), claims::kClaimsPage, memory::PageUse::kWrite,
                                       bytes.size()));
  TENON_TRY(os::read_file(fd->get(), 0, bytes.data(), bytes.size()));
  TENON_ASSIGN(const claims::Counts counts,
               claims::check_header(bytes, nbytes, link->holding->slots()));
  TENON_ASSIGN(os::Mapping page,
               os::Mapping::create(os::Mapping::Kind::kSharedWritable, fd->get(), 0, nbytes));
  link->page = std::make_shared<os::Mapping>(std::move(page));
  link->messages = counts.messages;
  link->n_things = counts.things;
  fd->reset();
  return Status::ok();
}

std::vector<Thing> unknown_of(Link* link, std::span<const Thing> things) {
  std::vector<Thing> unknown;
  std::copy_if(things.begin(), things.end(), std::back_inserter(unknown),
               [&](const Thing& each) { return find_thing(link, each) == nullptr; });
  return unknown;
}

Status take_things(Link* link, std::span<const Thing> things, std::span<Fd> fds) {
  for (size_t i = 0; i < things.size(); ++i) {
    if (things[i].number >= link->n_things)
      return corrupt_ticket("a ticket with a number beyond the claims page");
    KnownThing known;
    known.serial = things[i].serial;
    if (things[i].kind == ThingKind::kToken) {
      if (!os::is_token(fds[i].get()))
        return corrupt_ticket("an inherited token that is no end of a pipe");
      // Memory that comes home is kept by its block (tensor/pack.cc). A copy of the token here
      // would hide the hang-up.
      if (memory::own_ledger_of(fds[i].get()) == 0) {
        known.token = memory::make_token(std::move(fds[i]));
        link->holding->inherit(known.token);
      }
    } else {
      known.fd = std::move(fds[i]);
    }
    link->things.insert_or_assign(things[i].number, std::move(known));
  }
  return Status::ok();
}

}  // namespace

Status corrupt_ticket(const char* what) {
  return Status(Code::kCorrupt, what).with("field", std::string("ticket"));
}

Status already_fetched(const Ticket& ticket) {
  return Status(Code::kNotFound,
                format("the message of process %d was fetched before, or withdrawn: a message can "
                       "be fetched once; deposit one for each "
                       "receiver",
                       ticket.pid))
      .with("pid", ticket.pid);
}

Result<std::shared_ptr<Link>> find_link(const DepotId& id) {
  FetchState& all = fetch_state();
  std::vector<std::shared_ptr<Link>> gone;  // released after the lock
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (const auto found = all.links.find(id); found != all.links.end()) return found->second;
  forget_gone_lenders(&all, &gone);
  return all.links.emplace(id, std::make_shared<Link>()).first->second;
}

void forget_gone_links() noexcept {
  FetchState& all = fetch_state();
  std::vector<std::shared_ptr<Link>> gone;  // released after the lock
  try {
    const std::lock_guard<std::mutex> lock(all.mutex);
    forget_gone_lenders(&all, &gone);
  } catch (...) {
    // No memory: the links stay until the next call.
  }
}

Result<std::unique_lock<std::mutex>> lock_link(Link* link, os::Waiter* waiter) {
  constexpr int kYields = 200;
  constexpr int64_t kPauseNs = 200'000;
  std::unique_lock<std::mutex> lock(link->mutex, std::defer_lock);
  for (int tries = 0; !lock.try_lock(); ++tries) {
    if (tries < kYields) {
      std::this_thread::yield();
    } else {
      TENON_TRY(waiter->pause(kPauseNs, "another thread that asks the message's lender"));
    }
  }
  return lock;
}

Status meet(Link* link, const Ticket& ticket, std::span<const Thing> things, os::Waiter* waiter) {
  if (!has_met(*link)) {
    const std::span<const Thing> first = things.first(std::min<size_t>(things.size(), kMostThings));
    const uint32_t mark = fork_mark();
    TENON_ASSIGN(LenderAnswer answer, ask_lender(ticket, DepotRequest::kHello, first, waiter));
    for (Fd& fd : answer.fds) fd.mark_foreign();
    link->number = 0;
    link->last = nullptr;
    link->things.clear();
    TENON_ASSIGN(link->holding, Holding::open(&answer.fds[0], &answer.fds[1], &answer.fds[2]));
    TENON_TRY(map_claims(&answer.fds[3], link));
    link->ended = claims::header(link->page->base()).ended.load(std::memory_order_acquire);
    link->mark = mark;
    TENON_TRY(take_things(link, first, std::span(answer.fds).subspan(kGreetingFds)));
    link->number = answer.borrower;
  }
  forget_ended(link);
  const std::vector<Thing> unknown = unknown_of(link, things);
  for (std::span<const Thing> left = unknown; !left.empty();) {
    const std::span<const Thing> some = left.first(std::min<size_t>(left.size(), kMostThings));
    TENON_ASSIGN(LenderAnswer answer, ask_lender(ticket, DepotRequest::kThings, some, waiter));
    for (Fd& fd : answer.fds) fd.mark_foreign();
    TENON_TRY(take_things(link, some, answer.fds));
    left = left.subspan(some.size());
  }
  return Status::ok();
}

void forget_ended_things(Link* link, uint64_t ended) {
  std::byte* const base = link->page->base();
  link->ended = ended;
  link->last = nullptr;
  std::erase_if(link->things, [&](auto& entry) {
    const bool gone =
        claims::thing_word(base, link->messages, entry.first).load(std::memory_order_acquire) !=
        entry.second.serial;
    if (gone && entry.second.token) link->holding->disinherit(entry.second.token.get());
    return gone;
  });
}

Status map_known_thing(KnownThing* known, memory::Access access, uint64_t nbytes, uint64_t needed,
                       const share::OpenOptions& options) {
  if (!known->fd.is_open()) return corrupt_ticket("a number that is of a token and of a segment");
  TENON_ASSIGN(known->segment,
               share::open_segment(known->fd.get(), access, nbytes, needed, options, &known->fd));
  known->nbytes = nbytes;
  known->access = access;
  return Status::ok();
}

}  // namespace tenon::channel

#include "channel/fetch.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/fork.h"
#include "base/keyed_hash.h"
#include "base/process_state.h"
#include "channel/deposit.h"
#include "channel/deposit_server.h"
#include "channel/depot_packets.h"
#include "channel/lease_block.h"
#include "channel/ticket.h"
#include "memory/claims_page.h"
#include "memory/holding.h"
#include "memory/lease.h"
#include "memory/ledger.h"
#include "os/host.h"
#include "os/limits.h"
#include "os/local_socket.h"
#include "os/mapping.h"
#include "os/memfd.h"
#include "os/peer.h"
#include "os/socket.h"
#include "os/token.h"
#include "tensor/pack.h"

namespace tenon::channel {
namespace claims = memory::claims_page;
using memory::Holding;
using memory::LeaseToken;
using memory::Segment;
using os::Fd;
using tensor::DescriptorContent;
using tensor::Message;

// A segment or token that a lender has numbered and that this process has.
struct KnownThing {
  uint64_t serial = 0;
  Fd fd;  // the fd of a segment until it is mapped
  Ref<Segment> segment;
  uint64_t nbytes = 0;
  memory::Access access = memory::Access::kAuto;
  std::shared_ptr<LeaseToken> token;
};

// A lender that this process has met.
struct Link {
  std::mutex mutex;
  uint32_t number = 0;  // this process's number at the lender; 0: they have not met
  uint32_t mark = 0;    // fork_mark() when they met
  Ref<Holding> holding;
  std::shared_ptr<os::Mapping> page;  // the claims page; a Fetched keeps it, too
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

namespace {

Status corrupt_ticket(const char* what) {
  return Status(Code::kCorrupt, what).with("field", std::string("ticket"));
}

// A receiver that has met a lender can still fetch after that lender was killed. So a link to a
// lender that is gone stays while one of the lender's messages is unfetched, unless there are too
// many links.
constexpr size_t kFewLinks = 8;
// With more links than this, the lenders are checked only when the number of links has doubled.
constexpr size_t kLookedAtEachTime = 64;

struct FetchState : ProcessState<LockRank::kFetch> {
  std::map<DepotId, std::shared_ptr<Link>> links;
  size_t look_at = kFewLinks;  // with so many links, all links to lenders that are gone are removed

  // A forked child meets each lender itself. The child's copies of the tokens are closed. A link
  // that another thread of the parent was using may be torn, so it is leaked.
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

// Moves links to lenders that are gone to `gone`, because each link keeps the lender's memory. It
// runs before a lender is met. The caller holds the lock of the state, and releases `gone` after
// it: the end of a segment takes locks of a lower rank.
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

Result<std::shared_ptr<Link>> find_link(const DepotId& id) {
  FetchState& all = fetch_state();
  std::vector<std::shared_ptr<Link>> gone;  // released after the lock
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (const auto found = all.links.find(id); found != all.links.end()) return found->second;
  forget_gone_lenders(&all, &gone);
  return all.links.emplace(id, std::make_shared<Link>()).first->second;
}

// Takes the link's lock. Another thread that asks the same lender holds the lock until the lender
// answers. This thread waits no longer than its caller allows.
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

// ---- asking the lender

// Makes the error of a lender that could not be reached. PEER_GONE: nobody listens at the lender's
// socket any more. NOT_FOUND says less: the socket is not there, but this process may see another
// mount of /dev/shm.
Status not_reached(const Ticket& ticket, Status cause) {
  if (cause.code() == Code::kPeerGone) sweep_depots();
  if (cause.code() == Code::kPeerGone)
    return lender_status(Code::kPeerGone, ticket,
                         "is gone: it was killed, or it ended and its keeper's time is over; let "
                         "it live until its messages are "
                         "fetched, or its keeper stay for longer")
        .caused_by(cause);
  if (cause.code() == Code::kNotFound) {
    return Status(Code::kPeerGone,
                  format("the lender of the message, process %d, is gone or cannot be reached from "
                         "here: there is no socket %s; if it "
                         "lives, let both processes see the same /dev/shm",
                         ticket.pid, ticket.rendezvous.c_str()))
        .with("pid", ticket.pid)
        .with("path", ticket.rendezvous)
        .caused_by(cause);
  }
  return cause;
}

struct Answer {
  uint32_t borrower = 0;
  std::vector<Fd> fds;
};

// Asks the lender once. `hung_up`: the lender hung up and did not answer.
Result<Answer> ask_once(const Ticket& ticket, DepotRequest request, std::span<const Thing> things,
                        os::Waiter* waiter, bool* hung_up) {
  Result<Fd> connected = os::connect_local(os::SocketKind::kPackets, ticket.rendezvous, waiter);
  if (!connected.is_ok()) return not_reached(ticket, std::move(connected).status());
  const Fd socket = std::move(connected).value();
  TENON_ASSIGN(const os::Peer peer, os::peer_of(socket.get()));
  if (!os::is_own_or_root(peer))
    return lender_status(Code::kPermission, ticket, "belongs to another user");
  struct {
    DepotRequestPacket head;
    std::array<WireThingName, kMostThings> names;
  } packet{};
  packet.head = {kDepotMagic, static_cast<uint32_t>(request), static_cast<uint32_t>(things.size()),
                 0};
  for (size_t i = 0; i < things.size(); ++i)
    packet.names[i] = {things[i].number, static_cast<uint32_t>(things[i].kind), things[i].serial};
  const auto bytes = std::as_bytes(std::span(&packet, 1))
                         .first(sizeof packet.head + things.size() * sizeof(WireThingName));
  const os::Transfer sent = os::send_message(socket.get(), bytes, {}, {});
  if (sent.error != 0 && sent.error != EPIPE && sent.error != ECONNRESET)
    return errno_status(sent.error, "asking the lender of a message");
  const std::string awaited = format("an answer of process %d, the message's lender,", ticket.pid);
  TENON_TRY(waiter->until_ready(socket.get(), POLLIN, awaited.c_str()));
  DepotAnswerPacket answer{};
  os::ReceivedFds received;
  os::Transfer got = os::receive_message(
      socket.get(), std::as_writable_bytes(std::span(&answer, 1)), false, &received);
  // If the lender hung up on an unread request, the kernel reports that first. What the lender had
  // sent before can still be read.
  if (got.error == ECONNRESET)
    got = os::receive_message(socket.get(), std::as_writable_bytes(std::span(&answer, 1)), false,
                              &received);
  *hung_up = got.error == ECONNRESET || (got.error == 0 && got.nbytes == 0);
  if (*hung_up) return lender_status(Code::kPeerGone, ticket, "hung up");
  if (got.error != 0) return errno_status(got.error, "the answer of a message's lender");
  TENON_TRY(check_answer(answer, got.nbytes, got.data_cut, ticket));
  if (received.cut()) return os::with_fd_limit(errno_status(EMFILE, "taking the fds of a message"));
  Answer result{answer.borrower, {}};
  received.move_to(result.fds);
  TENON_TRY(check_answer_fds(answer, request, things.size(), result.fds.size(), ticket));
  return result;
}

// Asks the lender, and asks again if it hangs up: a lender that ends hangs up on its clients, and
// then its keeper listens at the same socket.
Result<Answer> ask(const Ticket& ticket, DepotRequest request, std::span<const Thing> things,
                   os::Waiter* waiter) {
  constexpr int kMostTries = 16;
  constexpr int64_t kPauseNs = 1'000'000;
  for (int tries = 1;; ++tries) {
    bool hung_up = false;
    Result<Answer> answer = ask_once(ticket, request, things, waiter, &hung_up);
    if (!hung_up || tries == kMostTries) return answer;
    TENON_TRY(waiter->pause(kPauseNs, "the lender of a message, which hung up,"));
  }
}

// Maps a claims page that nobody can cut short. A store into a page that was cut short would raise
// SIGBUS.
Status map_claims(Fd* fd, Link* link) {
  TENON_ASSIGN(const os::FileInfo file, os::inspect_file(fd->get()));
  constexpr unsigned kNeeded = os::kSealShrink | os::kSealGrow;
  if (!file.in_memory || !file.writable || (file.seals & kNeeded) != kNeeded ||
      (file.seals & (os::kSealWrite | os::kSealFutureWrite)) != 0)
    return corrupt_ticket("a claims page that is not sealed, or cannot be written");
  if (os::is_of_huge_pages(fd->get())) return corrupt_ticket("a claims page of huge pages");
  std::array<std::byte, sizeof(claims::Header)> bytes;
  if (file.nbytes < sizeof bytes) return corrupt_ticket("a claims page that is too short");
  TENON_TRY(os::read_file(fd->get(), 0, bytes.data(), bytes.size()));
  TENON_ASSIGN(const claims::Counts counts,
               claims::check_header(bytes, file.nbytes, link->holding->slots()));
  TENON_ASSIGN(os::Mapping page,
               os::Mapping::create(os::Mapping::Kind::kSharedWritable, fd->get(), 0, file.nbytes));
  link->page = std::make_shared<os::Mapping>(std::move(page));
  link->messages = counts.messages;
  link->n_things = counts.things;
  fd->reset();
  return Status::ok();
}

// ---- functions whose caller holds the link's lock

// Null: this process lacks the thing.
KnownThing* find_thing(Link* link, const Thing& thing) {
  if (link->last == nullptr || link->last_number != thing.number) {
    const auto found = link->things.find(thing.number);
    if (found == link->things.end()) return nullptr;
    link->last = &found->second;
    link->last_number = thing.number;
  }
  return link->last->serial == thing.serial ? link->last : nullptr;
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

// Forgets the things that the lender has let go of.
void forget_ended(Link* link) {
  std::byte* const base = link->page->base();
  const uint64_t ended = claims::header(base).ended.load(std::memory_order_acquire);
  if (ended == link->ended) return;
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

// Whether this process has met the lender. A fork has shared the old token, which says nothing of
// this process alone. So later leases are held under a new token.
bool has_met(const Link& link) noexcept { return link.number != 0 && !forked_since(link.mark); }

// Makes sure that this process has met the lender and has the things that the message needs.
Status meet(Link* link, const Ticket& ticket, std::span<const Thing> things, os::Waiter* waiter) {
  if (!has_met(*link)) {
    const std::span<const Thing> first = things.first(std::min<size_t>(things.size(), kMostThings));
    const uint32_t mark = fork_mark();
    TENON_ASSIGN(Answer answer, ask(ticket, DepotRequest::kHello, first, waiter));
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
    TENON_ASSIGN(Answer answer, ask(ticket, DepotRequest::kThings, some, waiter));
    for (Fd& fd : answer.fds) fd.mark_foreign();
    TENON_TRY(take_things(link, some, answer.fds));
    left = left.subspan(some.size());
  }
  return Status::ok();
}

// The result stays as long as the caller holds the link's lock. meet() has found the thing.
Result<const Ref<Segment>*> map_segment(Link* link, const Thing& thing, memory::Access access,
                                        uint64_t nbytes, uint64_t needed,
                                        const share::OpenOptions& options) {
  KnownThing* const found = find_thing(link, thing);
  if (found == nullptr) return corrupt_ticket("a ticket that names a number twice");
  KnownThing& known = *found;
  if (!known.segment) {
    if (!known.fd.is_open()) return corrupt_ticket("a number that is of a token and of a segment");
    TENON_ASSIGN(known.segment,
                 share::open_segment(known.fd.get(), access, nbytes, needed, options, &known.fd));
    known.nbytes = nbytes;
    known.access = access;
  } else if (known.nbytes != nbytes || known.access != access || needed > known.nbytes) {
    return corrupt_ticket("a segment of another size or access than it had before");
  }
  return &known.segment;
}

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

Status already_fetched(const Ticket& ticket) {
  return Status(Code::kNotFound,
                format("the message of process %d was fetched before, or withdrawn: a message can "
                       "be fetched once; deposit one for each "
                       "receiver",
                       ticket.pid))
      .with("pid", ticket.pid);
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

Result<std::unique_ptr<Message>> fetch(std::span<const std::byte> ticket_bytes,
                                       const FetchOptions& options, const os::Wait& wait) {
  if (options.open.is_private())
    return Status(Code::kUnsupported,
                  "a deposited message is fetched as it is: clone what should be private");
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

// ---- messages of one storage

Result<std::unique_ptr<KnownLender>> KnownLender::create(Ticket address) {
  std::unique_ptr<KnownLender> lender(new KnownLender());
  if (!own_depot(address.depot)) {
    TENON_ASSIGN(lender->link_, find_link(address.depot));
  }
  lender->address_ = std::move(address);
  return lender;
}

namespace {

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

// ---- messages in pieces

Result<std::unique_ptr<Fetched>> Fetched::create(std::span<const std::byte> head,
                                                 const FetchOptions& options,
                                                 const os::Wait& wait) {
  if (options.open.is_private())
    return Status(Code::kUnsupported,
                  "a deposited message is fetched as it is: clone what should be private");
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
// chain is whole until the message is over, and the message is not over as long as the envelope's
// lease stands.
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

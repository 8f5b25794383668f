#include "memory/ledger.h"

#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "base/fork.h"
#include "base/immortal.h"
#include "memory/depot.h"
#include "memory/lease_page.h"
#include "memory/ledgers.h"
#include "os/clock.h"
#include "os/limits.h"
#include "os/memfd.h"
#include "os/service.h"
#include "os/token.h"

namespace tenon::memory {
namespace {

std::atomic<uint64_t> g_next_ledger_id{1};

// Held from before a token's pipe is made until its ledger is registered, and where the fds are
// closed: fork copies the fds first and the memory later, and of what another thread closed in
// between nobody in the child would know.
struct Travelling {
  std::mutex mutex;
  TokenFds* first = nullptr;
};

Travelling& travelling() noexcept { return immortal<Travelling>(); }

// A copy in the child would hide the hang-up, also one of a message that is not through yet. One
// whose last reference is gone was just waiting for the lock, in a thread that the child does not
// have.
void close_in_child() noexcept {
  for (TokenFds* each = travelling().first; each != nullptr; each = each->next) {
    if (each->is_childs_too && !each->weak_from_this().expired()) continue;
    each->token.reset();
    each->page.reset();
    each->bell.reset();
  }
}

const bool g_ledger_fork_hooks = [] {
  (void)travelling();
  // Ledgers register with it. The other lock of this rank (user_arena.cc) is never held together
  // with it.
  register_fork_hooks(8, {[]() noexcept { travelling().mutex.lock(); },
                          []() noexcept { travelling().mutex.unlock(); },
                          []() noexcept {
                            close_in_child();
                            travelling().mutex.unlock();
                          }});
  return true;
}();

// A few at a time, so that objects are let go of outside the lock without memory for a list.
constexpr size_t kBatchOfLeases = 256;
// Objects that are asked of memory before their turn comes.
constexpr uint32_t kSlotsAhead = 8;

uintptr_t tag_free(uint32_t next) noexcept { return (uintptr_t{next} << 1) | 1; }

Result<os::Fd> create_page(os::Mapping* mapping) {
  constexpr size_t kNbytes = lease_page::page_nbytes(lease_page::kSlots);
  TENON_TRY(os::check_file_size(kNbytes));
  TENON_ASSIGN(const os::Nonce nonce, os::random_nonce());
  TENON_ASSIGN(os::Fd fd, os::create_memfd(nonce, kNbytes));
  TENON_ASSIGN(*mapping,
               os::Mapping::create(os::Mapping::Kind::kSharedWritable, fd.get(), 0, kNbytes));
  TENON_TRY(os::add_seals(fd.get(), os::kSealShrink | os::kSealGrow | os::kSealSeal));
  // The first page has the header; it is made here, by a write that can fail, and not by a store
  // that cannot. The pages of bits are made by whoever touches them first, and are few.
  std::array<std::byte, sizeof(lease_page::Header)> bytes{};
  std::memcpy(bytes.data() + offsetof(lease_page::Header, magic), lease_page::kMagic.data(),
              lease_page::kMagic.size());
  std::memcpy(bytes.data() + offsetof(lease_page::Header, version), &lease_page::kVersion,
              sizeof lease_page::kVersion);
  std::memcpy(bytes.data() + offsetof(lease_page::Header, slots), &lease_page::kSlots,
              sizeof lease_page::kSlots);
  TENON_TRY(os::write_file(fd.get(), 0, bytes.data(), bytes.size()));
  return fd;
}

}  // namespace

TokenFds::TokenFds() noexcept : next(travelling().first) {
  if (next != nullptr) next->previous = this;
  travelling().first = this;
}

TokenFds::~TokenFds() {
  const std::lock_guard<std::mutex> lock(travelling().mutex);
  (previous != nullptr ? previous->next : travelling().first) = next;
  if (next != nullptr) next->previous = previous;
  token.reset();
  page.reset();
  bell.reset();
}

Result<Ref<Ledger>> Ledger::create(const Borrower& borrower, bool by_slot) {
  return create(Ref<Ledger>::adopt(new Ledger()), borrower, by_slot);
}

Result<Ref<Ledger>> Ledger::create_for_depot(const Borrower& borrower, Ref<Depot> depot,
                                             uint32_t number) {
  auto ledger = Ref<Ledger>::adopt(new Ledger());
  ledger->depot_ = std::move(depot);
  ledger->number_ = number;
  return create(std::move(ledger), borrower, true);
}

Result<Ref<Ledger>> Ledger::create(Ref<Ledger> ledger, const Borrower& borrower, bool by_slot) {
  Ledger& it = *ledger;
  it.id_ = g_next_ledger_id.fetch_add(1, std::memory_order_relaxed);
  it.totals_.borrower = borrower;
  it.totals_.began_ns = os::monotonic_ns();
  // After the ledger, so that one that fails ends without it.
  const std::lock_guard<std::mutex> lock(travelling().mutex);
  it.fds_ = std::make_shared<TokenFds>();
  TENON_ASSIGN(os::TokenPair pair, os::create_token());
  TENON_ASSIGN(it.token_id_, os::token_id(pair.token.get()));
  it.watch_ = std::move(pair.watch);
  it.fds_->token = std::move(pair.token);
  if (by_slot) {
    TENON_ASSIGN(it.fds_->page, create_page(&it.page_));
    TENON_ASSIGN(os::BellPair bell, os::create_bell());
    it.listener_ = std::move(bell.listener);
    it.fds_->bell = std::move(bell.bell);
  }
  // A descriptor's borrower is whoever opens it.
  it.figures_ = by_slot
                    ? it.on_board_.join_ledger(board::Carrier::kConnection,
                                               static_cast<uint32_t>(borrower.pid), borrower.uid)
                    : it.on_board_.join_ledger(board::Carrier::kDescriptor, 0, 0);
  TENON_TRY(register_ledger(ledger));
  it.fds_->is_childs_too = !by_slot;
  return ledger;
}

Status Ledger::grant(std::span<Leased* const> objects, uint32_t* slots) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (has_ended()) return Status(Code::kPeerGone, "the borrower has let go of all leases");
  const size_t most = end_ + objects.size();
  if (most > lease_page::kSlots && totals_.leases + objects.size() > lease_page::kSlots) {
    return Status(
               Code::kResourceExhausted,
               format(
                   "the borrower has %llu leases, and cannot have %zu more until it releases some",
                   static_cast<unsigned long long>(totals_.leases), objects.size()))
        .with("limit", std::string("leases"))
        .with("limit_value", uint64_t{lease_page::kSlots});
  }
  // All memory first.
  const size_t chunks = (std::min<size_t>(most, lease_page::kSlots) + kChunk - 1) / kChunk;
  while (chunks_.size() < chunks) chunks_.push_back(std::make_unique<Chunk>());
  const uint64_t nbytes = begin_leases(objects);
  uint32_t first_free = first_free_;  // not read again and again from where `slots` might lie
  for (size_t i = 0; i < objects.size(); ++i) {
    const bool is_new = first_free == UINT32_MAX;
    const uint32_t slot = is_new ? end_++ : first_free;
    uintptr_t& place = at(slot);
    if (!is_new) first_free = static_cast<uint32_t>(place >> 1);
    place = reinterpret_cast<uintptr_t>(objects[i]);
    slots[i] = slot;
  }
  first_free_ = first_free;
  totals_.nbytes += nbytes;
  totals_.granted_nbytes += nbytes;
  totals_.leases += objects.size();
  totals_.granted += objects.size();
  publish();
  count_leases(static_cast<int64_t>(objects.size()));
  return Status::ok();
}

std::mutex& Ledger::slots_mutex() const noexcept { return depot_ ? depot_->mutex() : mutex_; }

// With the lock, as the next two.
bool Ledger::has_none() const noexcept { return !depot_ && totals_.leases == 0; }

uint32_t Ledger::slots_end() const noexcept { return depot_ ? depot_->end() : end_; }

// Of a ledger that has ended, as many as there is room for. 0: nothing is left.
size_t Ledger::take_some(std::span<Leased*> out) noexcept {
  if (depot_) return depot_->take_claimed(number_, &ending_, out);
  size_t count = 0;
  while (ending_ < end_ && count < out.size()) {
    if (ending_ + kSlotsAhead < end_)
      __builtin_prefetch(reinterpret_cast<const void*>(at(ending_ + kSlotsAhead)), 1);
    Leased* const object = take_slot(ending_++);
    if (object != nullptr) out[count++] = object;
  }
  publish();
  return count;
}

// With the lock, and publish() before it is free. Null if the slot has no lease: the page said so,
// and the page is the borrower's.
Leased* Ledger::take_slot(uint32_t slot) noexcept {
  if (depot_) return depot_->take(slot, number_);
  if (slot >= end_) return nullptr;
  uintptr_t& place = at(slot);
  if ((place & 1) != 0) return nullptr;
  auto* const object = reinterpret_cast<Leased*>(place);
  place = tag_free(first_free_);
  first_free_ = slot;
  --totals_.leases;
  totals_.nbytes -= object->leased_nbytes();
  return object;
}

// With the lock.
void Ledger::publish() noexcept {
  if (depot_ || figures_ == nullptr) return;
  board::put(figures_->leases, totals_.leases);
  board::put(figures_->nbytes, totals_.nbytes);
  board::put(figures_->granted, totals_.granted);
  board::put(figures_->granted_nbytes, totals_.granted_nbytes);
}

namespace {

// Without a lock: the last reference to a storage may end another ledger's lease, in another
// process.
void let_go(std::span<Leased* const> objects) noexcept {
  end_leases(objects);
  count_leases(-static_cast<int64_t>(objects.size()));
}

// How deep this thread is in let_go().
thread_local int t_endings = 0;

}  // namespace

// As long as it lives this thread ends leases of the ledger. It begins with the ledger's lock.
class Ledger::Ending {
 public:
  explicit Ending(Ledger* ledger) noexcept : ledger_(ledger) {
    ++t_endings;
    ledger_->threads_ending_.fetch_add(1, std::memory_order_relaxed);
  }
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;
  ~Ending() {
    ledger_->threads_ending_.fetch_sub(1, std::memory_order_release);
    --t_endings;
  }

 private:
  Ledger* ledger_;
};

bool Ledger::is_ending_elsewhere() const noexcept {
  return t_endings == 0 && generation_ == fork_generation() &&
         threads_ending_.load(std::memory_order_acquire) > 0;
}

void Ledger::take_back(std::span<const uint32_t> slots) noexcept {
  std::array<Leased*, kBatchOfLeases> batch;
  for (; !slots.empty(); slots = slots.subspan(std::min(slots.size(), kBatchOfLeases))) {
    size_t held = 0;
    std::optional<Ending> ending;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ending.emplace(this);
      for (const uint32_t slot : slots.first(std::min(slots.size(), kBatchOfLeases))) {
        Leased* const object = take_slot(slot);
        if (object == nullptr) continue;
        --totals_.granted;
        totals_.granted_nbytes -= object->leased_nbytes();
        batch[held++] = object;
      }
      publish();
    }
    let_go({batch.data(), held});
  }
}

bool Ledger::wants_renewal() const noexcept {
  return page_.base() != nullptr &&
         lease_page::header(page_.base()).renew.load(std::memory_order_relaxed) != 0;
}

void Ledger::set_renewer(Renewer renewer, void* context) noexcept {
  const std::lock_guard<std::recursive_mutex> lock(renewer_mutex_);
  renewer_ = renewer;
  renewer_context_ = context;
}

bool Ledger::renew() noexcept {
  const std::lock_guard<std::recursive_mutex> lock(renewer_mutex_);
  const uint64_t now = tokens_forgotten();
  if (renewer_ != nullptr && !renewer_(renewer_context_)) return false;
  heard_.store(now, std::memory_order_relaxed);
  return true;
}

// Only a ledger that always rings has handed on a token.
bool Ledger::has_news() const noexcept {
  return wants_renewal() ||
         (always_ring_.load() && heard_.load(std::memory_order_relaxed) != tokens_forgotten());
}

size_t Ledger::drain() noexcept {
  std::byte* const base = page_.base();
  if (base == nullptr) return 0;
  size_t count = 0;
  std::array<Leased*, kBatchOfLeases> batch;
  size_t held = 0;
  const auto flush = [&] {
    let_go({batch.data(), held});
    held = 0;
  };
  std::unique_lock<std::mutex> lock(slots_mutex());
  if (has_none()) return 0;
  const Ending ending(this);
  lease_page::drain(base, lease_page::kSlots, slots_end(), [&](uint32_t slot) noexcept {
    if (!depot_ && slot + kSlotsAhead < end_)
      __builtin_prefetch(reinterpret_cast<const void*>(at(slot + kSlotsAhead)), 1);
    Leased* const object = take_slot(slot);
    if (object == nullptr) return;
    ++count;
    batch[held++] = object;
    if (held < kBatchOfLeases) return;
    publish();
    lock.unlock();
    flush();
    lock.lock();
  });
  publish();
  lock.unlock();
  flush();
  return count;
}

// With the lock: whoever found that it need not always ring must not undo what always_ring() does
// meanwhile.
void Ledger::set_waiting(bool waiting) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (page_.base() != nullptr && (waiting || !always_ring_.load()))
    lease_page::set_waiting(page_.base(), waiting);
}

void Ledger::always_ring() noexcept {
  if (always_ring_.load()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (page_.base() != nullptr) lease_page::set_waiting(page_.base(), true);
  always_ring_.store(true);
}

void Ledger::hear_bell() noexcept {
  // With the lock: whoever ends the ledger closes the fd.
  const std::lock_guard<std::mutex> lock(mutex_);
  const os::Ringer who = os::hear(listener_.get(), 4096);
  if (who.pid == 0) return;
  totals_.borrower = {who.pid, who.uid};
  if (figures_ == nullptr) return;
  board::put(figures_->borrower_pid, static_cast<uint32_t>(who.pid));
  board::put(figures_->borrower_uid, who.uid);
}

void Ledger::end() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  ended_.store(true, std::memory_order_release);
  // The fds are with whoever sent them: as long as they are here the token is open.
  watch_.reset();
  listener_.reset();
}

bool Ledger::end_some(size_t most) noexcept {
  std::array<Leased*, kBatchOfLeases> batch;
  while (most > 0) {
    size_t held = 0;
    std::optional<Ending> ending;
    {
      const std::lock_guard<std::mutex> lock(slots_mutex());
      ending.emplace(this);
      held = take_some(batch);
    }
    if (held == 0) {
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        chunks_.clear();
        end_ = 0;
        first_free_ = UINT32_MAX;
        figures_ = nullptr;
      }
      on_board_.hide();
      return false;
    }
    let_go({batch.data(), held});
    most -= std::min(most, held);
  }
  return true;
}

Ledger::Totals Ledger::totals() const noexcept {
  Totals totals;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    totals = totals_;
  }
  if (depot_) {
    const Depot::Totals claimed = depot_->totals_of(number_);
    totals.leases = claimed.leases;
    totals.nbytes = claimed.nbytes;
  }
  return totals;
}

// In the child of a fork, which has one thread: the lender's ends are the parent's, and so are the
// leases.
void Ledger::forget_in_child() noexcept {
  ended_.store(true, std::memory_order_relaxed);
  watch_.reset();
  listener_.reset();
  figures_ = nullptr;
}

}  // namespace tenon::memory

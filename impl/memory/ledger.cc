#include "memory/ledger.h"

#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "base/fork.h"
#include "base/process_state.h"
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

// The list of all TokenFds, and its lock. The lock is held from before a token's pipe is made until
// its ledger is registered, and while TokenFds close their fds. fork copies the fd table first and
// the memory later. Without the lock, another thread could close an fd in between, and nobody in
// the child would know of the child's copy.
struct TokenFdList : ProcessState<LockRank::kTokenFds> {
  TokenFds* first = nullptr;

  // A copy of a token in the child would hide the hang-up, even if the message that carries it is
  // still being sent. TokenFds whose last reference is gone were just waiting for the lock in their
  // destructor, in a thread that the child does not have. So their fds are closed even if
  // `is_childs_too`.
  void in_child() noexcept {
    for (TokenFds* each = first; each != nullptr; each = each->next) {
      if (each->is_childs_too && !each->weak_from_this().expired()) continue;
      each->token.reset();
      each->page.reset();
      each->bell.reset();
    }
  }
};

TokenFdList& token_fd_list() noexcept { return process_state<TokenFdList>(); }

// Objects are released outside the lock, in batches of this size, so that no memory is needed for a
// list.
constexpr size_t kBatchOfLeases = 256;
// How many slots ahead of their turn objects are prefetched.
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
  // The first page has the header. It is made here by a write, which can fail, and not by a store,
  // which cannot. The pages of bits are made when either side first touches them, and are few.
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

TokenFds::TokenFds() noexcept : next(token_fd_list().first) {
  if (next != nullptr) next->previous = this;
  token_fd_list().first = this;
}

TokenFds::~TokenFds() {
  const std::lock_guard<std::mutex> lock(token_fd_list().mutex);
  (previous != nullptr ? previous->next : token_fd_list().first) = next;
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
  // Locked after the ledger was made, so that the lock is free again when a ledger that failed
  // ends.
  const std::lock_guard<std::mutex> lock(token_fd_list().mutex);
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
  // The borrower of a descriptor is not known, because any process may open it.
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
  // All memory is allocated first, because nothing after it may fail.
  const size_t chunks = (std::min<size_t>(most, lease_page::kSlots) + kChunk - 1) / kChunk;
  while (chunks_.size() < chunks) chunks_.push_back(std::make_unique<Chunk>());
  const uint64_t nbytes = begin_leases(objects);
  // A local copy, which stores to `slots` cannot change, so the compiler need not read it again.
  uint32_t first_free = first_free_;
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

// The caller holds slots_mutex(), as for the next two functions.
bool Ledger::has_none() const noexcept { return !depot_ && totals_.leases == 0; }

uint32_t Ledger::slots_end() const noexcept { return depot_ ? depot_->end() : end_; }

// Takes leases out of a ledger that has ended, as many as `out` has room for. 0: none is left.
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

// The caller holds slots_mutex(), and calls publish() before it frees the lock. Null if the slot
// has no lease. The page can name such a slot, because the borrower writes the page.
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

// The caller holds slots_mutex().
void Ledger::publish() noexcept {
  if (depot_ || figures_ == nullptr) return;
  board::put(figures_->leases, totals_.leases);
  board::put(figures_->nbytes, totals_.nbytes);
  board::put(figures_->granted, totals_.granted);
  board::put(figures_->granted_nbytes, totals_.granted_nbytes);
}

namespace {

// The caller holds no lock, because the last reference to a storage may end a lease in the ledger
// of another process.
void let_go(std::span<Leased* const> objects) noexcept {
  end_leases(objects);
  count_leases(-static_cast<int64_t>(objects.size()));
}

// How many Endings this thread is in. An owner's function may make it more than one.
thread_local int t_endings = 0;

}  // namespace

// While an Ending lives, this thread ends leases of the ledger. The caller holds slots_mutex() when
// it makes the Ending.
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

// The lock keeps always_ring() away: without it this function could find that the ledger does not
// always ring, and then undo what always_ring() did meanwhile.
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
  // The lock is needed because end() closes the fd.
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
  // `fds_` is empty by now: the token hangs up only after take_fds() has taken it.
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

// The child of a fork has one thread, so there is no lock. The watch, the listener and the leases
// are the parent's.
void Ledger::forget_in_child() noexcept {
  ended_.store(true, std::memory_order_relaxed);
  watch_.reset();
  listener_.reset();
  figures_ = nullptr;
}

}  // namespace tenon::memory

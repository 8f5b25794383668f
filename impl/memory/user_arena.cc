// Implements Arena, an arena that a user makes: one segment of reserved address space.
#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/process_state.h"
#include "memory/arena_segment.h"
#include "memory/ledger.h"
#include "memory/spare.h"
#include "os/limits.h"
#include "os/service.h"

namespace tenon::memory {
namespace {

constexpr uint64_t kMostCapacity = uint64_t{1} << 40;

constexpr uint64_t kLeastPiece = uint64_t{512} << 10;

// The arenas whose pages are made in the background. A reference that is taken here may become the
// last one to an arena, and the end of its segment takes locks of lower rank. So no reference is
// dropped under this lock.
struct Prefault : ProcessState<LockRank::kPrefault> {
  std::vector<Weak<Arena>> arenas;

  void in_child_unlocked() noexcept { arenas.clear(); }  // they are the parent's
};

Prefault& prefaults() noexcept { return process_state<Prefault>(); }

// The caller has the arena, so the reference that is dropped here is not the last.
void stop_prefault(const Arena* arena) noexcept {
  Prefault& all = prefaults();
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::erase_if(all.arenas, [arena](const Weak<Arena>& each) { return each.is_of(arena); });
}

bool prefault_slice() noexcept {
  Prefault& all = prefaults();
  Weak<Arena> ended;  // one in a slice, because a list would need memory
  Ref<Arena> arena;
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (all.arenas.empty()) return false;
    arena = all.arenas.back().lock();
    if (!arena) {
      ended = std::move(all.arenas.back());
      all.arenas.pop_back();
      return !all.arenas.empty();
    }
  }
  if (arena->reserve_some(arena->options().prefault_nbytes)) return true;
  stop_prefault(arena.get());
  // Another arena may have come in the meantime.
  const std::lock_guard<std::mutex> lock(all.mutex);
  return !all.arenas.empty();
}

Status prefault(Arena* arena) {
  {
    const std::lock_guard<std::mutex> lock(prefaults().mutex);
    prefaults().arenas.emplace_back(arena);
  }
  // Without this, an arena that cannot be made would be kept here until another one comes.
  struct Undo {
    const Arena* arena;
    bool done = false;
    ~Undo() {
      if (!done) stop_prefault(arena);
    }
  } undo{arena};
  TENON_TRY(os::add_work(&prefault_slice));
  undo.done = true;
  return Status::ok();
}

}  // namespace

Result<Ref<Arena>> Arena::create(const ArenaOptions& options) {
  return with_spare([&] { return try_create(options); });
}

Result<Ref<Arena>> Arena::try_create(const ArenaOptions& options) {
  const uint64_t page = os::page_nbytes();
  uint64_t nbytes = 0;
  if (!checked_round_up(options.capacity_nbytes, page, &nbytes) ||
      nbytes > uint64_t{INT64_MAX} / page * page) {
    return Status(Code::kInvalidArgument, "no file can be as large as the arena's capacity")
        .with("field", std::string("capacity_nbytes"));
  }
  const bool any = nbytes == 0;
  if (any) nbytes = std::min(kMostCapacity, os::file_size_limit() / page * page);
  auto arena = Ref<Arena>::adopt(new Arena(options));
  bool scarce = false;
  while (true) {
    Result<Ref<Segment>> segment = Segment::create_backed(options.mode, nbytes, options.backing);
    if (segment.is_ok() && scarce && nbytes > kArenaSegmentNbytes) {
      // The arena takes half of what could be had, and leaves the rest to the process.
      scarce = false;
      nbytes = round_up(nbytes / 2, page);
      continue;
    }
    if (segment.is_ok()) {
      arena->options_.capacity_nbytes = segment.value()->nbytes();
      arena->home_ = new ArenaSegment(std::move(segment).value(), arena.get());
      if (options.prefault_nbytes > 0) TENON_TRY(prefault(arena.get()));
      return arena;
    }
    // A large capacity takes address space, and RLIMIT_AS may leave little of it.
    if (!any || nbytes <= kArenaSegmentNbytes ||
        segment.status().code() != Code::kResourceExhausted)
      return std::move(segment).status();
    scarce = true;
    nbytes = round_up(nbytes / 2, page);
  }
}

Arena::~Arena() { delete home_; }

// The blocks in use still need the arena when nobody else does. From now on they keep it together
// by one weak reference, because one for each block would cost each of them two changes of a count.
void Arena::dispose() noexcept {
  if (home_ == nullptr) return;
  const std::lock_guard<std::mutex> lock(arena_state().mutex);
  if (home_->used_blocks == 0) return;
  home_->keeps_arena = true;
  weak_retain();
}

const Ref<Segment>& Arena::segment() const noexcept { return home_->segment; }

Status Arena::check_owner() const {
  if (home_->segment->made_by_this_process()) return Status::ok();
  return Status(Code::kUnsupported,
                "the arena belongs to the process that made it, and this one is a child of fork: "
                "make an arena here");
}

Status Arena::allocate(uint64_t nbytes, uint64_t alignment, Block* out) {
  return with_spare([&] { return try_allocate(nbytes, alignment, out); });
}

Status Arena::try_allocate(uint64_t nbytes, uint64_t alignment, Block* out) {
  TENON_TRY(check_owner());
  alignment = std::max(alignment, options_.alignment);
  out->nbytes = nbytes;
  if (nbytes > std::min(options_.capacity_nbytes, kBlockLimit)) return too_large(nbytes);
  const uint64_t wanted = block_nbytes(nbytes, alignment);
  look_first(nbytes);
  ArenaState& all = arena_state();
  std::unique_lock<std::mutex> lock(all.mutex);
  bool found = false;
  TENON_TRY(take_block(home_, wanted, alignment, false, out, &found));
  if (found) return Status::ok();
  if (has_leases()) {
    lock.unlock();
    const bool ended = look_for_ended_leases();
    lock.lock();
    if (ended) TENON_TRY(take_block(home_, wanted, alignment, false, out, &found));
    if (found) return Status::ok();
  }
  Status no_pages = take_block(home_, wanted, alignment, true, out, &found);
  if (found) return Status::ok();
  // There is no room, or there are no pages for it. Before the call fails, leases that ended since
  // the last check are collected, and pieces that lie side by side are joined.
  lock.unlock();
  (void)settle_ledgers();
  lock.lock();
  // A waiting thread comes here after every few leases that end. It joins nothing as long as all
  // free room together would not be enough.
  if (home_->space.room() >= wanted) {
    // The search runs again whatever consolidate() returns. While the lock was free, another thread
    // may have drained the blocks that came back, and joined them.
    (void)home_->space.consolidate();
    const bool fresh = no_pages.is_ok() || front_has_pages(*home_, wanted, alignment);
    TENON_TRY(take_block(home_, wanted, alignment, fresh, out, &found));
    if (found) return Status::ok();
  }
  lock.unlock();
  if (!no_pages.is_ok()) return no_pages;
  return full(nbytes);
}

Status Arena::too_large(uint64_t nbytes) const {
  const bool by_arena = nbytes > options_.capacity_nbytes;
  const uint64_t most = by_arena ? options_.capacity_nbytes : kBlockLimit;
  return Status(
             Code::kResourceExhausted,
             format("a storage of %llu bytes is larger than %s, %llu bytes: %s", as_llu(nbytes),
                    by_arena ? "its arena" : "the largest block of an arena", as_llu(most),
                    by_arena
                        ? "give the arena a larger capacity, or make the storage without the arena"
                        : "make the storage without it"))
      .with("limit", std::string("arena"))
      .with("limit_value", most)
      .with("wanted", nbytes);
}

Status Arena::full(uint64_t nbytes) const {
  const ArenaStats now = stats();
  uint64_t largest = now.largest_free_nbytes;
  {
    const std::lock_guard<std::mutex> lock(arena_state().mutex);
    largest = std::max(largest, home_->space.nbytes() - home_->space.front());
  }
  const char* const remedy = now.retired_nbytes == 0
                                 ? "release storages, wait until borrowers release theirs, or give "
                                   "the arena a larger capacity"
                                 : "release storages, or make a new arena, and lend over a "
                                   "connection, because blocks that are lent by fd "
                                   "or by name never come back";
  const std::string holders = describe_holders();
  Status status(
      Code::kResourceExhausted,
      format("the arena of %llu bytes is full: %llu bytes are needed in one piece, and the longest "
             "free piece has %llu; %llu are in "
             "storages here, %llu are lent, %llu are retired; leases are held by %s: %s",
             as_llu(now.capacity_nbytes), as_llu(nbytes), as_llu(largest), as_llu(now.live_nbytes),
             as_llu(now.lent_nbytes), as_llu(now.retired_nbytes), holders.c_str(), remedy));
  return std::move(status)
      .with("limit", std::string("arena"))
      .with("limit_value", options_.capacity_nbytes)
      .with("wanted", nbytes)
      .with("live", now.live_nbytes)
      .with("lent", now.lent_nbytes)
      .with("retired", now.retired_nbytes)
      .with("free", now.free_nbytes)
      .with("holders", holders);
}

ArenaStats Arena::stats() const {
  (void)settle_ledgers();
  ArenaStats result;
  result.capacity_nbytes = options_.capacity_nbytes;
  const board::ArenaFigures& figures = home_->figures();
  result.lent_blocks = board::get(figures.blocks_lent);
  result.lent_nbytes = board::get(figures.lent_nbytes);
  const std::lock_guard<std::mutex> lock(arena_state().mutex);
  result.reserved_nbytes = home_->reserved;
  result.live_nbytes = board::get(figures.live_nbytes);
  result.live_blocks = board::get(figures.blocks_live);
  result.retired_nbytes = home_->retired_nbytes;
  result.peak_nbytes = board::get(figures.peak_nbytes);
  // Pages beyond the front belong to nobody. They are one piece with a free block that ends at the
  // front only after consolidate().
  const uint64_t ahead = home_->nbytes_ahead();
  result.free_nbytes = home_->space.free_nbytes() + ahead;
  result.largest_free_nbytes = std::max(home_->space.largest_free(), ahead);
  return result;
}

Backing Arena::describe_backing() const { return home_->segment->describe_backing(); }

uint64_t Arena::end_of(uint64_t nbytes) const noexcept {
  return std::min(
      round_up(std::min(nbytes, options_.capacity_nbytes), home_->segment->unit_nbytes()),
      options_.capacity_nbytes);
}

// The caller holds the arenas' lock, so this makes one piece only.
Status Arena::take_pages(uint64_t end) {
  const uint64_t piece = std::max(kLeastPiece, home_->segment->unit_nbytes());
  const uint64_t nbytes = std::min(end - home_->reserved, piece);
  TENON_TRY(home_->segment->reserve(home_->reserved, nbytes));
  count_reserved(home_, home_->reserved + nbytes);
  return Status::ok();
}

bool Arena::reserve_some(uint64_t nbytes) noexcept {
  try {
    const uint64_t end = end_of(nbytes);
    const std::lock_guard<std::mutex> lock(arena_state().mutex);
    return home_->reserved < end && take_pages(end).is_ok() && home_->reserved < end;
  } catch (...) {
    return false;  // No memory. Pages that are not made ahead are made when they are needed.
  }
}

Status Arena::reserve(uint64_t nbytes) {
  TENON_TRY(check_owner());
  return with_spare([&] { return reserve_up_to(end_of(nbytes)); });
}

Status Arena::reserve_up_to(uint64_t end) {
  // The lock is held for one piece at a time, so that allocations get their turn.
  while (true) {
    const std::lock_guard<std::mutex> lock(arena_state().mutex);
    if (home_->reserved >= end) return Status::ok();
    TENON_TRY(take_pages(end));
  }
}

}  // namespace tenon::memory

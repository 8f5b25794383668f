#include "memory/arena.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/checked.h"
#include "base/process_state.h"
#include "memory/arena_segment.h"
#include "memory/ledger.h"
#include "memory/spare.h"
#include "os/limits.h"

namespace tenon::memory {

ArenaState& arena_state() noexcept { return process_state<ArenaState>(); }

// The child must not hand out blocks of the parent's segments, nor may its releases touch the
// parent's lists. So it forgets both. Storages that it inherited hold their segments themselves.
void ArenaState::in_child_unlocked() noexcept {
  for (auto& home : homes) {
    // Inherited storages still point to these records. made_by_this_process() keeps their releases
    // from going further. The records are small, and are leaked.
    for (auto& segment : home) {
      segment->segment = nullptr;
      (void)segment.release();
    }
    home.clear();
  }
  lent.clear();
  live_nbytes = 0;
  inherited_blocks.fetch_add(live_blocks, std::memory_order_relaxed);
  live_blocks = 0;
  lent_nbytes = 0;
  retired_nbytes = 0;
  public_board.forget_in_child();
  board_users = 0;
  ledgers = 0;
  const board::ArenaFigures none{};
  for (uint32_t mode = 0; mode < kModes; ++mode) {
    figures[mode] = &own_figures[mode];
    board::copy(none, figures[mode]);
  }
}

namespace {

constexpr uint64_t kFirstReserve = uint64_t{256} << 10;
constexpr uint32_t kMostSkipped = 256;
constexpr uint64_t kLookFirstNbytes = uint64_t{1} << 20;

Status reserve_front(ArenaSegment* home, uint64_t end) {
  if (end <= home->reserved) return Status::ok();
  const uint64_t total = home->segment->nbytes();
  // Reserves ahead of need, as much again as there is already, so that small blocks do not cost a
  // system call each. If the machine is nearly full, reserves only what is needed.
  const uint64_t ahead = std::clamp(home->reserved, kFirstReserve, os::kReserveChunk);
  const uint64_t unit = home->segment->unit_nbytes();
  const uint64_t generous = std::min(
      total, round_up(std::max(end, home->reserved + ahead), std::max(kFirstReserve, unit)));
  const uint64_t exact = std::min(total, round_up(end, unit));
  Status status = home->segment->reserve(home->reserved, generous - home->reserved);
  uint64_t reached = generous;
  if (!status.is_ok() && exact < generous) {
    status = home->segment->reserve(home->reserved, exact - home->reserved);
    reached = exact;
  }
  if (status.is_ok()) count_reserved(home, reached);
  return status;
}

// Subtracts a segment of a default home from the figures, before the segment is dropped.
void count_dropped(const ArenaSegment& home) noexcept {
  board::ArenaFigures& figures = home.figures();
  board::sub(figures.capacity_nbytes, home.segment->nbytes());
  board::sub(figures.reserved_nbytes, home.reserved);
  board::sub(figures.blocks_retired, home.retired_blocks);
  board::sub(figures.retired_nbytes, home.retired_nbytes);
  arena_state().retired_nbytes -= home.retired_nbytes;
}

void count_block(ArenaSegment* home, Block* block) noexcept {
  block->home = home;
  block->segment = counts_segment(home) ? home->segment : Ref<Segment>::adopt(home->segment.get());
  const uint64_t nbytes = block->taken_nbytes;
  ++home->used_blocks;
  move_block(home->figures(), nbytes, BlockState::kFree, BlockState::kLive);
}

Status own_segment_block(Mode mode, uint64_t nbytes, bool reserve, Block* out) {
  uint64_t segment_nbytes = 0;
  if (!checked_round_up(nbytes, os::page_nbytes(), &segment_nbytes) ||
      segment_nbytes > uint64_t{INT64_MAX})
    segment_nbytes = uint64_t{INT64_MAX} / 4096 * 4096;
  // Asks for headroom for all of it before a file of that size exists. reserve() asks again, chunk
  // by chunk.
  TENON_TRY(os::ask_headroom(segment_nbytes));
  TENON_ASSIGN(out->segment, Segment::create(mode, segment_nbytes));
  if (reserve) TENON_TRY(out->segment->reserve(0, segment_nbytes));
  out->nbytes = nbytes;
  out->taken_nbytes = segment_nbytes;
  out->zero = true;
  ArenaState& all = arena_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  board::ArenaFigures& figures = *all.figures[static_cast<uint32_t>(mode)];
  board::add(figures.capacity_nbytes, segment_nbytes);
  board::add(figures.reserved_nbytes, segment_nbytes);
  move_block(figures, segment_nbytes, BlockState::kFree, BlockState::kLive);
  return Status::ok();
}

}  // namespace

bool counts_segment(const ArenaSegment* home) noexcept {
  return home == nullptr || home->arena == nullptr;
}

void move_block(board::ArenaFigures& figures, uint64_t nbytes, BlockState from,
                BlockState to) noexcept {
  board::move_block(&figures, nbytes, from, to);
  ArenaState& all = arena_state();
  if (to == BlockState::kLive) {
    all.live_nbytes += nbytes;
    ++all.live_blocks;
  }
  if (from == BlockState::kLive) {
    all.live_nbytes -= nbytes;
    --all.live_blocks;
  }
  if (to == BlockState::kLent) all.lent_nbytes += nbytes;
  if (from == BlockState::kLent) all.lent_nbytes -= nbytes;
}

void forget_inherited_block() noexcept {
  arena_state().inherited_blocks.fetch_sub(1, std::memory_order_relaxed);
}

ArenaSegment::ArenaSegment(Ref<Segment> made, Arena* owner) noexcept
    : segment(std::move(made)), space(segment->nbytes()), arena(owner) {
  if (owner == nullptr) {
    shared_figures = &arena_state().figures[static_cast<uint32_t>(segment->mode())];
    return;
  }
  const SegmentKey key = segment->key();
  own_figures = on_board.join_arena(segment->mode(), key.device, key.inode, segment->nbytes());
  if (own_figures == nullptr) own_figures = &unseen_figures;
  shared_figures = &own_figures;
}

Status take_block(ArenaSegment* home, uint64_t nbytes, uint64_t alignment, bool fresh, Block* out,
                  bool* found) {
  FreeSpace::Piece piece;
  *found = home->space.take_free(nbytes, alignment, &piece);
  if (*found) {
    out->zero = false;
  } else {
    uint64_t offset = 0;
    if (!fresh || !home->space.peek_front(nbytes, alignment, &offset)) return Status::ok();
    TENON_TRY(reserve_front(home, offset + nbytes));
    out->zero = offset >= home->space.touched();
    piece = home->space.take_front(offset, nbytes);
    *found = true;
  }
  out->offset = piece.offset;
  out->was_lent = piece.was_lent;
  out->taken_nbytes = piece.nbytes;
  count_block(home, out);
  return Status::ok();
}

bool front_has_pages(const ArenaSegment& home, uint64_t nbytes, uint64_t alignment) noexcept {
  uint64_t offset = 0;
  return home.space.peek_front(nbytes, alignment, &offset) && offset + nbytes <= home.reserved;
}

void put_block(ArenaSegment* home, uint64_t offset, uint64_t nbytes, BlockState from, Lent lent,
               Freed* freed) noexcept {
  ArenaState& all = arena_state();
  board::ArenaFigures& figures = home->figures();
  --home->used_blocks;
  move_block(figures, nbytes, from, BlockState::kFree);
  if (lent == Lent::kUnleased) {
    ++home->retired_blocks;
    home->retired_nbytes += nbytes;
    all.retired_nbytes += nbytes;
    board::add(figures.blocks_retired, 1);
    board::add(figures.retired_nbytes, nbytes);
  } else {
    try {
      home->space.give_back(offset, nbytes, lent != Lent::kNever);
    } catch (...) {
      // There is no memory to remember the block by. It stays unused until its segment is empty or
      // dropped.
    }
  }
  if (home->used_blocks > 0) return;
  if (home->arena != nullptr) {
    if (home->keeps_arena) freed->arena = Weak<Arena>::adopt(home->arena);
    return;
  }
  if (home->retired_blocks == 0) {
    home->space.reset();
    return;
  }
  // No block is LIVE or LENT, and some are retired, because borrowers may have them. The segment
  // serves as long as it has room. Then it is dropped, and borrowers keep its pages for as long as
  // they map them.
  uint64_t unused = 0;
  if (home->space.peek_front(kArenaBlockMax, kBlockAlignment, &unused)) return;
  HomeSegments* list = nullptr;
  if (all.find_home(home->segment.get(), &list) == nullptr) return;
  const auto at = std::find_if(list->begin(), list->end(),
                               [home](const auto& each) { return each.get() == home; });
  count_dropped(*home);
  freed->segment = std::move(*at);
  list->erase(at);
}

ArenaSegment* ArenaState::find_home(const Segment* segment, HomeSegments** list) noexcept {
  for (uint32_t number = 0; number < kHomesOfMode; ++number) {
    HomeSegments& some = homes[static_cast<uint32_t>(segment->mode()) * kHomesOfMode + number];
    const auto at = std::find_if(some.begin(), some.end(), [segment](const auto& each) {
      return each->segment.get() == segment;
    });
    if (at == some.end()) continue;
    *list = &some;
    return at->get();
  }
  return nullptr;
}

void count_reserved(ArenaSegment* home, uint64_t end) noexcept {
  board::add(home->figures().reserved_nbytes, end - home->reserved);
  home->reserved = end;
}

void look_first(uint64_t nbytes) noexcept {
  if (nbytes >= kLookFirstNbytes) (void)drain_ledgers();
}

bool look_for_ended_leases() noexcept {
  ArenaState& all = arena_state();
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (all.skipped_looks < all.skip_looks) {
      ++all.skipped_looks;
      return false;
    }
    all.skipped_looks = 0;
  }
  const bool found = drain_ledgers() > 0;
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.skip_looks = found ? 0 : std::min(all.skip_looks * 2 + 1, kMostSkipped);
  return found;
}

namespace {

Status try_block(Mode mode, uint64_t nbytes, uint64_t alignment, bool isolated, Block* out) {
  if (isolated || mode == Mode::kFrozen || nbytes > kArenaBlockMax)
    return own_segment_block(mode, nbytes, true, out);
  alignment = std::max(alignment, kBlockAlignment);
  const uint64_t wanted = block_nbytes(nbytes, alignment);
  out->nbytes = nbytes;
  look_first(nbytes);
  ArenaState& all = arena_state();
  std::unique_lock<std::mutex> lock(all.mutex);
  HomeSegments& list = all.home(mode, nbytes);
  bool found = false;
  Status no_pages;
  // The newest segment comes first, because it is the one with room. Segments are few (one per 64
  // MiB). If one gets no more pages, the others get none either, but they may have a free block.
  const auto look = [&](bool fresh) {
    for (auto at = list.rbegin(); at != list.rend() && !found; ++at) {
      Status taken =
          take_block(at->get(), wanted, alignment, fresh && no_pages.is_ok(), out, &found);
      if (!taken.is_ok()) no_pages = std::move(taken);
    }
  };
  // Freed blocks come first, because they are warm. Then come blocks whose leases have ended, and
  // then fresh room.
  look(false);
  if (!found && has_leases()) {
    lock.unlock();
    const bool ended = look_for_ended_leases();
    lock.lock();
    if (ended) look(false);
  }
  if (!found) look(true);
  if (found) return Status::ok();
  for (auto at = list.rbegin(); at != list.rend(); ++at) {
    if (!(*at)->space.consolidate()) continue;
    const bool fresh = no_pages.is_ok() || front_has_pages(**at, wanted, alignment);
    Status taken = take_block(at->get(), wanted, alignment, fresh, out, &found);
    if (found) return Status::ok();
    if (!taken.is_ok()) no_pages = std::move(taken);
  }
  if (!no_pages.is_ok()) return no_pages;
  // A small RLIMIT_FSIZE makes small segments. A block that would take more than an eighth of one
  // gets a segment of its own.
  const uint64_t segment_nbytes =
      std::min(kArenaSegmentNbytes, os::file_size_limit() / os::page_nbytes() * os::page_nbytes());
  if (nbytes > segment_nbytes / 8) {
    lock.unlock();
    return own_segment_block(mode, nbytes, true, out);
  }
  TENON_ASSIGN(Ref<Segment> segment, Segment::create(mode, segment_nbytes));
  auto home = std::make_unique<ArenaSegment>(std::move(segment), nullptr);
  list.reserve(list.size() + 1);
  TENON_TRY(take_block(home.get(), wanted, alignment, true, out, &found));
  board::add(home->figures().capacity_nbytes, home->segment->nbytes());
  list.push_back(std::move(home));
  return Status::ok();
}

}  // namespace

Status allocate_block(Mode mode, uint64_t nbytes, uint64_t alignment, bool isolated, Block* out) {
  return with_spare([&] {
    Status status = try_block(mode, nbytes, alignment, isolated, out);
    if (!status.is_ok()) *out = Block();  // drops a segment whose pages are not all there
    return status;
  });
}

Status allocate_unreserved_block(Mode mode, uint64_t nbytes, Block* out) {
  return own_segment_block(mode, nbytes, false, out);
}

void free_block(Block&& block, Lent lent) noexcept {
  Ref<Segment> held = std::move(block.segment);
  if (!held) return;
  const Segment* const segment = held.get();
  if (!counts_segment(block.home)) (void)held.detach();
  if (!segment->made_by_this_process()) {
    forget_inherited_block();
    return;
  }
  ArenaState& all = arena_state();
  Freed freed;
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (block.home == nullptr) {
      board::ArenaFigures& figures = *all.figures[static_cast<uint32_t>(segment->mode())];
      board::sub(figures.capacity_nbytes, block.taken_nbytes);
      board::sub(figures.reserved_nbytes, block.taken_nbytes);
      move_block(figures, block.taken_nbytes, BlockState::kLive, BlockState::kFree);
      return;
    }
    put_block(block.home, block.offset, block.taken_nbytes, BlockState::kLive, lent, &freed);
  }
  signal_space();
}

uint64_t trim_arena() noexcept {
  (void)settle_ledgers();
  ArenaState& all = arena_state();
  uint64_t given_back = 0;
  // Segments are dropped one by one, each of them when the lock is free.
  while (true) {
    std::unique_ptr<ArenaSegment> dropped;
    const std::lock_guard<std::mutex> lock(all.mutex);
    for (auto& list : all.homes) {
      const auto found = std::find_if(list.begin(), list.end(),
                                      [](const auto& each) { return each->used_blocks == 0; });
      if (found == list.end()) continue;
      given_back += (*found)->reserved;
      count_dropped(**found);
      dropped = std::move(*found);
      list.erase(found);
      break;
    }
    if (!dropped) return given_back;
  }
}

ArenaTotals arena_totals() noexcept {
  ArenaState& all = arena_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  ArenaTotals result;
  result.live_nbytes = all.live_nbytes;
  result.lent_nbytes = all.lent_nbytes;
  result.retired_nbytes = all.retired_nbytes;
  result.storages = all.live_blocks + all.inherited_blocks.load(std::memory_order_relaxed);
  for (const auto& list : all.homes) {
    for (const auto& home : list)
      result.kept_nbytes += home->space.free_nbytes() + home->nbytes_ahead();
  }
  return result;
}

}  // namespace tenon::memory

// The record of one segment of an arena, and the state that all arenas of this process share. Only
// the .cc files of memory/ and their unit tests use this header.
//
// "The arenas' lock", or "the lock" here, is ArenaState::mutex.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/counted.h"
#include "base/process_state.h"
#include "memory/arena.h"
#include "memory/board.h"
#include "memory/fixed_size_pool.h"
#include "memory/free_space.h"
#include "memory/lent_index.h"
#include "memory/segment.h"

namespace tenon::memory {

struct ArenaSegment {
  // The caller does not hold the lock if `owner` is not null, because such a segment joins the
  // board, which takes the lock.
  ArenaSegment(Ref<Segment> made, Arena* owner) noexcept;
  // The figures of the user's arena, or of the default homes of the segment's mode, whose segments
  // share one set.
  board::ArenaFigures& figures() const noexcept { return **shared_figures; }
  // The bytes of the pages that exist beyond the front and belong to nobody.
  uint64_t nbytes_ahead() const noexcept { return reserved - std::min(reserved, space.front()); }

  // Null in a forked child, if the segment belongs to a default home of its parent.
  // forget_in_child() (arena.cc) leaks such a record, because inherited storages still point to it.
  Ref<Segment> segment;
  FreeSpace space;
  Arena* arena;              // null: the segment belongs to a default home
  uint64_t reserved = 0;     // pages exist below this offset
  uint64_t used_blocks = 0;  // LIVE or LENT
  // The user has released the arena while blocks were in use. They own one weak reference to it
  // together, and the last block drops that.
  bool keeps_arena = false;
  uint64_t retired_blocks = 0;
  uint64_t retired_nbytes = 0;

  OnBoard on_board;
  // figures() reads two pointers. For a default home, `shared_figures` points into
  // ArenaState::figures, because a mode's figures move onto the board and off it. A user's arena
  // has `own_figures`: its row on the board, or &unseen_figures.
  board::ArenaFigures unseen_figures{};  // used if the segment has no row on the board
  board::ArenaFigures* own_figures = nullptr;
  board::ArenaFigures* const* shared_figures = nullptr;
};

// The segments of one default home. Each mode has two homes, so that small blocks, which their
// users may keep for long, do not keep the segments of large ones.
using HomeSegments = std::vector<std::unique_ptr<ArenaSegment>>;
inline constexpr uint32_t kHomesOfMode = 2;

// `mutex` guards every field here and in ArenaSegment that is not atomic.
struct ArenaState : ProcessState<LockRank::kArenas> {
  std::array<HomeSegments, kModes * kHomesOfMode> homes;
  // Returns the home for blocks of this size.
  HomeSegments& home(Mode mode, uint64_t nbytes) noexcept {
    return homes[static_cast<uint32_t>(mode) * kHomesOfMode + (nbytes <= kSmallBlockMax ? 1 : 0)];
  }
  // Null: the segment is not, or no longer, in a default home. `*list` is set to the home that has
  // it.
  ArenaSegment* find_home(const Segment* segment, HomeSegments** list) noexcept;
  LentIndex lent;
  FixedSizePool lent_blocks{sizeof(LentBlock)};
  // `live_nbytes`, `live_blocks` and `figures` also count blocks that have a segment of their own
  // and no ArenaSegment, such as isolated, FROZEN and large blocks (own_segment_block() in
  // arena.cc).
  uint64_t live_nbytes = 0;
  uint64_t live_blocks = 0;
  uint64_t lent_nbytes = 0;  // of blocks that are LENT
  uint64_t retired_nbytes = 0;
  std::atomic<uint64_t> inherited_blocks{0};  // the parent's, and still in storages here
  // look_for_ended_leases() skips `skip_looks` calls after one that found nothing, and more of them
  // each time it finds nothing (kMostSkipped at most). `skipped_looks` counts those skipped since
  // the last search.
  uint32_t skip_looks = 0;
  uint32_t skipped_looks = 0;

  Board public_board;
  uint64_t board_users = 0;  // user's arenas, ledgers, and memberships in queues
  uint64_t ledgers = 0;      // the ledgers among them
  // The figures of the default homes while there is no board.
  std::array<board::ArenaFigures, kModes> own_figures{};
  std::array<board::ArenaFigures*, kModes> figures{&own_figures[0], &own_figures[1],
                                                   &own_figures[2]};

  void in_child_unlocked() noexcept;
};
ArenaState& arena_state() noexcept;

// The objects that end with their last block. The caller drops them after it has released the lock,
// because the end of a segment takes locks of lower rank.
struct Freed {
  std::unique_ptr<ArenaSegment> segment;
  Weak<Arena> arena;
};

// Takes a free block of at least `nbytes` or, if there is none and `fresh` is set, fresh room at
// the front. `*found` is false without an error if there is neither. An error means that the pages
// for fresh room could not be made. The caller holds the lock.
Status take_block(ArenaSegment* home, uint64_t nbytes, uint64_t alignment, bool fresh, Block* out,
                  bool* found);
// Whether a block would fit at the front on pages that exist already. FreeSpace::consolidate()
// (free_space.h) moves the front back, which can leave such pages. The caller holds the lock.
bool front_has_pages(const ArenaSegment& home, uint64_t nbytes, uint64_t alignment) noexcept;
// Frees a block, or retires it if it was lent without a lease, because borrowers may have it. Moves
// the objects that end with it into `freed`. Without memory to note a free block, the block stays
// unused until its segment is empty. The caller holds the lock, as for move_block().
void put_block(ArenaSegment* home, uint64_t offset, uint64_t nbytes, BlockState from, Lent lent,
               Freed* freed) noexcept;
// Counts that a block of `nbytes` went from one state to another, in `figures` and in ArenaState.
void move_block(board::ArenaFigures& figures, uint64_t nbytes, BlockState from,
                BlockState to) noexcept;
// Counts the end of a storage whose block is the parent's. Needs no lock.
void forget_inherited_block() noexcept;
// Notes that pages exist up to `end`. The caller holds the lock.
void count_reserved(ArenaSegment* home, uint64_t end) noexcept;
// Call this before a block of `nbytes` is taken. The caller holds no ranked lock, because storages
// and segments may end with their leases. If the block has at least 1 MiB (kLookFirstNbytes), this
// frees the blocks whose leases have ended, so that the block which came back last is taken. Its
// bytes are the likeliest to be in the processor's caches. For a small block that is not worth the
// search.
void look_first(uint64_t nbytes) noexcept;
// Call this before fresh room is taken. The caller holds no ranked lock, because storages and
// segments may end with their leases. Ends the leases that borrowers have given back, unless the
// call is skipped (see `skip_looks`). True: some leases have ended, so the caller should look for a
// free block again.
bool look_for_ended_leases() noexcept;

}  // namespace tenon::memory

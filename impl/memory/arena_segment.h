// One segment of an arena, and what all arenas of this process have in common. For arena*.cc only.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/counted.h"
#include "memory/arena.h"
#include "memory/board.h"
#include "memory/lent_index.h"
#include "memory/segment.h"
#include "memory/slab.h"
#include "memory/space.h"

namespace tenon::memory {

struct ArenaSegment {
  // Without the lock if it has an owner, who joins the board.
  ArenaSegment(Ref<Segment> made, Arena* owner) noexcept;
  // Of the arena, or of the default home of its mode, whose segments share them.
  board::ArenaFigures& figures() const noexcept { return **shared_figures; }
  // Of the pages that exist: those behind the front, which are nobody's.
  uint64_t nbytes_ahead() const noexcept { return reserved - std::min(reserved, space.front()); }

  Ref<Segment> segment;
  Space space;
  Arena* arena;              // null: of a default home
  uint64_t reserved = 0;     // pages exist below here
  uint64_t used_blocks = 0;  // LIVE or LENT
  bool keeps_arena = false;  // its user let go of it while blocks were in use: the last one ends it
  uint64_t retired_blocks = 0;
  uint64_t retired_nbytes = 0;

  OnBoard on_board;
  board::ArenaFigures unseen_figures{};  // where it has none on the board
  board::ArenaFigures* own_figures = nullptr;
  board::ArenaFigures* const* shared_figures = nullptr;
};

// The segments of one default home. Each mode has two: small blocks, which their users may keep for
// long, do not keep the memory of large ones.
using HomeSegments = std::vector<std::unique_ptr<ArenaSegment>>;
inline constexpr uint32_t kHomesOfMode = 2;

struct ArenaState {
  std::mutex mutex;  // for every field of every ArenaSegment that is not atomic
  std::array<HomeSegments, kModes * kHomesOfMode> homes;
  // Where blocks of this size are born.
  HomeSegments& home(Mode mode, uint64_t nbytes) noexcept {
    return homes[static_cast<uint32_t>(mode) * kHomesOfMode + (nbytes <= kSmallBlockMax ? 1 : 0)];
  }
  // Null: it is no segment of a default home, or not any more. `list`: where it stands.
  ArenaSegment* find_home(const Segment* segment, HomeSegments** list) noexcept;
  LentIndex lent;
  Slab lent_blocks{sizeof(LentBlock)};
  uint64_t live_nbytes = 0;
  uint64_t live_blocks = 0;
  uint64_t lent_nbytes = 0;  // of blocks that are LENT
  uint64_t retired_nbytes = 0;
  std::atomic<uint64_t> inherited_blocks{0};  // of the parent's, still in storages here
  // Leases may have ended that nobody looked at yet. Looking is put off the longer, the less it
  // finds.
  uint32_t skip_looks = 0;
  uint32_t skipped_looks = 0;

  Board public_board;
  uint64_t board_users = 0;  // arenas and ledgers
  uint64_t ledgers = 0;      // of these
  // Of the default homes, while there is no board.
  std::array<board::ArenaFigures, kModes> own_figures{};
  std::array<board::ArenaFigures*, kModes> figures{&own_figures[0], &own_figures[1],
                                                   &own_figures[2]};
};
ArenaState& arena_state() noexcept;

// What goes with the last block of it, once the lock is free: the end of a segment takes locks that
// come before that one.
struct Freed {
  std::unique_ptr<ArenaSegment> segment;
  Weak<Arena> arena;
};

// With the lock. A free block of at least `nbytes`, or one of fresh room; false in `found` without
// an error: no room.
Status take_block(ArenaSegment* home, uint64_t nbytes, uint64_t alignment, bool fresh, Block* out,
                  bool* found);
// With the lock, after consolidate(): the front may lie before pages that exist.
bool front_has_pages(const ArenaSegment& home, uint64_t nbytes, uint64_t alignment) noexcept;
// With the lock.
void put_block(ArenaSegment* home, uint64_t offset, uint64_t nbytes, BlockState from, Lent lent,
               Freed* freed) noexcept;
void move_block(board::ArenaFigures& figures, uint64_t nbytes, BlockState from,
                BlockState to) noexcept;
// Without the lock: a storage goes whose block is the parent's.
void forget_inherited_block() noexcept;
void count_reserved(ArenaSegment* home, uint64_t end) noexcept;
// Without the lock, before a block of `nbytes` is taken. If the block is large, this frees the
// blocks whose leases have ended, so that the block which came back last is taken. Its bytes are
// the likeliest to be in the processor's caches. A small block is not worth the look.
void look_first(uint64_t nbytes) noexcept;
// Without the lock, before fresh room is taken: whether leases ended, so that it is worth to look
// again.
bool look_for_ended_leases() noexcept;

}  // namespace tenon::memory

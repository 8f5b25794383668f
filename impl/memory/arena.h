// The home of storages: large segments in which blocks are born, one list of segments per mode.
//
// A segment is 64 MiB of reserved size; pages are made as the front of it moves (reserve before use). A freed block goes to the free list
// of its size class and is used again. A block that was lent is retired instead: nobody tells the lender when the borrower is done. A
// segment with no living block goes back to the system once it holds retired blocks and no room, so a loop of lend and release has bounded
// memory.
#pragma once

#include <cstdint>

#include "base/counted.h"
#include "base/status.h"
#include "memory/mode.h"
#include "memory/segment.h"

namespace tenon::memory {

inline constexpr uint64_t kArenaSegmentNbytes = uint64_t{64} << 20;
inline constexpr uint64_t kArenaBlockMax = uint64_t{8} << 20;  // larger blocks get a segment of their own: they would not share one well
inline constexpr uint64_t kBlockAlignment = 64;

struct ArenaSegment;

// A range of a segment that belongs to one storage. Give it back with free_block.
struct Block {
  Ref<Segment> segment;
  ArenaSegment* home = nullptr;  // null: the segment is this block's alone
  uint64_t offset = 0;
  uint64_t nbytes = 0;        // of the storage
  uint64_t class_nbytes = 0;  // taken from the segment
  bool zero = false;          // no page was touched yet, so the bytes are 0
};

// nbytes > 0, alignment a power of two up to a page. A FROZEN block always has its own segment: freezing seals a segment whole.
Result<Block> allocate_block(Mode mode, uint64_t nbytes, uint64_t alignment, bool isolated);

// As allocate_block with a segment of its own, whose pages are not made yet: the caller fills it with write_through_fd(fresh).
Result<Block> allocate_unreserved_block(Mode mode, uint64_t nbytes);

void free_block(Block&& block, bool was_lent) noexcept;

// Give back every segment without a living block. Returns bytes.
uint64_t trim_arena() noexcept;

struct ArenaTotals {
  uint64_t live_nbytes = 0;
  uint64_t retired_nbytes = 0;
};
ArenaTotals arena_totals() noexcept;

}  // namespace tenon::memory

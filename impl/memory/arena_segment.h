// One segment of an arena, and what all arenas of this process have in common. For arena*.cc only.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/counted.h"
#include "memory/arena.h"
#include "memory/segment.h"
#include "memory/space.h"

namespace tenon::memory {

struct ArenaSegment {
  ArenaSegment(Ref<Segment> made, Arena* owner) : segment(std::move(made)), space(segment->nbytes()), arena(owner) {}

  Ref<Segment> segment;
  Space space;
  Arena* arena;           // null: of a default home
  uint64_t reserved = 0;  // pages exist below here
  uint64_t used_blocks = 0;
  uint64_t used_nbytes = 0;  // blocks that are LIVE or LENT
  uint64_t peak_nbytes = 0;
  uint64_t live_blocks = 0;  // LIVE: a storage has them
  uint64_t live_nbytes = 0;
  uint64_t retired_blocks = 0;
  uint64_t retired_nbytes = 0;
  std::atomic<uint64_t> lent_blocks{0};  // with a lease, LIVE or LENT
  std::atomic<uint64_t> lent_nbytes{0};
};

struct ArenaState {
  std::mutex mutex;  // for every field of every ArenaSegment that is not atomic
  std::array<std::vector<std::unique_ptr<ArenaSegment>>, kModes> homes;
  uint64_t live_nbytes = 0;
  uint64_t retired_nbytes = 0;
  // Leases may have ended that nobody looked at yet. Looking is put off the longer, the less it finds.
  uint32_t skip_looks = 0;
  uint32_t skipped_looks = 0;
};
ArenaState& arena_state() noexcept;

// With the lock. The block of a class that is free, or of fresh room; false in `found` without an error: no room.
Status take_block(ArenaSegment* home, uint64_t class_nbytes, uint64_t alignment, bool fresh, Block* out, bool* found);
// With the lock. Tells whether the segment was let go of through `dropped`.
void put_block(ArenaSegment* home, uint64_t offset, uint64_t class_nbytes, Lent lent, std::unique_ptr<ArenaSegment>* dropped) noexcept;
void count_storage_gone(ArenaSegment* home, uint64_t class_nbytes) noexcept;
// Without the lock, before fresh room is taken: whether leases ended, so that it is worth to look again.
bool look_for_ended_leases() noexcept;

}  // namespace tenon::memory

// A hash table of the blocks of this process that are lent, by segment and offset. lease_own()
// finds memory that came home here. The chains run through the blocks themselves, so a block joins
// and leaves without an allocation that could fail. There can be millions of blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory/segment.h"

namespace tenon::memory {

class LentBlock;

// The caller of each function holds the arenas' lock (arena_segment.h).
class LentIndex {
 public:
  // A block for which there is no memory at all does not join, and find() does not know it. If such
  // a block comes home, it is held under a lease, like the block of another process.
  void insert(LentBlock* block) noexcept;
  // Does nothing for a block that never joined.
  void erase(LentBlock* block) noexcept;
  LentBlock* find(const SegmentKey& key, uint64_t offset) const noexcept;
  // For a child of fork, because the blocks are the parent's.
  void clear() noexcept;

 private:
  // A full table has half as many buckets as blocks, so that each block costs 4 bytes more.
  static constexpr size_t kLoad = 2;
  static constexpr size_t kFewest = 64;
  static constexpr size_t kStretches = 16;
  // A table that was this large does not shrink below it, because a message of thousands of blocks
  // comes and goes again and again.
  static constexpr size_t kKept = 8192;
  size_t bucket_of(const SegmentKey& key, uint64_t offset) const noexcept;
  size_t bucket_of(const LentBlock& block) const noexcept;
  void append(LentBlock* block) noexcept;
  void resize(size_t buckets) noexcept;

  std::vector<LentBlock*> buckets_;  // a power of two of them, or none
  size_t count_ = 0;
};

}  // namespace tenon::memory

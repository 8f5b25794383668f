// Which blocks of this process are lent, by where they lie. Chains through the blocks themselves: a
// block joins and leaves without memory that could be lacking, and there can be millions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory/segment.h"

namespace tenon::memory {

class LentBlock;

// Under the arenas' lock.
class LentIndex {
 public:
  void insert(LentBlock* block) noexcept;
  // One that never joined is let be.
  void erase(LentBlock* block) noexcept;
  LentBlock* find(const SegmentKey& key, uint64_t offset) const noexcept;
  // In a child of fork, whose parent's blocks they are.
  void clear() noexcept;

 private:
  // Buckets are half as many as blocks, so that they add 4 bytes to what a block takes.
  static constexpr size_t kLoad = 2;
  static constexpr size_t kFewest = 64;
  static constexpr size_t kStretches = 16;
  // Once there were so many: a message of thousands comes and goes again and again.
  static constexpr size_t kKept = 8192;
  size_t bucket_of(const SegmentKey& key, uint64_t offset) const noexcept;
  size_t bucket_of(const LentBlock& block) const noexcept;
  void append(LentBlock* block) noexcept;
  void resize(size_t buckets) noexcept;

  std::vector<LentBlock*> buckets_;  // a power of two of them, or none
  size_t count_ = 0;
};

}  // namespace tenon::memory

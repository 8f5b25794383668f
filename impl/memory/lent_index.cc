#include "memory/lent_index.h"

#include <bit>
#include <new>
#include <utility>

#include "memory/arena_segment.h"

namespace tenon::memory {

// Blocks that are neighbours in a segment get neighbouring buckets. They do so in stretches, and a
// hash says where each stretch lies. Blocks mostly come and go together, one after the other, and a
// random bucket for each of them would cost two cache misses. The stretches are short enough that
// there are many, so chains stay short whatever the distance from block to block is.
size_t LentIndex::bucket_of(const SegmentKey& key, uint64_t offset) const noexcept {
  const uint64_t unit = offset / kBlockAlignment;
  // Both numbers are powers of two.
  const auto stretch_bits = static_cast<unsigned>(std::countr_zero(buckets_.size() / kStretches));
  uint64_t mixed =
      (key.inode ^ (key.device << 32)) * 0x9e3779b97f4a7c15ULL ^ (unit >> stretch_bits);
  mixed *= 0xd6e8feb86659fd93ULL;
  return static_cast<size_t>((mixed >> 32) + (unit & ((uint64_t{1} << stretch_bits) - 1))) &
         (buckets_.size() - 1);
}

size_t LentIndex::bucket_of(const LentBlock& block) const noexcept {
  return bucket_of(block.home_->segment->key(), block.offset_);
}

// A block joins at the end of its chain. Of many blocks that a borrower had, those that were lent
// first end first, and are found at once.
void LentIndex::append(LentBlock* block) noexcept {
  LentBlock** at = &buckets_[bucket_of(*block)];
  while (*at != nullptr) at = &(*at)->next_;
  *at = block;
  block->next_ = nullptr;
}

// If there is no memory, the table stays as it is and the chains become longer.
void LentIndex::resize(size_t buckets) noexcept {
  std::vector<LentBlock*> other;
  try {
    other.resize(buckets);
  } catch (const std::bad_alloc&) {
    return;
  }
  std::swap(buckets_, other);
  for (LentBlock* block : other) {
    while (block != nullptr) {
      LentBlock* const next = block->next_;
      append(block);
      block = next;
    }
  }
}

void LentIndex::insert(LentBlock* block) noexcept {
  if (count_ >= buckets_.size() * kLoad) resize(buckets_.empty() ? kFewest : buckets_.size() * 2);
  // There was no memory for any bucket. If such a block comes home, it is held under a lease, like
  // another process's block.
  if (buckets_.empty()) return;
  append(block);
  ++count_;
}

void LentIndex::erase(LentBlock* block) noexcept {
  if (buckets_.empty()) return;
  for (LentBlock** at = &buckets_[bucket_of(*block)]; *at != nullptr; at = &(*at)->next_) {
    if (*at != block) continue;
    *at = block->next_;
    --count_;
    if (buckets_.size() > kKept && count_ < buckets_.size() / 4) resize(buckets_.size() / 2);
    return;
  }
}

LentBlock* LentIndex::find(const SegmentKey& key, uint64_t offset) const noexcept {
  if (count_ == 0) return nullptr;
  for (LentBlock* block = buckets_[bucket_of(key, offset)]; block != nullptr;
       block = block->next_) {
    const SegmentKey own = block->home_->segment->key();
    if (block->offset_ == offset && own.inode == key.inode && own.device == key.device)
      return block;
  }
  return nullptr;
}

void LentIndex::clear() noexcept {
  buckets_.clear();
  count_ = 0;
}

}  // namespace tenon::memory

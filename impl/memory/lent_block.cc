#include "memory/lent_block.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <new>
#include <utility>

#include "memory/arena_segment.h"
#include "memory/arena_wait.h"
#include "memory/ledger.h"

namespace tenon::memory {

void LentCount::publish() noexcept {
  if (figures_ == nullptr) return;
  board::add(figures_->blocks_lent, static_cast<uint64_t>(std::exchange(blocks_, 0)));
  board::add(figures_->lent_nbytes, static_cast<uint64_t>(std::exchange(nbytes_, 0)));
}

LentBlock* lend_block(std::atomic<LentBlock*>* where, ArenaSegment* home, uint64_t offset,
                      BlockSize size) {
  ArenaState& all = arena_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (LentBlock* const block = where->load(std::memory_order_relaxed); block != nullptr)
    return block;  // another thread has added the block first
  void* const place = all.lent_blocks.take();
  if (place == nullptr) throw std::bad_alloc();
  auto* const block = ::new (place) LentBlock(home, offset, size);
  all.lent.insert(block);
  where->store(block, std::memory_order_release);
  return block;
}

void LentBlock::begin_lease(LentCount* count) noexcept {
  const Counts before = counts();
  set_counts({before.strong, before.weak + 1});
  if (before.weak == kNoLease)
    count->add(&home_->figures(), 1, static_cast<int64_t>(leased_nbytes()));
}

bool LentBlock::end_lease(LentCount* count) noexcept {
  const Counts before = counts();
  set_counts({before.strong, before.weak - 1});
  if (before.weak != kNoLease + 1) return false;
  // In a child of fork the block is the parent's, and the parent counts it.
  if (made_by_this_process())
    count->add(&home_->figures(), -1, -static_cast<int64_t>(leased_nbytes()));
  return before.strong == 0;
}

void LentBlock::leave(BlockState from, Freed* freed) noexcept {
  ArenaState& all = arena_state();
  if (made_by_this_process()) {
    all.lent.erase(this);
    put_block(home_, offset_, leased_nbytes(), from, retired_ ? Lent::kUnleased : Lent::kLeased,
              freed);
  }
  this->~LentBlock();
  all.lent_blocks.give_back(this);
}

void LentBlock::left_home() noexcept {
  Leased* const self = this;
  end_leases({&self, 1});
}

void LentBlock::storage_gone(bool retire) noexcept {
  const bool ours = made_by_this_process();
  Freed freed;
  bool is_free = false;
  {
    const std::lock_guard<std::mutex> lock(arena_state().mutex);
    if (retire) retired_ = true;
    const uint32_t leases = counts().weak;
    set_counts({0, leases});
    is_free = leases == kNoLease;
    if (is_free) {
      leave(BlockState::kLive, &freed);
    } else if (ours) {
      move_block(home_->figures(), leased_nbytes(), BlockState::kLive, BlockState::kLent);
    }
  }
  if (!ours) return forget_inherited_block();
  if (is_free) signal_space();
}

bool LentBlock::made_by_this_process() const noexcept {
  const Ref<Segment>& segment = home_->segment;
  return segment && segment->made_by_this_process();
}

LentBlock* lease_own(const SegmentKey& key, uint64_t offset) noexcept {
  ArenaState& all = arena_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  LentBlock* const block = all.lent.find(key, offset);
  LentCount count;
  if (block != nullptr) block->begin_lease(&count);
  return block;
}

namespace {

// How many leases begin or end under one hold of the lock. Other threads get the lock in between.
constexpr size_t kBatchOfBlocks = 128;
// How many places ahead of their turn objects are prefetched.
constexpr size_t kBlocksAhead = 16;

}  // namespace

uint64_t begin_leases(std::span<Leased* const> objects) noexcept {
  uint64_t nbytes = 0;
  for (size_t i = 0; i < objects.size();) {
    const std::lock_guard<std::mutex> lock(arena_state().mutex);
    LentCount lent;
    for (const size_t end = std::min(objects.size(), i + kBatchOfBlocks); i < end; ++i) {
      // Each object lies somewhere else in memory, and its count is changed below.
      if (i + kBlocksAhead < objects.size()) __builtin_prefetch(objects[i + kBlocksAhead], 1);
      if (LentBlock* const block = objects[i]->as_block(); block != nullptr) {
        block->begin_lease(&lent);
        nbytes += block->leased_nbytes();
      } else {
        objects[i]->lease_began();
        nbytes += objects[i]->leased_nbytes();
      }
    }
  }
  return nbytes;
}

void end_leases(std::span<Leased* const> objects) noexcept {
  bool any_freed = false;
  while (!objects.empty()) {
    std::array<Leased*, kBatchOfBlocks> others;
    size_t count = 0;
    Freed freed;  // a segment or an arena that lost its last block, which ends the batch
    size_t done = 0;
    {
      const std::lock_guard<std::mutex> lock(arena_state().mutex);
      LentCount lent;
      for (; done < std::min(objects.size(), kBatchOfBlocks) && !freed.segment && !freed.arena;
           ++done) {
        LentBlock* const block = objects[done]->as_block();
        if (block == nullptr) {
          others[count++] = objects[done];
          continue;
        }
        if (!block->end_lease(&lent)) continue;
        any_freed = true;
        block->leave(BlockState::kLent, &freed);
      }
    }
    objects = objects.subspan(done);
    // These objects are released without the lock. The last reference to a storage that came from
    // elsewhere ends a lease there, and may take any lock.
    for (size_t i = 0; i < count; ++i) others[i]->lease_ended();
  }
  // A signal is sent only if a block became free. Otherwise a waiter that looks for ended leases
  // would wake itself.
  if (any_freed) signal_space();
}

}  // namespace tenon::memory

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
  // Leases begin without the arenas' lock.
  figures_->blocks_lent.fetch_add(static_cast<uint64_t>(std::exchange(blocks_, 0)), std::memory_order_relaxed);
  figures_->lent_nbytes.fetch_add(static_cast<uint64_t>(std::exchange(nbytes_, 0)), std::memory_order_relaxed);
}

LentBlock* lend_block(std::atomic<LentBlock*>* where, ArenaSegment* home, uint64_t offset, uint32_t units) {
  ArenaState& all = arena_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (LentBlock* const block = where->load(std::memory_order_relaxed); block != nullptr) return block;  // another thread was quicker
  void* const place = all.lent_blocks.take();
  if (place == nullptr) throw std::bad_alloc();
  auto* const block = ::new (place) LentBlock(home, offset, units);
  all.lent.insert(block);
  where->store(block, std::memory_order_release);
  return block;
}

void LentBlock::operator delete(void* place) noexcept {
  ArenaState& all = arena_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.lent_blocks.give_back(place);
}

void LentBlock::lease_began(LentCount* count) noexcept {
  if (retain_both().weak == kNoLease) count->add(&home_->figures(), 1, static_cast<int64_t>(leased_nbytes()));
}

bool LentBlock::end_lease(LentCount* count) noexcept {
  const Counts before = release_both();
  if (before.weak == kNoLease + 1) count->add(&home_->figures(), -1, -static_cast<int64_t>(leased_nbytes()));
  return before.strong == 1;
}

void LentBlock::came_home() noexcept {
  const std::lock_guard<std::mutex> lock(arena_state().mutex);
  LentCount count;
  lease_began(&count);
}

void LentBlock::left_home() noexcept {
  if (made_by_this_process()) {
    Leased* const self = this;
    end_leases({&self, 1});
  } else if (release_both().strong == 1) {
    weak_release();
  }
}

void LentBlock::storage_gone(bool retire) noexcept {
  if (retire) retired_.store(true, std::memory_order_relaxed);
  if (!made_by_this_process()) return forget_inherited_block();
  const std::lock_guard<std::mutex> lock(arena_state().mutex);
  move_block(home_->figures(), leased_nbytes(), BlockState::kLive, BlockState::kLent);
}

bool LentBlock::made_by_this_process() const noexcept {
  const Ref<Segment>& segment = home_->segment;
  return segment && segment->made_by_this_process();
}

Ref<LentBlock> find_lent(const SegmentKey& key, uint64_t offset) noexcept {
  ArenaState& all = arena_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  return all.lent.find(key, offset);
}

void LentBlock::leave(Freed* freed) noexcept {
  arena_state().lent.erase(this);
  const bool retired = retired_.load(std::memory_order_relaxed);
  put_block(home_, offset_, leased_nbytes(), BlockState::kLent, retired ? Lent::kUnleased : Lent::kLeased, freed);
}

void LentBlock::dispose() noexcept {
  if (!made_by_this_process()) return;
  Freed freed;
  {
    const std::lock_guard<std::mutex> lock(arena_state().mutex);
    leave(&freed);
  }
  signal_space();
}

void end_leases(std::span<Leased* const> objects) noexcept {
  bool any_freed = false;
  constexpr size_t kBatch = 128;
  while (!objects.empty()) {
    std::array<Leased*, kBatch> others;
    size_t count = 0;
    Freed freed;  // a segment, an arena: with its last block, which ends the batch
    size_t done = 0;
    {
      ArenaState& all = arena_state();
      const std::lock_guard<std::mutex> lock(all.mutex);
      LentCount lent;
      for (; done < std::min(objects.size(), kBatch) && !freed.segment && !freed.arena; ++done) {
        LentBlock* const block = objects[done]->as_block();
        if (block == nullptr) {
          others[count++] = objects[done];
          continue;
        }
        if (!block->end_lease(&lent)) continue;
        any_freed = true;
        // The last reference: find_lent() takes the lock, and nobody has a weak one without a lease.
        if (block->made_by_this_process()) block->leave(&freed);
        block->~LentBlock();
        all.lent_blocks.give_back(block);
      }
    }
    objects = objects.subspan(done);
    // The last reference to a storage that came from elsewhere ends a lease there, and takes any lock.
    for (size_t i = 0; i < count; ++i) others[i]->lease_ended();
  }
  if (any_freed) signal_space();  // and else not: a waiter that looks for ended leases would wake itself
}

}  // namespace tenon::memory

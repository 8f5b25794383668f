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
namespace {

// What goes with the last block of it, once the arenas' lock is free.
struct Freed {
  std::unique_ptr<ArenaSegment> segment;
  Ref<Arena> arena;
};

// Not null: this thread has the arenas' lock, and what it frees is put there.
thread_local Freed* t_freed = nullptr;

}  // namespace

void* LentBlock::operator new(size_t /*nbytes*/) {
  ArenaState& all = arena_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (void* const place = all.lent_blocks.take(); place != nullptr) return place;
  throw std::bad_alloc();
}

void LentBlock::operator delete(void* place) noexcept {
  ArenaState& all = arena_state();
  std::unique_lock<std::mutex> lock(all.mutex, std::defer_lock);
  if (t_freed == nullptr) lock.lock();
  all.lent_blocks.give_back(place);
}

void LentBlock::lease_began() noexcept {
  if ((leases_.fetch_add(1, std::memory_order_relaxed) & ~kRetired) != 0) return;
  board::ArenaFigures& figures = home_->figures();
  figures.blocks_lent.fetch_add(1, std::memory_order_relaxed);
  figures.lent_nbytes.fetch_add(leased_nbytes(), std::memory_order_relaxed);
}

void LentBlock::lease_ended() noexcept {
  if ((leases_.fetch_sub(1, std::memory_order_relaxed) & ~kRetired) != 1) return;
  board::ArenaFigures& figures = home_->figures();
  figures.blocks_lent.fetch_sub(1, std::memory_order_relaxed);
  figures.lent_nbytes.fetch_sub(leased_nbytes(), std::memory_order_relaxed);
}

void LentBlock::came_home() noexcept {
  const std::lock_guard<std::mutex> lock(arena_state().mutex);
  lease_began();
}

void LentBlock::left_home() noexcept {
  if (!made_by_this_process()) return;
  const std::lock_guard<std::mutex> lock(arena_state().mutex);
  lease_ended();
}

void LentBlock::storage_gone(bool retire) noexcept {
  if (retire) leases_.fetch_or(kRetired, std::memory_order_relaxed);
  if (!made_by_this_process()) return;
  const std::lock_guard<std::mutex> lock(arena_state().mutex);
  move_block(home_->figures(), leased_nbytes(), BlockState::kLive, BlockState::kLent);
}

bool LentBlock::made_by_this_process() const noexcept {
  const Ref<Segment>& segment = home_->segment;
  return segment && segment->made_by_this_process();
}

void LentBlock::join_lent() noexcept {
  ArenaState& all = arena_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.lent.insert(this);
}

Ref<LentBlock> find_lent(const SegmentKey& key, uint64_t offset) noexcept {
  ArenaState& all = arena_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  return all.lent.find(key, offset);
}

void LentBlock::dispose() noexcept {
  if (home_ == nullptr || !made_by_this_process()) return;
  Freed freed;
  {
    ArenaState& all = arena_state();
    std::unique_lock<std::mutex> lock(all.mutex, std::defer_lock);
    if (t_freed == nullptr) lock.lock();
    all.lent.erase(this);
    const bool retired = (leases_.load(std::memory_order_relaxed) & kRetired) != 0;
    put_block(home_, offset_, leased_nbytes(), BlockState::kLent, retired ? Lent::kUnleased : Lent::kLeased, &freed.segment);
    if (home_->arena != nullptr && home_->used_blocks == 0) freed.arena = Ref<Arena>::adopt(home_->arena);
  }
  if (t_freed != nullptr) {
    *t_freed++ = std::move(freed);
  } else {
    signal_space();
  }
}

void end_leases(std::span<Leased* const> objects) noexcept {
  bool any_freed = false;
  constexpr size_t kBatch = 64;
  for (; !objects.empty(); objects = objects.subspan(std::min(objects.size(), kBatch))) {
    const auto batch = objects.first(std::min(objects.size(), kBatch));
    std::array<Leased*, kBatch> others;
    size_t count = 0;
    std::array<Freed, kBatch> freed;  // these go after the lock: the end of a segment takes locks that come before this one
    {
      const std::lock_guard<std::mutex> lock(arena_state().mutex);
      t_freed = freed.data();
      for (Leased* const object : batch) {
        if (object->as_block() == nullptr) {
          others[count++] = object;
          continue;
        }
        object->lease_ended();
        object->release();
      }
      any_freed |= t_freed != freed.data();
      t_freed = nullptr;
    }
    // The last reference to a storage that came from elsewhere ends a lease there, and takes any lock.
    for (size_t i = 0; i < count; ++i) {
      others[i]->lease_ended();
      others[i]->release();
    }
  }
  if (any_freed) signal_space();  // and else not: a waiter that looks for ended leases would wake itself
}

}  // namespace tenon::memory

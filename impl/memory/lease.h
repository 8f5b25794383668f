// A borrowed storage keeps a Lease, and gives it back when the storage ends. It is a lease of
// another process's block or, if the memory came home, a lease that keeps this process's own block.
#pragma once

#include <cstdint>
#include <utility>

#include "base/counted.h"
#include "base/fork.h"
#include "memory/arena.h"
#include "memory/holding.h"

namespace tenon::memory {

// The end of a lease may end a segment or close fds, which takes locks of any rank. So a Lease is
// destroyed or assigned without a ranked lock. In a forked child an inherited lease is FAMILY: its
// end there gives nothing back, and the block stays lent until both processes have let go. An
// inherited lease of an own block ends only in the child's copy of the records.
class Lease {
 public:
  Lease() noexcept = default;
  // `mark` is fork_mark() at the arrival of the lease, or earlier.
  Lease(Ref<Holding> holding, uint32_t slot, uint32_t mark = fork_mark()) noexcept
      : kept_(holding.detach()), slot_(slot), mark_(mark) {}
  // Takes over the lease that lease_own() began.
  explicit Lease(LentBlock* block) noexcept : kept_(block), slot_(kOwnBlock) {}
  Lease(Lease&& other) noexcept
      : kept_(std::exchange(other.kept_, nullptr)), slot_(other.slot_), mark_(other.mark_) {}
  // Swaps: the lease that this object had ends with `other`.
  Lease& operator=(Lease&& other) noexcept {
    swap(other);
    return *this;
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() { end(); }

  void swap(Lease& other) noexcept {
    std::swap(kept_, other.kept_);
    std::swap(slot_, other.slot_);
    std::swap(mark_, other.mark_);
  }
  bool stands() const noexcept { return kept_ != nullptr; }
  // Null for a block of this process.
  Holding* holding() const noexcept {
    return slot_ == kOwnBlock ? nullptr : static_cast<Holding*>(kept_);
  }
  LentBlock* own_block() const noexcept {
    return slot_ == kOwnBlock ? static_cast<LentBlock*>(kept_) : nullptr;
  }

 private:
  static constexpr uint32_t kOwnBlock = UINT32_MAX;  // no page has so many slots

  void end() noexcept {
    if (kept_ == nullptr) return;
    if (LentBlock* const block = own_block(); block != nullptr) {
      block->left_home();
      return;
    }
    holding()->end_lease(slot_, mark_);
  }

  // A Holding or a LentBlock: `slot_` says which. They share one member, because there can be
  // millions of leases.
  Counted* kept_ = nullptr;
  uint32_t slot_ = 0;
  uint32_t mark_ = 0;
};

}  // namespace tenon::memory

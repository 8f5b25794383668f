// What was lent under leases: it is kept until the last of them has ended.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/counted.h"
#include "memory/segment.h"
#include "memory/space.h"

namespace tenon::memory {

class Arena;
struct ArenaSegment;
struct Freed;
class LentBlock;
namespace board {
struct ArenaFigures;
}

// Blocks that became lent, or ceased to be, counted together: an arena's figures hear of them when this goes, or at the first block of
// another arena. The arena outlives it.
class LentCount {
 public:
  LentCount() noexcept = default;
  LentCount(const LentCount&) = delete;
  LentCount& operator=(const LentCount&) = delete;
  ~LentCount() { publish(); }
  void add(board::ArenaFigures* figures, int64_t blocks, int64_t nbytes) noexcept {
    if (figures != figures_) publish();
    figures_ = figures;
    blocks_ += blocks;
    nbytes_ += nbytes;
  }

 private:
  void publish() noexcept;
  board::ArenaFigures* figures_ = nullptr;
  int64_t blocks_ = 0;
  int64_t nbytes_ = 0;
};

// What a lease keeps: a block of this process, or a storage that came from elsewhere and is lent on.
class Leased : public Counted {
 public:
  // The lease's reference, taken and let go of. Blocks end theirs together, by end_leases().
  virtual void lease_began(LentCount* /*count*/) noexcept { retain(); }
  virtual void lease_ended() noexcept { release(); }
  virtual uint64_t leased_nbytes() const noexcept = 0;
  virtual LentBlock* as_block() noexcept { return nullptr; }
};

// A block of an arena that was lent: its storage and its leases each have a strong reference, and when the last of them goes it is free. A
// lease has a weak one, too, and nobody else has: one word says who keeps it and whether it is lent. Small, because there can be millions.
class LentBlock final : public Leased {
 public:
  // Of a slab (slab.h); lend_block() makes them.
  static void* operator new(size_t nbytes) = delete;
  static void operator delete(void* place) noexcept;

  void lease_began(LentCount* count) noexcept override;
  uint64_t leased_nbytes() const noexcept override { return uint64_t{class_units_} * kBlockAlignment; }
  LentBlock* as_block() noexcept override { return this; }
  // The storage is gone, its own reference comes next. `retire`: it was lent without a lease, too.
  void storage_gone(bool retire) noexcept;
  // A lease of this process itself, with the reference: no ledger keeps the board's figures where they are.
  void came_home() noexcept;
  void left_home() noexcept;
  // A child of fork has it, too, and it is not the child's.
  bool made_by_this_process() const noexcept;

 private:
  static constexpr uint32_t kNoLease = 1;  // all strong references together have a weak one

  friend class LentIndex;
  friend LentBlock* lend_block(std::atomic<LentBlock*>* where, ArenaSegment* home, uint64_t offset, uint32_t units);
  friend void end_leases(std::span<Leased* const> objects) noexcept;
  LentBlock(ArenaSegment* home, uint64_t offset, uint32_t units) noexcept : home_(home), offset_(offset), class_units_(units) {}
  void dispose() noexcept override;
  // With the arenas' lock. True: nothing keeps it any more, and leave() or dispose() is next.
  bool end_lease(LentCount* count) noexcept;
  void leave(Freed* freed) noexcept;
  ArenaSegment* home_;
  uint64_t offset_;
  uint32_t class_units_;  // of kBlockAlignment
  std::atomic<bool> retired_{false};
  LentBlock* next_ = nullptr;  // of its bucket
};

// The block of a storage, of which `where` says whether there is one yet: it takes over what the storage has of its home, `units` of
// kBlockAlignment, and `where` has a reference.
LentBlock* lend_block(std::atomic<LentBlock*>* where, ArenaSegment* home, uint64_t offset, uint32_t units);

// The lent block that begins there, whichever way its segment was opened: what comes back to its lender is kept as what it is, and not by a
// lease on itself, which would never end.
Ref<LentBlock> find_lent(const SegmentKey& key, uint64_t offset) noexcept;

// A lease of each has ended. Together they take the arenas' lock once.
void end_leases(std::span<Leased* const> objects) noexcept;

}  // namespace tenon::memory

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
enum class BlockState : uint8_t;
struct Freed;
class LentBlock;
namespace board {
struct ArenaFigures;
}

// Blocks that became lent, or ceased to be, counted together: an arena's figures hear of them when
// this goes, or at the first block of another arena. With the arenas' lock, and the arena outlives
// it.
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

// What a lease keeps: a block of this process, or a storage that came from elsewhere and is lent
// on.
class Leased : public Counted {
 public:
  // The lease's reference, taken and let go of, of what is no block.
  virtual void lease_began() noexcept { retain(); }
  virtual void lease_ended() noexcept { release(); }
  virtual uint64_t leased_nbytes() const noexcept = 0;
  virtual LentBlock* as_block() noexcept { return nullptr; }
};

// A block of an arena that was lent: it is free when its storage and the last of its leases have
// gone. A message has thousands, so they are not counted one by one: all counts are changed under
// the arenas' lock, and by nobody who holds no more than a reference. Small, because there can be
// millions.
class LentBlock final : public Leased {
 public:
  // Of a slab (slab.h); lend_block() makes them.
  static void* operator new(size_t nbytes) = delete;
  static void operator delete(void* /*place*/) noexcept { __builtin_trap(); }

  uint64_t leased_nbytes() const noexcept override { return size_.nbytes(); }
  LentBlock* as_block() noexcept override { return this; }
  // The block may be, too. `retire`: it was lent without a lease, too.
  void storage_gone(bool retire) noexcept;
  // A lease that lease_own() began has ended.
  void left_home() noexcept;
  // A child of fork has it, too, and it is not the child's.
  bool made_by_this_process() const noexcept;

 private:
  // Of the counts: the strong one is the storage's, and each lease has a weak one.
  static constexpr uint32_t kNoLease = 1;

  friend class LentIndex;
  friend LentBlock* lend_block(std::atomic<LentBlock*>* where, ArenaSegment* home, uint64_t offset,
                               BlockSize size);
  friend LentBlock* lease_own(const SegmentKey& key, uint64_t offset) noexcept;
  friend uint64_t begin_leases(std::span<Leased* const> objects) noexcept;
  friend void end_leases(std::span<Leased* const> objects) noexcept;
  LentBlock(ArenaSegment* home, uint64_t offset, BlockSize size) noexcept
      : home_(home), offset_(offset), size_(size) {}
  // All with the arenas' lock.
  inline void begin_lease(LentCount* count) noexcept;
  // True: nothing keeps it any more, and leave() is next.
  inline bool end_lease(LentCount* count) noexcept;
  // The end of it, and of the block if it is this process's.
  void leave(BlockState from, Freed* freed) noexcept;
  ArenaSegment* home_;
  uint64_t offset_;
  BlockSize size_;
  bool retired_ = false;
  LentBlock* next_ = nullptr;  // of its bucket
};

// The block of a storage, of which `where` says whether there is one yet: it takes over what the
// storage has of its home.
LentBlock* lend_block(std::atomic<LentBlock*>* where, ArenaSegment* home, uint64_t offset,
                      BlockSize size);

// A lease, by this process itself, of the lent block that begins there, whichever way its segment
// was opened; null: none does. What comes back to its lender is kept as what it is, and not by a
// ledger's lease, which would never end.
LentBlock* lease_own(const SegmentKey& key, uint64_t offset) noexcept;

// A lease of each begins, or has ended. Together they take the arenas' lock once for many. The sum
// of leased_nbytes().
uint64_t begin_leases(std::span<Leased* const> objects) noexcept;
void end_leases(std::span<Leased* const> objects) noexcept;

}  // namespace tenon::memory

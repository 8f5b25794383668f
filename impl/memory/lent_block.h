// The objects that leases keep until the last lease has ended. The most common kind is a block of
// an arena, a LentBlock. Ledgers and depots begin and end the leases.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/counted.h"
#include "memory/free_space.h"
#include "memory/segment.h"

namespace tenon::memory {

class Arena;
struct ArenaSegment;
enum class BlockState : uint8_t;
struct Freed;
class LentBlock;
namespace board {
struct ArenaFigures;
}

// Adds up how many blocks and bytes became lent, or ceased to be. The sum goes to the arena's
// figures when this object ends, or at the first block of another arena. The caller holds the
// arenas' lock (arena_segment.h), and the arena outlives this object.
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

// An object that a lease keeps: a block of this process, a storage that came from elsewhere and is
// lent on, memory of a device (device/lease.h), or the envelope of a deposit.
class Leased : public Counted {
 public:
  // Take and drop the lease's reference. They are called only for objects that are no block.
  // lease_began() is called under the arenas' lock, and lease_ended() without a ranked lock.
  virtual void lease_began() noexcept { retain(); }
  virtual void lease_ended() noexcept { release(); }
  virtual uint64_t leased_nbytes() const noexcept = 0;
  virtual LentBlock* as_block() noexcept { return nullptr; }
};

// A block of an arena that was lent. It is free when its storage and the last of its leases have
// gone. A message can have thousands of such blocks, and an atomic operation for each would be
// slow. So the counts change only under the arenas' lock, by set_counts(), and never by
// Counted::retain() and release(). The object is small, because there can be millions.
class LentBlock final : public Leased {
 public:
  // lend_block() makes the objects, in a pool (fixed_size_pool.h).
  static void* operator new(size_t nbytes) = delete;
  static void operator delete(void* /*place*/) noexcept { __builtin_trap(); }

  uint64_t leased_nbytes() const noexcept override { return size_.nbytes(); }
  LentBlock* as_block() noexcept override { return this; }
  // The storage has ended, so the block is free if no lease stands. `retire`: the block was also
  // lent without a lease.
  void storage_gone(bool retire) noexcept;
  // Ends a lease that lease_own() began: memory that came home is no longer used.
  void left_home() noexcept;
  // False in a child of fork, which has the parent's object but not its block.
  bool made_by_this_process() const noexcept;

 private:
  // The weak count if no lease stands. The storage has the strong count, and each lease adds one to
  // the weak count.
  static constexpr uint32_t kNoLease = 1;

  friend class LentIndex;
  friend LentBlock* lend_block(std::atomic<LentBlock*>* where, ArenaSegment* home, uint64_t offset,
                               BlockSize size);
  friend LentBlock* lease_own(const SegmentKey& key, uint64_t offset) noexcept;
  friend uint64_t begin_leases(std::span<Leased* const> objects) noexcept;
  friend void end_leases(std::span<Leased* const> objects) noexcept;
  LentBlock(ArenaSegment* home, uint64_t offset, BlockSize size) noexcept
      : home_(home), offset_(offset), size_(size) {}
  // The caller of these holds the arenas' lock.
  inline void begin_lease(LentCount* count) noexcept;
  // True: nothing keeps the block any more, so the caller must call leave().
  inline bool end_lease(LentCount* count) noexcept;
  // Destroys this object, and frees or retires the block if it is this process's.
  void leave(BlockState from, Freed* freed) noexcept;
  ArenaSegment* home_;
  uint64_t offset_;
  BlockSize size_;
  bool retired_ = false;
  LentBlock* next_ = nullptr;  // in the same bucket of LentIndex
};

// Returns the LentBlock of a storage, and makes it if `*where` is still null. From then on the
// storage ends by storage_gone() and not by free_block(). Throws std::bad_alloc. lend_block(), the
// functions below, storage_gone() and left_home() take the arenas' lock.
LentBlock* lend_block(std::atomic<LentBlock*>* where, ArenaSegment* home, uint64_t offset,
                      BlockSize size);

// Begins a lease, by this process itself, of the lent block that begins at `offset`, whichever
// mapping of the segment `key` names. Null: no lent block begins there. Memory that comes home is
// kept this way and not by a ledger's lease. That one ends when the token hangs up, and this
// process would hold the token of its own ledger, so the lease would never end.
LentBlock* lease_own(const SegmentKey& key, uint64_t offset) noexcept;

// Begin and end one lease of each object. They take the arenas' lock once for a batch of objects.
// begin_leases() returns the sum of leased_nbytes(). end_leases(), storage_gone() and left_home()
// also end storages and segments, which may take any lock, so their caller holds no ranked lock. In
// a forked child the blocks of its parent are only forgotten.
uint64_t begin_leases(std::span<Leased* const> objects) noexcept;
void end_leases(std::span<Leased* const> objects) noexcept;

}  // namespace tenon::memory

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
class LentBlock;

// What a lease keeps: a block of this process, or a storage that came from elsewhere and is lent on.
class Leased : public Counted {
 public:
  virtual void lease_began() noexcept {}
  virtual void lease_ended() noexcept {}
  virtual uint64_t leased_nbytes() const noexcept = 0;
  virtual LentBlock* as_block() noexcept { return nullptr; }
};

// A block of an arena that was lent: its storage and its leases each count one, and when the last of them goes it is free. Small, because
// there can be millions.
class LentBlock final : public Leased {
 public:
  // Of a slab (slab.h), under the arenas' lock.
  static void* operator new(size_t nbytes);
  static void operator delete(void* place) noexcept;

  // Takes over what a storage has of its home: `units` of kBlockAlignment.
  LentBlock(ArenaSegment* home, uint64_t offset, uint32_t units) noexcept : home_(home), offset_(offset), class_units_(units) {}
  void lease_began() noexcept override;
  void lease_ended() noexcept override;
  uint64_t leased_nbytes() const noexcept override { return uint64_t{class_units_} * kBlockAlignment; }
  // It was never the block's: another one was quicker.
  void abandon() noexcept { home_ = nullptr; }
  LentBlock* as_block() noexcept override { return this; }
  // The storage is gone, its own reference comes next. `retire`: it was lent without a lease, too.
  void storage_gone(bool retire) noexcept;
  // Of a lease of this process itself: no ledger keeps the board's figures where they are.
  void came_home() noexcept;
  void left_home() noexcept;
  // From now on find_lent() finds it. Once, by whoever's block it is.
  void join_lent() noexcept;
  // A child of fork has it, too, and it is not the child's.
  bool made_by_this_process() const noexcept;

 private:
  friend class LentIndex;
  static constexpr uint32_t kRetired = uint32_t{1} << 31;

  void dispose() noexcept override;
  ArenaSegment* home_;
  uint64_t offset_;
  uint32_t class_units_;             // of kBlockAlignment
  std::atomic<uint32_t> leases_{0};  // and kRetired
  LentBlock* next_ = nullptr;        // of its bucket
};

// The lent block that begins there, whichever way its segment was opened: what comes back to its lender is kept as what it is, and not by a
// lease on itself, which would never end.
Ref<LentBlock> find_lent(const SegmentKey& key, uint64_t offset) noexcept;

// A lease of each has ended. Together they take the arenas' lock once.
void end_leases(std::span<Leased* const> objects) noexcept;

}  // namespace tenon::memory

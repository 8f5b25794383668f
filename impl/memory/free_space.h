// Knows which parts of one segment are free. This is only the arithmetic of an arena, without a
// segment and without a lock: arenas call it under their lock, and device/arena.cc uses it for
// device memory.
//
// The front is the end of the part that pieces have used so far. Pieces that were given back lie
// below it, and fresh room lies beyond it.
//
// A new block takes no more than it needs, but a freed block is given out whole if it is at most an
// eighth larger than the request. Freed blocks lie in bins by their size, and a request looks at
// the last few blocks of two bins. So reuse is O(1), and the block is still warm in the caches.
// Freed blocks are joined with their neighbours only when room runs out (consolidate()), so that
// the common case pays nothing for it. After consolidate() every piece that is large enough is
// found. None of these records lies in the segment itself, because a borrower could write there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace tenon::memory {

inline constexpr uint64_t kBlockAlignment = 64;

// The largest block of an arena: 8 TiB less a page.
inline constexpr uint64_t kBlockLimit = uint64_t{INT32_MAX} * 4096;

// Returns the size of a new block for `nbytes` bytes: the next multiple of `alignment`, and from
// 128 GiB on of 4096, too. `alignment` is a power of two >= kBlockAlignment. `nbytes` <=
// kBlockLimit.
uint64_t block_nbytes(uint64_t nbytes, uint64_t alignment) noexcept;

// The size of a block in 32 bits, because there can be millions of blocks.
class BlockSize {
 public:
  BlockSize() noexcept = default;
  // `nbytes` is what block_nbytes() returned, or the size of the piece that FreeSpace gave for
  // that.
  explicit BlockSize(uint64_t nbytes) noexcept
      : units_(nbytes / kBlockAlignment < kCoarse
                   ? static_cast<uint32_t>(nbytes / kBlockAlignment)
                   : static_cast<uint32_t>(nbytes / kCoarseUnit) | kCoarse) {}
  uint64_t nbytes() const noexcept {
    return (units_ & kCoarse) == 0 ? units_ * kBlockAlignment
                                   : uint64_t{units_ & ~kCoarse} * kCoarseUnit;
  }

 private:
  static constexpr uint32_t kCoarse = uint32_t{1} << 31;
  static constexpr uint64_t kCoarseUnit = 4096;
  uint32_t units_ = 0;
};

class FreeSpace {
 public:
  explicit FreeSpace(uint64_t nbytes) noexcept : nbytes_(nbytes) {}

  struct Piece {
    uint64_t offset = 0;
    uint64_t nbytes = 0;    // at least what was asked for
    bool was_lent = false;  // a borrower may have seen or written the bytes
  };
  // Takes a piece that was given back. False: none was found. consolidate() may still bring one to
  // light. Nothing changes if std::bad_alloc is thrown.
  bool take_free(uint64_t nbytes, uint64_t alignment, Piece* out);
  // Tells where the next piece of fresh room would begin. False: it would not fit.
  bool peek_front(uint64_t nbytes, uint64_t alignment, uint64_t* offset) const noexcept;
  // Takes fresh room at the `offset` that peek_front() has told for these bytes.
  Piece take_front(uint64_t offset, uint64_t nbytes) noexcept;
  // Gives a whole piece back. If it throws std::bad_alloc, the piece is not remembered, and is
  // unused until reset() or until the segment goes.
  void give_back(uint64_t offset, uint64_t nbytes, bool was_lent);
  // Joins free pieces that lie side by side, and moves the front back if the last one ends there.
  // False: nothing was given back since the last time, so nothing can have changed. Nothing changes
  // if std::bad_alloc is thrown.
  bool consolidate();
  // Makes the whole segment free. No piece is in use any more.
  void reset() noexcept;

  uint64_t nbytes() const noexcept { return nbytes_; }
  uint64_t front() const noexcept { return front_; }
  uint64_t free_nbytes() const noexcept { return free_nbytes_; }  // below the front
  uint64_t room() const noexcept { return free_nbytes_ + (nbytes_ - front_); }
  uint64_t largest_free() const noexcept;  // below the front
  // No piece has ever reached beyond this offset, so the bytes from here on are zero.
  uint64_t touched() const noexcept { return touched_; }

 private:
  struct Freed {
    uint64_t offset = 0;  // with was_lent as the lowest bit
    uint64_t nbytes = 0;
  };
  using Bin = std::vector<Freed>;  // in the order in which the pieces were freed
  bool take_from_bin(size_t index, uint64_t nbytes, uint64_t alignment, Piece* out) noexcept;
  void insert_range(uint64_t offset, uint64_t nbytes, bool was_lent);

  uint64_t nbytes_;
  uint64_t front_ = 0;
  uint64_t touched_ = 0;
  uint64_t lent_below_ = 0;  // a piece from the front that begins below here may have been lent
  uint64_t free_nbytes_ = 0;
  bool changed_ = false;
  std::vector<Bin> bins_;
  std::multimap<uint64_t, uint64_t> ranges_;  // size -> offset, whose lowest bit is was_lent
};

}  // namespace tenon::memory

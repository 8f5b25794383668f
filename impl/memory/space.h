// Which parts of one segment are free: the arithmetic of an arena, without a segment and without a lock.
//
// A freed block goes to the list of its size class and is found there in O(1), warm. Blocks of a class that nobody asks for any more are
// joined with their neighbours only when room runs out (consolidate), so the common way pays nothing for it. None of this lies in the
// segment itself: a borrower could write there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace tenon::memory {

inline constexpr uint64_t kBlockAlignment = 64;

// What a block of `nbytes` takes: steps of an eighth of a power of two, so that at most an eighth is lost, and blocks of about one size can
// stand in for each other. `alignment` is a power of two >= kBlockAlignment.
uint64_t size_class(uint64_t nbytes, uint64_t alignment) noexcept;

class Space {
 public:
  explicit Space(uint64_t nbytes) noexcept : nbytes_(nbytes) {}

  struct Piece {
    uint64_t offset = 0;
    bool was_lent = false;  // a borrower may have seen, or written, what lies there
  };
  // Of what was given back. False: none.
  bool take_free(uint64_t class_nbytes, uint64_t alignment, Piece* out);
  // Where the next piece of fresh room would begin; false: it would not fit.
  bool peek_front(uint64_t class_nbytes, uint64_t alignment, uint64_t* offset) const noexcept;
  Piece take_front(uint64_t offset, uint64_t class_nbytes) noexcept;
  // Throws std::bad_alloc: then the piece is not remembered, and unused until the segment goes.
  void give_back(uint64_t offset, uint64_t class_nbytes, bool was_lent);
  // Join what lies side by side. False: nothing was given back since the last time, so nothing can have changed.
  bool consolidate();
  // Nothing of it is in use any more.
  void reset() noexcept;

  uint64_t nbytes() const noexcept { return nbytes_; }
  uint64_t front() const noexcept { return front_; }
  uint64_t free_nbytes() const noexcept { return free_nbytes_; }  // below the front
  uint64_t room() const noexcept { return free_nbytes_ + (nbytes_ - front_); }
  uint64_t largest_free() const noexcept;  // below the front
  // Bytes from here on are as they were born: zero.
  uint64_t touched() const noexcept { return touched_; }

 private:
  using Offsets = std::vector<uint64_t>;  // the lowest bit: was_lent
  void insert_range(uint64_t offset, uint64_t nbytes, bool was_lent);

  uint64_t nbytes_;
  uint64_t front_ = 0;
  uint64_t touched_ = 0;
  uint64_t lent_below_ = 0;  // what is carved below here may have been lent
  uint64_t free_nbytes_ = 0;
  bool changed_ = false;
  std::vector<Offsets> classes_;              // last freed first
  std::multimap<uint64_t, uint64_t> ranges_;  // size -> offset, with the lowest bit as above
};

}  // namespace tenon::memory

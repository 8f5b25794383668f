// Allocates places of one size that lie close together. It is meant for objects of which there can
// be millions, each so small that the bytes which malloc adds to an allocation would count. The
// lent blocks of the arenas lie in one (arena_segment.h).
//
// The pool takes large pieces from malloc, so that little is lost around them, and touches only the
// part of a piece that is used. Empty pieces go back to malloc, except one, so that a process that
// lends and gets back in turn does not ask for a piece each time. The caller locks. The destructor
// frees all pieces, with the places that are still taken.
#pragma once

#include <cstddef>
#include <vector>

namespace tenon::memory {

class FixedSizePool {
 public:
  // `place_nbytes`: a multiple of 8, as is the alignment of a place.
  explicit FixedSizePool(size_t place_nbytes) noexcept : place_nbytes_(place_nbytes) {}
  FixedSizePool(const FixedSizePool&) = delete;
  FixedSizePool& operator=(const FixedSizePool&) = delete;
  ~FixedSizePool();

  // Null: no memory.
  void* take() noexcept;
  void give_back(void* place) noexcept;  // from take()

  size_t taken() const noexcept { return taken_; }
  size_t pieces() const noexcept { return pieces_.size(); }

  // With the 16 bytes that glibc's malloc adds, a piece fills whole pages, whether it lies in the
  // heap or in a mapping of its own.
  static constexpr size_t kPieceNbytes = (size_t{256} << 10) - 16;

 private:
  struct Piece;
  Piece* piece_of(const void* place) noexcept;
  Piece* add_piece() noexcept;
  void drop_piece(Piece* piece) noexcept;
  void link(Piece* piece) noexcept;
  void unlink(Piece* piece) noexcept;

  size_t place_nbytes_;
  size_t taken_ = 0;
  std::vector<Piece*> pieces_;  // by address, so that a place can be traced to its piece
  Piece* with_room_ = nullptr;  // a list of the pieces that are neither full nor empty
  Piece* empty_ = nullptr;      // at most one
  Piece* last_ = nullptr;       // the piece of the place that came back last
};

}  // namespace tenon::memory

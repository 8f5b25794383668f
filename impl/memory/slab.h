// Places of one size, close together: for objects of which there can be millions, each too small
// for what malloc adds to it.
//
// Taken from malloc in large pieces, so that little is lost around them; only what is used of them
// is ever touched. A piece that is empty goes back, but for one, so that a process that lends and
// gets back in turn does not ask for it each time. The caller locks.
#pragma once

#include <cstddef>
#include <vector>

namespace tenon::memory {

class Slab {
 public:
  // `place_nbytes`: a multiple of 8, as is the alignment of a place.
  explicit Slab(size_t place_nbytes) noexcept : place_nbytes_(place_nbytes) {}
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;
  ~Slab();

  // Null: no memory.
  void* take() noexcept;
  void give_back(void* place) noexcept;

  size_t taken() const noexcept { return taken_; }
  size_t pieces() const noexcept { return pieces_.size(); }

  // With what malloc adds whole pages, whether it makes a mapping of them or not.
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
  std::vector<Piece*> pieces_;  // by address, so that a place says which one it is of
  Piece* with_room_ = nullptr;  // a list of those that are neither full nor empty
  Piece* empty_ = nullptr;      // at most one
  Piece* last_ = nullptr;       // of the place that came back last
};

}  // namespace tenon::memory

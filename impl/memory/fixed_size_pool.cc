#include "memory/fixed_size_pool.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <new>
#include <utility>

#include "base/make_room.h"

#ifdef __has_feature
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, nbytes) (static_cast<void>(at), static_cast<void>(nbytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, nbytes) (static_cast<void>(at), static_cast<void>(nbytes))
#endif

namespace tenon::memory {

// The head of a piece. The places follow it.
struct FixedSizePool::Piece {
  Piece* next = nullptr;
  Piece* previous = nullptr;
  void* free = nullptr;  // places that were given back, each with the address of the next
  uint32_t used = 0;
  uint32_t begun = sizeof(Piece);  // offset behind which no place was ever taken or touched

  bool is_full(size_t place_nbytes) const noexcept {
    return free == nullptr && begun + place_nbytes > kPieceNbytes;
  }
};

FixedSizePool::~FixedSizePool() {
  for (Piece* const piece : pieces_) std::free(piece);
}

FixedSizePool::Piece* FixedSizePool::piece_of(const void* place) noexcept {
  // Neighbouring places mostly come back one after the other.
  if (last_ != nullptr &&
      reinterpret_cast<uintptr_t>(place) - reinterpret_cast<uintptr_t>(last_) < kPieceNbytes)
    return last_;
  const auto behind =
      std::upper_bound(pieces_.begin(), pieces_.end(), place, std::less<const void*>());
  last_ = *(behind - 1);
  return last_;
}

void FixedSizePool::link(Piece* piece) noexcept {
  piece->previous = nullptr;
  piece->next = with_room_;
  if (with_room_ != nullptr) with_room_->previous = piece;
  with_room_ = piece;
}

void FixedSizePool::unlink(Piece* piece) noexcept {
  (piece->previous != nullptr ? piece->previous->next : with_room_) = piece->next;
  if (piece->next != nullptr) piece->next->previous = piece->previous;
}

FixedSizePool::Piece* FixedSizePool::add_piece() noexcept {
  if (empty_ != nullptr) return std::exchange(empty_, nullptr);
  try {
    make_room(&pieces_, 1);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  void* const room = std::malloc(kPieceNbytes);
  if (room == nullptr) return nullptr;
  auto* const piece = new (room) Piece();
  ASAN_POISON_MEMORY_REGION(piece + 1, kPieceNbytes - sizeof(Piece));
  pieces_.insert(std::upper_bound(pieces_.begin(), pieces_.end(), piece, std::less<>()), piece);
  return piece;
}

void FixedSizePool::drop_piece(Piece* piece) noexcept {
  if (last_ == piece) last_ = nullptr;
  pieces_.erase(std::lower_bound(pieces_.begin(), pieces_.end(), piece, std::less<>()));
  ASAN_UNPOISON_MEMORY_REGION(piece, kPieceNbytes);
  std::free(piece);
}

void* FixedSizePool::take() noexcept {
  Piece* piece = with_room_;
  if (piece == nullptr) {
    piece = add_piece();
    if (piece == nullptr) return nullptr;
    link(piece);
  }
  void* place = piece->free;
  if (place != nullptr) {
    ASAN_UNPOISON_MEMORY_REGION(place, place_nbytes_);
    piece->free = *static_cast<void**>(place);
  } else {
    place = reinterpret_cast<std::byte*>(piece) + piece->begun;
    ASAN_UNPOISON_MEMORY_REGION(place, place_nbytes_);
    piece->begun += static_cast<uint32_t>(place_nbytes_);
  }
  ++piece->used;
  ++taken_;
  if (piece->is_full(place_nbytes_)) unlink(piece);
  return place;
}

void FixedSizePool::give_back(void* place) noexcept {
  Piece* const piece = piece_of(place);
  const bool was_full = piece->is_full(place_nbytes_);
  *static_cast<void**>(place) = std::exchange(piece->free, place);
  ASAN_POISON_MEMORY_REGION(place, place_nbytes_);
  --taken_;
  if (--piece->used == 0) {
    if (!was_full) unlink(piece);
    // The older of the two empty pieces is freed, because this one is warm in the caches.
    if (Piece* const other = std::exchange(empty_, piece); other != nullptr) drop_piece(other);
  } else if (was_full) {
    link(piece);
  }
}

}  // namespace tenon::memory

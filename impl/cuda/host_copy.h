// Copies bytes between a device and the host through a small buffer of pinned memory, so that the
// host never holds all bytes at once. Imports and exports of module archives use it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "base/status.h"
#include "cuda/event.h"
#include "cuda/memory.h"
#include "cuda/stream.h"

namespace tenon::cuda {

// A HostCopy belongs to one device and is used by one thread at a time. The copies run in a stream
// of their own, beside the other work of the device. wait_for() says which work comes before them.
// The host waits for the copies themselves, so no later work has to wait for them. Copies in both
// directions may follow each other in any order. No function changes the thread's CUDA context. In
// a child of fork the destructor frees nothing. Otherwise it waits for the copies.
//
// The errors are those of the driver (cuda/call.h), UNSUPPORTED in a child of fork, and those of
// the functions that the caller passes.
class HostCopy {
 public:
  // The size of a piece of the buffer, a multiple of every element's size. There are two pieces, so
  // that one is copied while the bytes of the other are used.
  static constexpr uint64_t kPieceNbytes = uint64_t{4} << 20;
  static constexpr size_t kPieces = 2;

  HostCopy() noexcept = default;
  // Makes a HostCopy in the device's primary context. If the driver has no pinned memory left, the
  // pieces are ordinary memory, and the copies are slower.
  static Result<HostCopy> create(int32_t device);
  HostCopy(HostCopy&& other) noexcept { swap(&other); }
  HostCopy& operator=(HostCopy&& other) noexcept {
    swap(&other);
    return *this;
  }
  HostCopy(const HostCopy&) = delete;
  HostCopy& operator=(const HostCopy&) = delete;
  ~HostCopy();

  // False for an object that create() did not make. Only finish() may be called on it then.
  explicit operator bool() const noexcept { return stream_ != nullptr; }
  // Makes the copies that follow wait for the work that was given to the stream until now.
  Status wait_for(Stream stream);

  // Copies from the device. `take` gets the bytes piece by piece and in order, and may use each
  // piece until it returns. All bytes have been read when to_host() returns. An error of `take`
  // ends the copy. After an error no copy is under way.
  using Take = std::function<Status(std::span<const std::byte> piece)>;
  Status to_host(DevicePointer from, uint64_t nbytes, const Take& take);
  // Copies many ranges that together have at most kPieceNbytes, which the caller checks. They lie
  // in one piece without gaps, so a range can have any alignment there. There is one wait for all.
  // `take` is called for each range in order, with its index. Errors are as for to_host().
  struct Range {
    DevicePointer from;
    uint64_t nbytes;
  };
  using TakeRange = std::function<Status(size_t which, std::span<const std::byte> bytes)>;
  Status gather(std::span<const Range> ranges, const TakeRange& take);
  // Copies to the device. `give` fills one piece after the other, each to its end. A piece has
  // kPieceNbytes, and the last one has the rest. All bytes are on the device after finish(), and
  // one finish() serves any number of calls. An error of `give` ends the copy. After an error
  // copies may still be under way: call finish() before the device memory goes.
  using Give = std::function<Status(std::span<std::byte> piece)>;
  Status to_device(DevicePointer to, uint64_t nbytes, const Give& give);
  Status finish();

 private:
  struct Piece {
    std::byte* bytes = nullptr;
    bool is_pinned = false;
    Event copied;  // the last copy from or to this piece
  };

  void swap(HostCopy* other) noexcept;
  Status make();
  // Begins a copy and does not wait.
  Status begin(uint64_t to, uint64_t from, uint64_t nbytes);
  // Begins the copy, and marks it in the piece's event.
  Status copy(uint64_t to, uint64_t from, uint64_t nbytes, Piece* piece);
  Status to_host_inside(DevicePointer from, uint64_t nbytes, const Take& take);
  Status gather_inside(std::span<const Range> ranges, const TakeRange& take);

  int32_t device_ = 0;
  void* context_ = nullptr;
  Stream stream_ = nullptr;
  size_t next_ = 0;  // the next piece that to_device() fills
  std::array<Piece, kPieces> pieces_;
};

}  // namespace tenon::cuda

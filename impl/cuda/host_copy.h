// Bytes between a device and the host, through a bounded buffer of pinned memory: however many they
// are, the host never has them all.
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

// One device's, in one thread at a time. The copies run in a stream of its own, beside whatever the
// device does: wait_for() says what comes before them, and the host waits for the rest, so that
// nobody who comes later has to wait for anything here.
class HostCopy {
 public:
  // There are two, so that one is copied while the other's bytes are used. A multiple of every
  // element's size.
  static constexpr uint64_t kPieceNbytes = uint64_t{4} << 20;
  static constexpr size_t kPieces = 2;

  HostCopy() noexcept = default;
  // In the device's primary context. If the driver has no pinned memory to give, the pieces are of
  // ordinary memory, and copies slower.
  static Result<HostCopy> create(int32_t device);
  HostCopy(HostCopy&& other) noexcept { swap(&other); }
  HostCopy& operator=(HostCopy&& other) noexcept {
    swap(&other);
    return *this;
  }
  HostCopy(const HostCopy&) = delete;
  HostCopy& operator=(const HostCopy&) = delete;
  ~HostCopy();

  explicit operator bool() const noexcept { return stream_ != nullptr; }
  // What was given to the stream until now passes before the copies that follow.
  Status wait_for(Stream stream);

  // `take` gets the bytes, piece by piece and in order, each good until it returns. All have been
  // read when this returns.
  using Take = std::function<Status(std::span<const std::byte> piece)>;
  Status to_host(DevicePointer from, uint64_t nbytes, const Take& take);
  // Many, which together have at most kPieceNbytes: side by side in one piece, and one wait for
  // them all.
  struct Range {
    DevicePointer from;
    uint64_t nbytes;
  };
  using TakeRange = std::function<Status(size_t which, std::span<const std::byte> bytes)>;
  Status gather(std::span<const Range> ranges, const TakeRange& take);
  // `give` fills one piece after the other. The bytes are there after finish().
  using Give = std::function<Status(std::span<std::byte> piece)>;
  Status to_device(DevicePointer to, uint64_t nbytes, const Give& give);
  Status finish();

 private:
  struct Piece {
    std::byte* bytes = nullptr;
    bool is_pinned = false;
    Event copied;  // the last copy from or to it
  };

  void swap(HostCopy* other) noexcept;
  Status make();
  Status begin(uint64_t to, uint64_t from, uint64_t nbytes);
  // That, and a mark for who waits for the piece.
  Status copy(uint64_t to, uint64_t from, uint64_t nbytes, Piece* piece);
  Status to_host_inside(DevicePointer from, uint64_t nbytes, const Take& take);
  Status gather_inside(std::span<const Range> ranges, const TakeRange& take);

  int32_t device_ = 0;
  void* context_ = nullptr;
  Stream stream_ = nullptr;
  size_t next_ = 0;  // of the pieces
  std::array<Piece, kPieces> pieces_;
};

}  // namespace tenon::cuda

// Memory that is mapped piece by piece (cuMemCreate, cuMemMap): its pieces given to other
// processes, and theirs mapped here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cuda/memory.h"
#include "os/fd.h"

namespace tenon::cuda {

// CUmemFabricHandle, byte for byte: what an fd is on one machine, on all machines of a fabric.
using FabricHandle = std::array<std::byte, 64>;

// Those in which a range lies, one behind the other.
struct Pieces {
  DevicePointer base = 0;       // of the first
  std::vector<uint64_t> sizes;  // of each, bytes
};
// UNSUPPORTED: there is a hole in the range.
Result<Pieces> find_pieces(DevicePointer pointer, uint64_t nbytes, int32_t device);

// Each keeps its piece's memory until it is closed, wherever it is. INVALID_ARGUMENT: the memory
// was made without such handles.
Result<std::vector<os::Fd>> export_pieces(const Pieces& pieces);
// Of one piece, which lasts as long as the piece does in its owner.
Result<FabricHandle> export_fabric(DevicePointer piece);

// A piece as it comes from another process: by an fd, which is borrowed, or by a fabric handle.
struct PieceHandle {
  uint64_t nbytes = 0;
  int fd = -1;
  const FabricHandle* fabric = nullptr;
};

// Pieces at neighbouring addresses, with access for one device. They keep the memory.
class PieceMapping {
 public:
  PieceMapping() noexcept = default;
  // UNSUPPORTED: read-only, and the device knows no such access.
  static Result<PieceMapping> map(std::span<const PieceHandle> pieces, int32_t device,
                                  bool read_only);
  // New memory in one piece, rounded up to what the device gives, and of which handles of that kind
  // can be had. UNSUPPORTED: not there.
  enum class Handles : uint8_t { kFd, kFabric };
  static Result<PieceMapping> create(uint64_t nbytes, int32_t device, Handles handles);
  PieceMapping(PieceMapping&& other) noexcept
      : base_(std::exchange(other.base_, 0)),
        nbytes_(std::exchange(other.nbytes_, 0)),
        mapped_(std::exchange(other.mapped_, 0)) {}
  PieceMapping& operator=(PieceMapping&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(nbytes_, other.nbytes_);
    std::swap(mapped_, other.mapped_);
    return *this;
  }
  PieceMapping(const PieceMapping&) = delete;
  PieceMapping& operator=(const PieceMapping&) = delete;
  ~PieceMapping();

  DevicePointer base() const noexcept { return base_; }
  uint64_t nbytes() const noexcept { return nbytes_; }

 private:
  static Result<PieceMapping> reserve(uint64_t nbytes);
  Status give_access(int32_t device, bool read_only);

  DevicePointer base_ = 0;
  uint64_t nbytes_ = 0;  // of addresses
  uint64_t mapped_ = 0;  // of them, from the base on
};

}  // namespace tenon::cuda

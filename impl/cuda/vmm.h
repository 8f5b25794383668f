// Device memory that is mapped piece by piece (cuMemCreate, cuMemMap): gives its pieces to other
// processes, and maps theirs here.
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

// CUmemFabricHandle, byte for byte. A fabric handle serves all machines of a fabric as an fd serves
// one machine.
using FabricHandle = std::array<std::byte, 64>;

// The neighbouring pieces in which a range lies.
struct Pieces {
  DevicePointer base = 0;       // the address of the first piece
  std::vector<uint64_t> sizes;  // of each piece, in bytes
};
// UNSUPPORTED: there is a hole in the range.
Result<Pieces> find_pieces(DevicePointer pointer, uint64_t nbytes, int32_t device);

// Returns one fd for each piece, in the order of the addresses. An fd keeps the memory of its piece
// until it is closed, in whatever process. INVALID_ARGUMENT: the memory was made without such
// handles.
Result<std::vector<os::Fd>> export_pieces(const Pieces& pieces);
// Returns the fabric handle of one piece. It is valid as long as the piece exists in its owner.
Result<FabricHandle> export_fabric(DevicePointer piece);

// A piece that came from another process, by an fd, which is borrowed, or by a fabric handle.
struct PieceHandle {
  uint64_t nbytes = 0;
  int fd = -1;
  const FabricHandle* fabric = nullptr;
};

// Pieces mapped at neighbouring addresses, with access for one device. The mapping keeps their
// memory, so the fds and handles may go. In a child of fork the destructor does nothing. After a
// failure of map() or create() nothing stays mapped.
class PieceMapping {
 public:
  PieceMapping() noexcept = default;
  // UNSUPPORTED: `read_only` is set, and the device does not know such access.
  static Result<PieceMapping> map(std::span<const PieceHandle> pieces, int32_t device,
                                  bool read_only);
  // Makes new memory in one piece, from which handles of that kind can be exported. The size is
  // rounded up to what the device can allocate. UNSUPPORTED: this machine has no such handles.
  enum class Handles : uint8_t { kFd, kFabric };
  static Result<PieceMapping> create(uint64_t nbytes, int32_t device, Handles handles);
  // Takes the write access of this process away. UNSUPPORTED: the device does not know read-only
  // access, and the access is as before.
  Status make_read_only(int32_t device) { return give_access(device, true); }
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
  uint64_t nbytes_ = 0;  // the reserved addresses, in bytes
  uint64_t mapped_ = 0;  // the mapped bytes, from the base on
};

}  // namespace tenon::cuda

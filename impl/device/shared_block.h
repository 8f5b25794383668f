// A block of device memory that several processes map at once. The first process makes and fills
// it. Every other process maps it by an fd, read-only where the device knows such access. Weights
// that processes share by a name lie in such a block (modules/shared_weights/on_device.h).
//
// The kernel frees the memory when the last fd and the last mapping of it have gone, in whatever
// process. So the block outlives the process that made it, and a killed process leaves nothing.
#pragma once

#include <cstdint>
#include <memory>

#include "base/counted.h"
#include "base/status.h"
#include "cuda/memory.h"
#include "cuda/vmm.h"
#include "device/memory.h"
#include "os/fd.h"
#include "storage/storage.h"

namespace tenon::device {

// Any thread may call its functions. The caller of create() and open() holds no ranked lock. In a
// forked child create(), open() and export_fd() return UNSUPPORTED, and the end of a block does
// nothing to the memory. Unmapping may wait for the device (CudaEnding).
class CudaSharedBlock final : public CudaEnding {
 public:
  // Makes a block of at least `nbytes`, which this process can write. INVALID_ARGUMENT: there is no
  // such device. UNSUPPORTED: there is no driver, or the device or the driver has no memory that
  // can be lent by an fd. RESOURCE_EXHAUSTED: the device has too little memory.
  static Result<Ref<CudaSharedBlock>> create(int32_t device, uint64_t nbytes);
  // Maps the block behind an fd, which stays the caller's. `nbytes` is the block's size as its
  // maker knows it. INVALID_ARGUMENT: the fd is no memory of this device, or is smaller.
  static Result<Ref<CudaSharedBlock>> open(int fd, int32_t device, uint64_t nbytes);

  // An fd that keeps the memory, and from which other processes map it.
  Result<os::Fd> export_fd() const;
  // This process cannot write the block any more. Does nothing if the device knows no such access.
  Status make_read_only();
  // A read-only storage over a range, which keeps the block. The caller has checked the range.
  Ref<storage::Storage> view(uint64_t offset, uint64_t nbytes);
  // The object is released after the block is unmapped.
  void keep(Ref<const Counted> object) noexcept { kept_ = std::move(object); }

  cuda::DevicePointer base() const noexcept { return mapped_.base(); }
  uint64_t nbytes() const noexcept { return mapped_.nbytes(); }
  int32_t device() const noexcept { return device_; }

 private:
  CudaSharedBlock(cuda::PieceMapping mapped, int32_t device) noexcept
      : mapped_(std::move(mapped)), device_(device) {}
  ~CudaSharedBlock() override = default;
  void end() noexcept override;

  cuda::PieceMapping mapped_;
  const int32_t device_;
  Ref<const Counted> kept_;
};

}  // namespace tenon::device

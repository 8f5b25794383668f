// Memory of a pool (cudaMallocAsync): the pool is given to another process once, then each of its
// allocations by 64 bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/counted.h"
#include "base/status.h"
#include "cuda/memory.h"
#include "os/fd.h"

namespace tenon::cuda {

// CUmemPoolPtrExportData, byte for byte.
using PoolPointer = std::array<std::byte, 64>;

// The fd keeps the pool. UNSUPPORTED: the pool was made without fds, as a device's own is, or it
// came from another process.
Result<os::Fd> export_pool(const Allocation& allocation);
Result<PoolPointer> export_pool_pointer(const Allocation& allocation);

// Another process's pool, as long as anything in it is open.
class ImportedPool final : public Counted {
 public:
  static Result<Ref<ImportedPool>> import(int fd, int32_t device);
  // To be closed, and once for each opening, before the process that made it frees it.
  Result<DevicePointer> open(PoolPointer pointer);
  void close(DevicePointer pointer) noexcept;

 private:
  ImportedPool(void* pool, int32_t device) noexcept : pool_(pool), device_(device) {}
  void dispose() noexcept override;
  // A build without CUDA's header makes none.
  [[maybe_unused]] void* pool_;
  [[maybe_unused]] int32_t device_;
};

}  // namespace tenon::cuda

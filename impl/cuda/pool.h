// Shares memory of a pool (cudaMallocAsync). The pool is given to another process once, and then
// each of its allocations by 64 bytes.
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

// Returns an fd of the pool in which the allocation lies. The fd keeps the pool alive. UNSUPPORTED:
// the pool was made without fds, as a device's own pool is, or it came from another process.
Result<os::Fd> export_pool(const Allocation& allocation);
// Returns the 64 bytes by which a process that has imported the pool opens the allocation.
Result<PoolPointer> export_pool_pointer(const Allocation& allocation);

// Another process's pool. After the last release of this object the driver keeps the pool as long
// as anything in it is open. In a child of fork nothing is closed or freed.
class ImportedPool final : public Counted {
 public:
  // The fd is borrowed.
  static Result<Ref<ImportedPool>> import(int fd, int32_t device);
  // Opens an allocation. Call close() once for each opening, when all work that uses the memory has
  // passed, and before the owner frees the allocation.
  Result<DevicePointer> open(PoolPointer pointer);
  void close(DevicePointer pointer) noexcept;

 private:
  ImportedPool(void* pool, int32_t device) noexcept : pool_(pool), device_(device) {}
  void dispose() noexcept override;
  // A build without CUDA's header makes no ImportedPool.
  [[maybe_unused]] void* pool_;
  [[maybe_unused]] int32_t device_;
};

}  // namespace tenon::cuda

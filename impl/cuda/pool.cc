#include "cuda/pool.h"

#include <cstring>

#include "cuda/call.h"
#include "cuda/context.h"

namespace tenon::cuda {
namespace {

static_assert(sizeof(CUmemPoolPtrExportData) == sizeof(PoolPointer));

CUmemoryPool raw_pool(void* pool) noexcept { return static_cast<CUmemoryPool>(pool); }

}  // namespace

Result<os::Fd> export_pool(const Allocation& allocation) {
  TENON_ASSIGN(const Driver* const cu, driver());
  TENON_TRY(cu->has(Part::kPools));
  int fd = -1;
  const CUresult result = cu->cuMemPoolExportToShareableHandle(
      &fd, raw_pool(allocation.pool), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  // The driver cannot be asked whether a pool can be exported. It returns this error if the pool
  // cannot.
  if (result == CUDA_ERROR_INVALID_VALUE) {
    return unsupported_status(*cu, result,
                              format("the memory pool in which 0x%llx lies cannot be lent: it was "
                                     "made without a handle type, as a device's own pool is, "
                                     "or came from another process",
                                     static_cast<unsigned long long>(allocation.base)));
  }
  TENON_CUDA(*cu, result, "an fd of a memory pool");
  return os::Fd(fd);
}

Result<PoolPointer> export_pool_pointer(const Allocation& allocation) {
  TENON_ASSIGN(const Driver* const cu, driver());
  TENON_TRY(cu->has(Part::kPools));
  CUmemPoolPtrExportData data{};
  TENON_CUDA(*cu, cu->cuMemPoolExportPointer(&data, allocation.base),
             format("what leads to the pool's memory at 0x%llx",
                    static_cast<unsigned long long>(allocation.base)));
  PoolPointer bytes{};
  std::memcpy(bytes.data(), &data, sizeof data);
  return bytes;
}

Result<Ref<ImportedPool>> ImportedPool::import(int fd, int32_t device) {
  TENON_ASSIGN(const Driver* const cu, driver());
  TENON_TRY(cu->has(Part::kPools));
  InContext scope(*cu);
  TENON_TRY(scope.enter_primary(device));
  auto made = Ref<ImportedPool>::adopt(new ImportedPool(nullptr, device));
  CUmemoryPool pool = nullptr;
  auto* const number = reinterpret_cast<void*>(static_cast<intptr_t>(fd));
  TENON_CUDA(*cu,
             cu->cuMemPoolImportFromShareableHandle(&pool, number,
                                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
             format("opening fd %d as a memory pool", fd));
  made->pool_ = pool;
  return made;
}

Result<DevicePointer> ImportedPool::open(PoolPointer pointer) {
  TENON_ASSIGN(const Driver* const cu, driver());
  InContext scope(*cu);
  TENON_TRY(scope.enter_primary(device_));
  CUmemPoolPtrExportData data{};
  std::memcpy(&data, pointer.data(), sizeof data);
  CUdeviceptr opened = 0;
  TENON_CUDA(*cu, cu->cuMemPoolImportPointer(&opened, raw_pool(pool_), &data),
             "opening memory of another process's pool");
  return DevicePointer{opened};
}

void ImportedPool::close(DevicePointer pointer) noexcept {
  // The memory is freed in no stream's order. Every stream that used it has passed, and the owner
  // may free it when this returns.
  free_memory(pointer, device_);
}

void ImportedPool::dispose() noexcept {
  if (pool_ == nullptr) return;  // the driver refused the import
  // In a child of fork there is no driver, and the import belongs to the parent.
  if (Result<const Driver*> found = driver(); found.is_ok())
    (void)found.value()->cuMemPoolDestroy(raw_pool(pool_));
}

}  // namespace tenon::cuda

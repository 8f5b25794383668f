// Memory pools and allocation in stream order. Each allocation has its own memory. The fake does
// not play that a pool keeps freed memory.
#include "pool.h"

#include <unistd.h>

#include <cstring>
#include <unordered_map>

#include "memory.h"
#include "stream.h"

namespace fake_cuda {
namespace {

struct Pool {
  bool by_default = false;
  bool imported = false;
  uint32_t object = kNoObject;  // of this process: the pool, or its import
  uint32_t origin = kNoObject;  // the original pool, whoever made it
  uint32_t physical = 0;
  unsigned handle_types = 0;
  uint64_t max_size = 0;
  uint64_t release_threshold = 0;
  int reuse[4] = {0, 1, 1, 1};
  uint64_t used = 0;
  uint64_t used_high = 0;
  std::map<int, CUmemAccess_flags> access;

  CUmemoryPool handle() { return reinterpret_cast<CUmemoryPool>(this); }
};

// The caller holds Process::mutex for all of these tables.
std::unordered_map<const void*, Pool*>& pool_handles() {
  static auto* const once = new std::unordered_map<const void*, Pool*>;
  return *once;
}
std::map<int, Pool*>& defaults() {
  static auto* const once = new std::map<int, Pool*>;
  return *once;
}
std::map<int, Pool*>& currents() {
  static auto* const once = new std::map<int, Pool*>;
  return *once;
}

Pool* find_pool(CUmemoryPool handle) {
  const auto found = pool_handles().find(handle);
  return found == pool_handles().end() ? nullptr : found->second;
}

Pool* default_of(int ordinal) {
  Pool*& pool = defaults()[ordinal];
  if (pool == nullptr) {
    pool = new Pool;
    pool->by_default = true;
    pool->physical = device_of(ordinal).physical;
    pool_handles()[pool] = pool;
  }
  return pool;
}

CUresult allocate_from(Pool* pool, size_t size, CUdeviceptr* out) {
  // "Imported memory pools do not support creating new allocations."
  if (pool == nullptr || pool->imported || out == nullptr || size == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (pool->max_size != 0 && pool->used + size > pool->max_size) return CUDA_ERROR_OUT_OF_MEMORY;
  Context placed;
  placed.physical = pool->physical;
  Wanted wanted;
  wanted.size = size;
  wanted.source = Source::pool;
  wanted.kind = RangeKind::pooled;
  wanted.handle_types = pool->handle_types;
  wanted.pool_object = pool->object;
  FAKE_CUDA_TRY(allocate(&placed, wanted, pool->handle(), out));
  const std::lock_guard<std::mutex> guard(process().mutex);
  pool->used += size;
  if (pool->used > pool->used_high) pool->used_high = pool->used;
  return CUDA_SUCCESS;
}

CUresult allocate_async(bool per_thread, CUdeviceptr* out, size_t size, CUstream handle) {
  std::shared_ptr<Stream> stream;
  FAKE_CUDA_TRY(find_stream(handle, per_thread, &stream));
  if (!config().pools) return CUDA_ERROR_NOT_SUPPORTED;
  Pool* pool = nullptr;
  {
    // "The allocation comes from the memory pool current to the stream's device."
    const std::lock_guard<std::mutex> guard(process().mutex);
    const int ordinal = stream->context->ordinal;
    pool = currents()[ordinal];
    if (pool == nullptr) pool = default_of(ordinal);
  }
  return allocate_from(pool, size, out);
}

CUresult allocate_from_pool(bool per_thread, CUdeviceptr* out, size_t size,
                            CUmemoryPool pool_handle, CUstream handle) {
  std::shared_ptr<Stream> stream;
  FAKE_CUDA_TRY(find_stream(handle, per_thread, &stream));
  if (!config().pools) return CUDA_ERROR_NOT_SUPPORTED;
  Pool* pool = nullptr;
  {
    const std::lock_guard<std::mutex> guard(process().mutex);
    pool = find_pool(pool_handle);
  }
  return allocate_from(pool, size, out);
}

CUresult free_async(bool per_thread, CUdeviceptr pointer, CUstream handle) {
  std::shared_ptr<Stream> stream;
  FAKE_CUDA_TRY(find_stream(handle, per_thread, &stream));
  Range range;
  if (!take_range(pointer, {RangeKind::pooled, RangeKind::pool_pointer, RangeKind::allocated},
                  &range)) {
    record_fault(FAKE_CUDA_FREED_TWICE, "cuMemFreeAsync of what is not allocated");
    return CUDA_ERROR_INVALID_VALUE;
  }
  // "The allocation must not be accessed after stream execution reaches the free."
  stream->submit([range] { drop_pool_range(range); });
  return CUDA_SUCCESS;
}

// Checks a handle type: fabric handles need the machine's permission, and apart from one fd no
// other type works for a pool.
CUresult check_type(unsigned type) {
  if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_SUCCESS;
  if (type == CU_MEM_HANDLE_TYPE_FABRIC && config().driver >= 12030)
    return config().fabric ? CUDA_SUCCESS : CUDA_ERROR_NOT_PERMITTED;
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

unsigned types_of_pool(CUmemoryPool handle) {
  const Pool* const pool = find_pool(handle);
  return pool == nullptr ? 0 : pool->handle_types;
}

void drop_pool_range(const Range& range) {
  {
    const std::lock_guard<std::mutex> guard(process().mutex);
    if (Pool* pool = find_pool(range.pool); pool != nullptr && range.kind == RangeKind::pooled)
      pool->used -= range.size;
  }
  // cuMemPoolImportPointer: "The imported memory must be freed from all importing processes before
  // being freed in the exporting process."
  drop_range(range, range.kind == RangeKind::allocated ? FAKE_CUDA_FREED_WHILE_OPEN
                                                       : FAKE_CUDA_POOL_FREED_BEFORE_IMPORTERS);
}

}  // namespace fake_cuda

using namespace fake_cuda;

FAKE_CUDA_BOTH(cuMemAllocAsync, _ptsz, (CUdeviceptr * out, size_t size, CUstream stream),
               allocate_async, out, size, stream)
FAKE_CUDA_BOTH(cuMemAllocFromPoolAsync, _ptsz,
               (CUdeviceptr * out, size_t size, CUmemoryPool pool, CUstream stream),
               allocate_from_pool, out, size, pool, stream)
FAKE_CUDA_BOTH(cuMemFreeAsync, _ptsz, (CUdeviceptr pointer, CUstream stream), free_async, pointer,
               stream)

FAKE_CUDA_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice device) {
  FAKE_CUDA_ENTER(cuDeviceGetDefaultMemPool)
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (!config().pools) return CUDA_ERROR_NOT_SUPPORTED;
  const std::lock_guard<std::mutex> guard(process().mutex);
  *out = default_of(device)->handle();
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool* out, CUdevice device) {
  FAKE_CUDA_ENTER(cuDeviceGetMemPool)
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (!config().pools) return CUDA_ERROR_NOT_SUPPORTED;
  const std::lock_guard<std::mutex> guard(process().mutex);
  Pool* pool = currents()[device];
  *out = (pool == nullptr ? default_of(device) : pool)->handle();
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool handle) {
  FAKE_CUDA_ENTER(cuDeviceSetMemPool)
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard<std::mutex> guard(process().mutex);
  Pool* pool = find_pool(handle);
  // "imported memory pools may not be used in cuDeviceSetMemPool"
  if (pool == nullptr || pool->imported || pool->physical != device_of(device).physical)
    return CUDA_ERROR_INVALID_VALUE;
  currents()[device] = pool;
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* props) {
  FAKE_CUDA_ENTER(cuMemPoolCreate)
  if (out == nullptr || props == nullptr || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  if (!config().pools) return CUDA_ERROR_NOT_SUPPORTED;
  if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE || !is_device(props->location.id))
    return CUDA_ERROR_INVALID_VALUE;
  const auto types = static_cast<unsigned>(props->handleTypes);
  for (unsigned bit = 1; bit != 0 && bit <= types; bit <<= 1) {
    if ((types & bit) == 0) continue;
    FAKE_CUDA_TRY(check_type(bit));
  }
  auto* pool = new Pool;
  pool->physical = device_of(props->location.id).physical;
  pool->handle_types = types;
  pool->max_size = config().driver >= 12020 ? props->maxSize : 0;
  const std::lock_guard<std::mutex> guard(process().mutex);
  World::Lock lock(world());
  pool->object = world().create(FAKE_CUDA_POOL, pool->physical, 0);
  pool->origin = pool->object;
  world().at(pool->object).handle_types = types;
  world().at(pool->object).address = reinterpret_cast<uint64_t>(pool);
  pool_handles()[pool] = pool;
  *out = pool->handle();
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  FAKE_CUDA_ENTER(cuMemPoolDestroy)
  const std::lock_guard<std::mutex> guard(process().mutex);
  Pool* pool = find_pool(handle);
  // "A device's default memory pool cannot be destroyed."
  if (pool == nullptr || pool->by_default) return CUDA_ERROR_INVALID_VALUE;
  for (auto& [ordinal, current] : currents()) {
    if (current == pool) current = nullptr;
  }
  pool_handles().erase(pool);
  process().ended.push_back(pool);
  // "the resources associated with the pool will be released automatically once there are no more
  // outstanding allocations"
  World::Lock lock(world());
  world().release(pool->object);
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t) {
  FAKE_CUDA_ENTER(cuMemPoolTrimTo)
  const std::lock_guard<std::mutex> guard(process().mutex);
  return find_pool(handle) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

FAKE_CUDA_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                                                void* value) {
  FAKE_CUDA_ENTER(cuMemPoolSetAttribute)
  const std::lock_guard<std::mutex> guard(process().mutex);
  Pool* pool = find_pool(handle);
  if (pool == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      std::memcpy(&pool->reuse[attribute], value, sizeof(int));
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      std::memcpy(&pool->release_threshold, value, sizeof(uint64_t));
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: {
      // "It is illegal to set this attribute to a non-zero value."
      uint64_t zero = 0;
      std::memcpy(&zero, value, sizeof zero);
      if (zero != 0) return CUDA_ERROR_INVALID_VALUE;
      pool->used_high = pool->used;
      return CUDA_SUCCESS;
    }
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

FAKE_CUDA_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                                                void* value) {
  FAKE_CUDA_ENTER(cuMemPoolGetAttribute)
  const std::lock_guard<std::mutex> guard(process().mutex);
  Pool* pool = find_pool(handle);
  if (pool == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto give = [value](const auto& what) {
    std::memcpy(value, &what, sizeof what);
    return CUDA_SUCCESS;
  };
  switch (static_cast<int>(attribute)) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: return give(pool->reuse[attribute]);
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: return give(pool->release_threshold);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: return give(pool->used);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: return give(pool->used_high);
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

FAKE_CUDA_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc* map,
                                             size_t count) {
  FAKE_CUDA_ENTER(cuMemPoolSetAccess)
  const std::lock_guard<std::mutex> guard(process().mutex);
  Pool* pool = find_pool(handle);
  if (pool == nullptr || map == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || !is_device(map[i].location.id))
      return CUDA_ERROR_INVALID_VALUE;
    const bool own = device_of(map[i].location.id).physical == pool->physical;
    // The pool's own device always has access.
    if (own && map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return CUDA_ERROR_INVALID_VALUE;
    if (map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ) return CUDA_ERROR_NOT_SUPPORTED;
    pool->access[map[i].location.id] = map[i].flags;
  }
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool handle,
                                             CUmemLocation* location) {
  FAKE_CUDA_ENTER(cuMemPoolGetAccess)
  const std::lock_guard<std::mutex> guard(process().mutex);
  Pool* pool = find_pool(handle);
  if (pool == nullptr || flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || !is_device(location->id))
    return CUDA_ERROR_INVALID_VALUE;
  // "By default, the pool's memory will be accessible from the device it is allocated on."
  const bool own = device_of(location->id).physical == pool->physical;
  const auto found = pool->access.find(location->id);
  if (found != pool->access.end()) {
    *flags = found->second;
  } else {
    *flags = own ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  }
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuMemPoolExportToShareableHandle(void* out, CUmemoryPool handle,
                                                           CUmemAllocationHandleType type,
                                                           unsigned long long flags) {
  FAKE_CUDA_ENTER(cuMemPoolExportToShareableHandle)
  const std::lock_guard<std::mutex> guard(process().mutex);
  Pool* pool = find_pool(handle);
  if (pool == nullptr || out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  // "To create an IPC capable mempool, create a mempool with a CUmemAllocationHandleType other than
  // CU_MEM_HANDLE_TYPE_NONE." And "an imported pool cannot be re-exported".
  if (pool->imported || check_type(type) != CUDA_SUCCESS || (pool->handle_types & type) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  World::Lock lock(world());
  if (type == CU_MEM_HANDLE_TYPE_FABRIC) {
    world().name(pool->object, out);
    return CUDA_SUCCESS;
  }
  const int fd = world().export_fd(pool->object);
  if (fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  std::memcpy(out, &fd, sizeof fd);
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* out, void* os_handle,
                                                             CUmemAllocationHandleType type,
                                                             unsigned long long flags) {
  FAKE_CUDA_ENTER(cuMemPoolImportFromShareableHandle)
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!config().pools) return CUDA_ERROR_NOT_SUPPORTED;
  FAKE_CUDA_TRY(check_type(type));
  const bool by_fd = type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  const std::lock_guard<std::mutex> guard(process().mutex);
  World::Lock lock(world());
  world().reclaim();
  const uint32_t origin =
      by_fd ? world().find_fd(static_cast<int>(reinterpret_cast<intptr_t>(os_handle)))
            : world().find(os_handle);
  if (origin == kNoObject || world().at(origin).kind != FAKE_CUDA_POOL)
    return CUDA_ERROR_INVALID_VALUE;
  if (ordinal_of(world().at(origin).device) < 0) return CUDA_ERROR_NOT_SUPPORTED;
  auto* pool = new Pool;
  pool->imported = true;
  pool->origin = origin;
  pool->physical = world().at(origin).device;
  pool->object = world().create(FAKE_CUDA_POOL_IMPORT, pool->physical, 0, origin);
  world().at(pool->object).address = reinterpret_cast<uint64_t>(pool);
  pool_handles()[pool] = pool;
  *out = pool->handle();
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData* out, CUdeviceptr pointer) {
  FAKE_CUDA_ENTER(cuMemPoolExportPointer)
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard<std::mutex> guard(process().mutex);
  const Range* range = process().find(pointer);
  if (range == nullptr || range->kind != RangeKind::pooled || range->base != pointer)
    return CUDA_ERROR_INVALID_VALUE;
  World::Lock lock(world());
  // "sharing a specific allocation from an already shared memory pool"
  if (world().at(range->object).handle_types == 0) return CUDA_ERROR_INVALID_VALUE;
  world().name(range->object, out);
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuMemPoolImportPointer(CUdeviceptr* out, CUmemoryPool handle,
                                                 CUmemPoolPtrExportData* data) {
  FAKE_CUDA_ENTER(cuMemPoolImportPointer)
  if (out == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard<std::mutex> guard(process().mutex);
  const Pool* pool = find_pool(handle);
  if (pool == nullptr || !pool->imported) return CUDA_ERROR_INVALID_VALUE;
  Range range;
  std::shared_ptr<Backing> backing;
  size_t size = 0;
  {
    World::Lock lock(world());
    const uint32_t allocation = world().find(data);
    // "pool from which to import"
    if (allocation == kNoObject || world().at(allocation).kind != FAKE_CUDA_ALLOCATION)
      return CUDA_ERROR_INVALID_VALUE;
    if (world().at(allocation).target != pool->origin || world().at(allocation).freed != 0)
      return CUDA_ERROR_INVALID_VALUE;
    size = world().at(allocation).size;
    range.kind = RangeKind::pool_pointer;
    range.physical = pool->physical;
    range.pool = handle;
    range.object = world().create(FAKE_CUDA_POOL_POINTER, pool->physical, size, allocation);
    backing = map_memory(allocation, true);
  }
  *out = backing == nullptr ? 0 : place_range(range, backing, size);
  if (*out != 0) return CUDA_SUCCESS;
  World::Lock lock(world());
  world().release(range.object);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

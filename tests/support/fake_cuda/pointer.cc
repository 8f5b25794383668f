// What the driver knows about an address. Tenon asks this to learn how memory can travel.

#include <cstring>

#include "memory.h"
#include "pool.h"
#include "vmm.h"

namespace fake_cuda {
namespace {

bool host_side(RangeKind kind) {
  return kind == RangeKind::host_allocated || kind == RangeKind::host_registered;
}

template <typename Value>
CUresult give(void* data, Value value) {
  *static_cast<Value*>(data) = value;
  return CUDA_SUCCESS;
}

CUresult of_range(void* data, CUpointer_attribute attribute, CUdeviceptr pointer,
                  const Range& range) {
  const bool host = host_side(range.kind);
  switch (attribute) {
    // Memory of a pool has no context.
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return give(data, range.context == nullptr ? nullptr : range.context->handle());
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return give(data, static_cast<unsigned>(host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return give(data, pointer);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      // "If there exists no host pointer value through which the host program may directly access
      // ptr then CUDA_ERROR_INVALID_VALUE"
      return host || range.kind == RangeKind::managed ? give(data, pointer)
                                                      : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return give(data, static_cast<unsigned long long>(range.buffer_id));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return give(data, static_cast<unsigned>(range.kind == RangeKind::managed));
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return give(data, ordinal_of(range.physical));
    // "if this pointer maps to an allocation that is suitable for cudaIpcGetMemHandle"
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return give(data, static_cast<unsigned>(range.kind == RangeKind::allocated && config().ipc &&
                                              !config().machine[range.physical].mig));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: return give(data, range.base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return give(data, range.size);
    case CU_POINTER_ATTRIBUTE_MAPPED: return give(data, 1U);
    // "a bitmask of the allowed handle types for an allocation that may be passed to
    // cuMemExportToShareableHandle": memory of a pool reports the types of its pool, although that
    // call refuses it.
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return give(data, uint64_t{types_of_pool(range.pool)});
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return give(data, static_cast<unsigned>(CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE));
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: return give(data, range.pool);
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult of_mapping(void* data, CUpointer_attribute attribute, CUdeviceptr pointer,
                    const MappedAt& at) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: return give(data, at.reserved);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return give(data, at.reserved_size);
    case CU_POINTER_ATTRIBUTE_MAPPED: return give(data, static_cast<unsigned>(at.mapped));
    default: break;
  }
  if (!at.mapped) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: return give(data, static_cast<CUcontext>(nullptr));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return give(data, static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: return give(data, pointer);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return give(data, static_cast<unsigned long long>(at.buffer_id));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: return give(data, 0U);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return give(data, ordinal_of(at.physical));
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: return give(data, 0U);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return give(data, static_cast<uint64_t>(at.handle_types));
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: return give(data, static_cast<CUmemoryPool>(nullptr));
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

// Returns CUDA_ERROR_NOT_FOUND if the driver knows nothing at that address.
CUresult pointer_attribute_of(void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
  if (attribute == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE && config().driver < 11030)
    return CUDA_ERROR_INVALID_VALUE;
  if (const Range* range = process().find(pointer); range != nullptr)
    return of_range(data, attribute, pointer, *range);
  MappedAt at;
  if (find_mapping(pointer, &at)) return of_mapping(data, attribute, pointer, at);
  return CUDA_ERROR_NOT_FOUND;
}

size_t size_of(CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: return 4;
    default: return 8;
  }
}

}  // namespace
}  // namespace fake_cuda

using namespace fake_cuda;

FAKE_CUDA_EXPORT CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute,
                                                CUdeviceptr pointer) {
  FAKE_CUDA_ENTER(cuPointerGetAttribute)
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard<std::mutex> guard(process().mutex);
  const CUresult result = pointer_attribute_of(data, attribute, pointer);
  return result == CUDA_ERROR_NOT_FOUND ? CUDA_ERROR_INVALID_VALUE : result;
}

FAKE_CUDA_EXPORT CUresult cuPointerGetAttributes(unsigned int count,
                                                 CUpointer_attribute* attributes, void** data,
                                                 CUdeviceptr pointer) {
  FAKE_CUDA_ENTER(cuPointerGetAttributes)
  if (count == 0 || attributes == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard<std::mutex> guard(process().mutex);
  for (unsigned i = 0; i < count; ++i) {
    // "this function will not return an error when the ptr encountered is not a valid CUDA pointer.
    // Instead, the attributes are assigned default NULL values and CUDA_SUCCESS is returned." The
    // NULL value of a device ordinal is another one.
    if (pointer_attribute_of(data[i], attributes[i], pointer) == CUDA_SUCCESS) continue;
    std::memset(data[i], 0, size_of(attributes[i]));
    if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
      give(data[i], static_cast<int>(CU_DEVICE_INVALID));
  }
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size,
                                                  CUdeviceptr pointer) {
  FAKE_CUDA_ENTER(cuMemGetAddressRange_v2)
  Context* context = nullptr;
  FAKE_CUDA_TRY(need_context(&context));
  const std::lock_guard<std::mutex> guard(process().mutex);
  MappedAt at;
  if (const Range* range = process().find(pointer); range != nullptr) {
    at.base = range->base;
    at.size = range->size;
  } else if (!find_mapping(pointer, &at) || !at.mapped) {
    return CUDA_ERROR_NOT_FOUND;
  }
  // "Both parameters pbase and psize are optional."
  if (base != nullptr) *base = at.base;
  if (size != nullptr) *size = at.size;
  return CUDA_SUCCESS;
}

// Handles of VMM memory, and their two ways to travel: as an fd, or as the 64 bytes of a fabric
// handle.
#include <cstring>

#include "vmm.h"

namespace fake_cuda {

std::map<CUmemGenericAllocationHandle, Memory>& memories() {
  static auto* const once = new std::map<CUmemGenericAllocationHandle, Memory>;
  return *once;
}
CUresult check_handle_types(unsigned types) {
  constexpr unsigned kFd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  constexpr unsigned kFabric = CU_MEM_HANDLE_TYPE_FABRIC;
  const unsigned known = config().driver >= 12030 ? kFd | kFabric : kFd;
  if ((types & ~known) != 0) return CUDA_ERROR_INVALID_VALUE;
  // "have at least one IMEX channel file accessible by the user launching the application"
  if ((types & kFabric) != 0 && !config().fabric) return CUDA_ERROR_NOT_PERMITTED;
  return CUDA_SUCCESS;
}

CUmemGenericAllocationHandle new_handle(uint32_t allocation) {
  Object& object = world().at(allocation);
  Memory memory;
  memory.allocation = allocation;
  memory.size = object.size;
  memory.physical = object.device;
  memory.references = 1;
  memory.object = world().create(FAKE_CUDA_VMM_HANDLE, object.device, object.size, allocation);
  const uint64_t value = world().at(memory.object).id;
  world().at(memory.object).address = value;
  memories()[value] = memory;
  return value;
}

}  // namespace fake_cuda

using namespace fake_cuda;

FAKE_CUDA_EXPORT CUresult cuMemExportToShareableHandle(void* out,
                                                       CUmemGenericAllocationHandle handle,
                                                       CUmemAllocationHandleType type,
                                                       unsigned long long flags) {
  FAKE_CUDA_ENTER(cuMemExportToShareableHandle)
  const std::lock_guard<std::mutex> guard(process().mutex);
  const auto found = memories().find(handle);
  if (out == nullptr || flags != 0 || found == memories().end() || found->second.references == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && type != CU_MEM_HANDLE_TYPE_FABRIC)
    return CUDA_ERROR_INVALID_VALUE;
  World::Lock lock(world());
  const uint32_t allocation = found->second.allocation;
  // CUmemAllocationProp::requestedHandleTypes: only types that were requested at creation are
  // exported.
  if ((world().at(allocation).handle_types & static_cast<unsigned>(type)) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (type == CU_MEM_HANDLE_TYPE_FABRIC) {
    world().name(allocation, out);
    return CUDA_SUCCESS;
  }
  const int fd = world().export_fd(allocation);
  if (fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  std::memcpy(out, &fd, sizeof fd);
  return CUDA_SUCCESS;
}

FAKE_CUDA_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out,
                                                         void* os_handle,
                                                         CUmemAllocationHandleType type) {
  FAKE_CUDA_ENTER(cuMemImportFromShareableHandle)
  if (!config().vmm) return CUDA_ERROR_NOT_SUPPORTED;
  const bool by_fd = type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  if (out == nullptr || (!by_fd && (type != CU_MEM_HANDLE_TYPE_FABRIC || os_handle == nullptr)))
    return CUDA_ERROR_INVALID_VALUE;
  // "the importer process has not been granted access to the same IMEX channel as the exporter
  // process, this API will error as CUDA_ERROR_NOT_PERMITTED"
  FAKE_CUDA_TRY(check_handle_types(static_cast<unsigned>(type)));
  const std::lock_guard<std::mutex> guard(process().mutex);
  World::Lock lock(world());
  const uint32_t allocation =
      by_fd ? world().find_fd(static_cast<int>(reinterpret_cast<intptr_t>(os_handle)))
            : world().find(os_handle);
  if (allocation == kNoObject || world().at(allocation).kind != FAKE_CUDA_ALLOCATION)
    return CUDA_ERROR_INVALID_VALUE;
  if (world().at(allocation).source != static_cast<uint32_t>(Source::vmm))
    return CUDA_ERROR_INVALID_VALUE;
  // "If the current process cannot support the memory described by this shareable handle, this API
  // will error as CUDA_ERROR_NOT_SUPPORTED."
  if (ordinal_of(world().at(allocation).device) < 0) return CUDA_ERROR_NOT_SUPPORTED;
  *out = new_handle(allocation);
  return CUDA_SUCCESS;
}

#include "cuda/ipc.h"

#include <cstring>

#include "cuda/call.h"
#include "cuda/context.h"

namespace tenon::cuda {

static_assert(sizeof(CUipcMemHandle) == sizeof(IpcHandle) && sizeof(CUipcEventHandle) == sizeof(IpcHandle));

Result<IpcHandle> ipc_handle(const Allocation& allocation) {
  TENON_ASSIGN(const Driver* const cu, driver());
  TENON_TRY(cu->has(Part::kIpc));
  if (!allocation.has_ipc_handle) {
    return Status(Code::kUnsupported,
                  format("the device memory at 0x%llx has no CUDA IPC handle: it is %s", static_cast<unsigned long long>(allocation.base),
                         allocation.is_managed           ? "managed memory"
                         : allocation.pool != nullptr    ? "memory of a pool (cudaMallocAsync)"
                         : allocation.context == nullptr ? "mapped piece by piece (cuMemMap, expandable segments)"
                                                         : "not cudaMalloc's, or CUDA IPC is off on this device (MIG)"));
  }
  InContext scope(*cu);
  auto* context = static_cast<CUcontext>(allocation.context);
  if (context == nullptr) {
    TENON_ASSIGN(context, primary_context(*cu, allocation.device));
  }
  TENON_TRY(scope.enter(context));
  CUipcMemHandle handle{};
  TENON_CUDA(*cu, cu->cuIpcGetMemHandle(&handle, allocation.base), "the CUDA IPC handle of device memory");
  IpcHandle bytes{};
  std::memcpy(bytes.data(), &handle, sizeof handle);
  return bytes;
}

Result<DevicePointer> open_ipc(const IpcHandle& handle, int32_t device) {
  TENON_ASSIGN(const Driver* const cu, driver());
  TENON_TRY(cu->has(Part::kIpc));
  TENON_ASSIGN(CUcontext context, primary_context(*cu, device));
  InContext scope(*cu);
  TENON_TRY(scope.enter(context));
  CUipcMemHandle bytes{};
  std::memcpy(&bytes, handle.data(), sizeof bytes);
  CUdeviceptr pointer = 0;
  TENON_CUDA(*cu, cu->cuIpcOpenMemHandle(&pointer, bytes, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
             format("opening a CUDA IPC handle on device %d", device));
  return DevicePointer{pointer};
}

void close_ipc(DevicePointer pointer, int32_t device) noexcept {
  Result<const Driver*> found = driver();
  if (!found.is_ok()) return;  // a child of fork: the mapping is its parent's
  const Driver& cu = *found.value();
  Result<CUcontext> context = primary_context(cu, device);
  InContext scope(cu);
  if (context.is_ok() && scope.enter(context.value()).is_ok()) (void)cu.cuIpcCloseMemHandle(pointer);
}

}  // namespace tenon::cuda

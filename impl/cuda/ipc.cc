#include "cuda/ipc.h"

#include <cstring>

#include "cuda/call.h"
#include "cuda/context.h"

namespace tenon::cuda {

static_assert(sizeof(CUipcMemHandle) == sizeof(IpcHandle) &&
              sizeof(CUipcEventHandle) == sizeof(IpcHandle));

Result<IpcHandle> ipc_handle(const Allocation& allocation) {
  TENON_ASSIGN(const Driver* const cu, driver());
  TENON_TRY(cu->has(Part::kIpc));
  InContext scope(*cu);
  TENON_TRY(scope.enter(static_cast<CUcontext>(allocation.context)));
  CUipcMemHandle handle{};
  TENON_CUDA(*cu, cu->cuIpcGetMemHandle(&handle, allocation.base),
             "the CUDA IPC handle of device memory");
  IpcHandle bytes{};
  std::memcpy(bytes.data(), &handle, sizeof handle);
  return bytes;
}

Result<DevicePointer> open_ipc(const IpcHandle& handle, int32_t device) {
  TENON_ASSIGN(const Driver* const cu, driver());
  TENON_TRY(cu->has(Part::kIpc));
  InContext scope(*cu);
  TENON_TRY(scope.enter_primary(device));
  CUipcMemHandle bytes{};
  std::memcpy(&bytes, handle.data(), sizeof bytes);
  CUdeviceptr pointer = 0;
  TENON_CUDA(*cu, cu->cuIpcOpenMemHandle(&pointer, bytes, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
             format("opening a CUDA IPC handle on device %d", device));
  return DevicePointer{pointer};
}

void close_ipc(DevicePointer pointer, int32_t device) noexcept {
  end_in_primary(device, [&](const Driver& cu) { (void)cu.cuIpcCloseMemHandle(pointer); });
}

}  // namespace tenon::cuda

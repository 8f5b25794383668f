// Memory between processes by a handle of 64 bytes: the driver's older way, and PyTorch's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "cuda/memory.h"

namespace tenon::cuda {

// CUipcMemHandle or CUipcEventHandle, byte for byte.
using IpcHandle = std::array<std::byte, 64>;

// Of the whole allocation, which has one: Allocation::has_ipc_handle.
Result<IpcHandle> ipc_handle(const Allocation& allocation);

// In the device's primary context. Another opening of the same handle gives the same pointer and
// has to be closed too. The process that made the memory is refused (INVALID_ARGUMENT): it has the
// memory.
Result<DevicePointer> open_ipc(const IpcHandle& handle, int32_t device);
void close_ipc(DevicePointer pointer, int32_t device) noexcept;

}  // namespace tenon::cuda

// Shares device memory by a handle of 64 bytes. This is the driver's older way, and the one that
// PyTorch uses.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "cuda/memory.h"

namespace tenon::cuda {

// CUipcMemHandle or CUipcEventHandle, byte for byte.
using IpcHandle = std::array<std::byte, 64>;

// The handle of the whole allocation. Allocation::has_ipc_handle must be true.
Result<IpcHandle> ipc_handle(const Allocation& allocation);

// Opens a handle in the device's primary context. A second opening of the same handle gives the
// same pointer and must be closed too. INVALID_ARGUMENT in the process that made the memory, which
// has it already. In a child of fork close_ipc() does nothing.
Result<DevicePointer> open_ipc(const IpcHandle& handle, int32_t device);
void close_ipc(DevicePointer pointer, int32_t device) noexcept;

}  // namespace tenon::cuda

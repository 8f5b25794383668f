// Allocates device memory, and asks the driver about memory at an address.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace tenon::cuda {

using DevicePointer = uint64_t;

// The memory that one call of an allocating function gave, and the ways in which the driver can
// lend it to another process.
struct Allocation {
  DevicePointer base = 0;
  uint64_t nbytes = 0;
  int32_t device = 0;  // the device's ordinal
  uint64_t id = 0;     // a later allocation at the same address has another id
  // The context of the memory. Null for memory of a pool and for memory that is mapped piece by
  // piece.
  void* context = nullptr;
  bool has_ipc_handle = false;  // cuIpcGetMemHandle
  bool is_managed = false;      // cuMemAllocManaged: the driver moves it between host and device
  void* pool = nullptr;  // the pool (a CUmemoryPool) in which the memory lies, null if in none
  // For memory that is mapped piece by piece: whether cuMemCreate was asked for an fd handle, and
  // for a fabric handle.
  bool has_fd_handle = false;
  bool has_fabric_handle = false;
};

// INVALID_ARGUMENT: there is no device memory at that address, or it is not this process's.
Result<Allocation> find_allocation(DevicePointer pointer);

// Allocates with cuMemAlloc in the device's primary context, so the memory can be lent by an IPC
// handle. RESOURCE_EXHAUSTED with limit "device memory". free_memory() may wait for the device, and
// in a child of fork it does nothing.
Result<DevicePointer> allocate(int32_t device, uint64_t nbytes);
void free_memory(DevicePointer pointer, int32_t device) noexcept;

struct DeviceRoom {
  uint64_t free_nbytes = 0;
  uint64_t total_nbytes = 0;
};
// How much memory the device has, and how much of it is free now.
Result<DeviceRoom> device_room(int32_t device);

}  // namespace tenon::cuda

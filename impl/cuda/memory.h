// What the driver knows of device memory.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace tenon::cuda {

using DevicePointer = uint64_t;

// What one call of an allocating function gave, and the ways in which another process can be lent
// it: the driver says which.
struct Allocation {
  DevicePointer base = 0;
  uint64_t nbytes = 0;
  int32_t device = 0;  // the ordinal
  uint64_t id = 0;     // another allocation at the same address has another
  // null: it is of none (memory of a pool, memory that is mapped piece by piece).
  void* context = nullptr;
  bool has_ipc_handle = false;  // cuIpcGetMemHandle
  bool is_managed = false;
  void* pool = nullptr;  // in which it lies; null: in none
  // Of memory that is mapped piece by piece: cuMemCreate was asked for it.
  bool has_fd_handle = false;
  bool has_fabric_handle = false;  // likewise
};

// INVALID_ARGUMENT: there is no device memory at that address, or none of this process's.
Result<Allocation> find_allocation(DevicePointer pointer);

// cuMemAlloc's, in the device's primary context, and so memory that can be lent.
Result<DevicePointer> allocate(int32_t device, uint64_t nbytes);
void free_memory(DevicePointer pointer, int32_t device) noexcept;

struct DeviceRoom {
  uint64_t free_nbytes = 0;
  uint64_t total_nbytes = 0;
};
Result<DeviceRoom> device_room(int32_t device);

}  // namespace tenon::cuda

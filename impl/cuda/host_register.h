// Registers host memory of this process with the driver, so that devices reach it and copies of it
// run beside the host. device/pinned.cc is the caller.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "cuda/memory.h"

namespace tenon::cuda {

// Registers memory for every context of this process, from the device's primary context. All of its
// pages must exist (memory::reserve_whole()). From then on they cannot be swapped. `read_only`: the
// host may not write to the memory, so the device must not either. UNSUPPORTED: the device cannot
// be kept from writing. INVALID_ARGUMENT: a part of the memory is registered already.
Status register_host(std::byte* base, uint64_t nbytes, int32_t device, bool read_only);
// Ends the registration. `device` is the device with which the memory was registered. Call it
// before the memory is unmapped. It waits for work that uses the memory if the driver does. In a
// child of fork it does nothing.
void unregister_host(std::byte* base, int32_t device) noexcept;

// The address at which a device finds memory that register_host() has registered. The device need
// not be the one that register_host() named. UNSUPPORTED as in register_host().
Result<DevicePointer> device_pointer(std::byte* base, int32_t device, bool read_only);

}  // namespace tenon::cuda

// Memory of the host, the process's own, registered with the driver: a device reaches it, and
// copies of it run beside the host.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "cuda/memory.h"

namespace tenon::cuda {

// For every context of this process, from the device's primary one. Pages cannot be swapped from
// then on, and all of them have to be there. `read_only`: the host may not write to them, and then
// the device must not. UNSUPPORTED: it cannot be kept from it. INVALID_ARGUMENT: some of it is
// registered already.
Status register_host(std::byte* base, uint64_t nbytes, int32_t device, bool read_only);
// By the device with which it was registered, and before it is unmapped. Waits for work that uses
// it, if the driver does.
void unregister_host(std::byte* base, int32_t device) noexcept;

// Where that device, which may be another one, finds what is registered.
Result<DevicePointer> device_pointer(std::byte* base, int32_t device, bool read_only);

}  // namespace tenon::cuda

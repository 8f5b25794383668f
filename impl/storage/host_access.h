// Checks that the host can read and write through an address.
#pragma once

#include "base/status.h"
#include "storage/device_memory.h"

namespace tenon::storage {

// UNSUPPORTED for every device but the CPU. Call this before using an address of `device` on the
// host.
Status check_host(Device device);

}  // namespace tenon::storage

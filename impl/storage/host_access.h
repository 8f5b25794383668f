// Whether the host can follow an address.
#pragma once

#include "base/status.h"
#include "storage/device_memory.h"

namespace tenon::storage {

// For whoever would follow one of that device: UNSUPPORTED but for the CPU's.
Status check_host(Device device);

}  // namespace tenon::storage

// Finds the GPUs that this process sees, by number or by UUID. A child of fork to which the driver
// is closed (available.h) gets UNSUPPORTED before any lock is taken. So callers with locks that may
// stay locked in such a child ask here first.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace tenon::cuda {

// A GPU has the same UUID in every process, whatever CUDA_VISIBLE_DEVICES says there. An instance
// of a GPU in MIG mode has a UUID of its own.
using Uuid = std::array<std::byte, 16>;

struct Device {
  int32_t ordinal = 0;  // in this process's numbering
  Uuid uuid{};
};

// INVALID_ARGUMENT: there is no such device.
Result<Device> find_device(int32_t ordinal);
// NOT_FOUND: this process does not see such a device.
Result<Device> find_device(const Uuid& uuid);

}  // namespace tenon::cuda

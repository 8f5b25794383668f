// The GPUs that this process sees.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace tenon::cuda {

// The same in every process, whatever CUDA_VISIBLE_DEVICES says there; an instance of a GPU in MIG
// mode has its own.
using Uuid = std::array<std::byte, 16>;

struct Device {
  int32_t ordinal = 0;  // in this process's numbering
  Uuid uuid{};
};

// INVALID_ARGUMENT: there is no such device.
Result<Device> find_device(int32_t ordinal);
// NOT_FOUND: this process does not see it.
Result<Device> find_device(const Uuid& uuid);

}  // namespace tenon::cuda

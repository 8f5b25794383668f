// Pins shared host memory: registers its segment with CUDA's driver, so that a device reaches it.
// The C API calls this.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "storage/storage.h"

namespace tenon::device {

// Gives the address at which the device finds the storage's first byte; null for an empty storage.
// The whole segment is registered, once in this process and until the segment goes, because two
// blocks can lie in one page, and the driver registers no page twice.
Result<std::byte*> pin_cuda(const storage::Storage& storage, int32_t device);
bool is_pinned_cuda(const storage::Storage& storage) noexcept;

}  // namespace tenon::device

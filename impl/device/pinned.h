// Pins shared host memory: registers its segment with CUDA's driver, so that a device reaches it.
// The C API calls this. The end of a pinned segment waits for the device's work in it. In a forked
// child nothing counts as pinned, and the end of a segment leaves the driver alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "storage/storage.h"

namespace tenon::device {

// Gives the address at which the device finds the storage's first byte; null for an empty storage.
// The whole segment is registered, once in this process and until the segment goes, because two
// blocks can lie in one page, and the driver registers no page twice. UNSUPPORTED: no driver, a
// forked child, or private memory. INVALID_ARGUMENT: device memory. PERMISSION: a FROZEN storage
// that is not frozen yet. Also the errors of making the segment's pages and of the driver.
Result<std::byte*> pin_cuda(const storage::Storage& storage, int32_t device);
bool is_pinned_cuda(const storage::Storage& storage) noexcept;

}  // namespace tenon::device

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
// forked child, or private memory. INVALID_ARGUMENT: device memory, or there is no such device.
// PERMISSION: a FROZEN storage that is not frozen yet. Also the errors of making the segment's
// pages (memory::reserve_whole()) and of the driver. If the segment is registered already, even
// for another device, the call only asks the driver for the address on this device.
Result<std::byte*> pin_cuda(const storage::Storage& storage, int32_t device);
// Whether this process has pinned the storage's segment, by whichever storage in it.
bool is_pinned_cuda(const storage::Storage& storage) noexcept;

}  // namespace tenon::device

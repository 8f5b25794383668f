// Shared memory of the host that a device reaches: its segment, registered with the driver.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "storage/storage.h"

namespace tenon::share {

// Registers the whole segment, once in this process, until it goes: two blocks can lie in one page,
// and the driver takes none twice. The address by which the device finds the storage's first byte;
// null for an empty one.
Result<std::byte*> pin_cuda(const storage::Storage& storage, int32_t device);
bool is_pinned_cuda(const storage::Storage& storage) noexcept;

}  // namespace tenon::share

// Memory that is never swapped.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace tenon::os {

// RLIMIT_MEMLOCK; UINT64_MAX if there is none. It counts address space and not pages, of the whole
// process, and does not hold for CAP_IPC_LOCK.
uint64_t memory_lock_limit() noexcept;

// Pages of this range stay in memory from when they exist (none are made). Over the limit:
// RESOURCE_EXHAUSTED that names RLIMIT_MEMLOCK and its value. PERMISSION or UNSUPPORTED where a
// container's filter or the kernel has no mlock2. Not for huge pages of the pool: they are never
// swapped, and the kernel would take all of the range out of the pool.
Status lock_on_fault(std::byte* base, uint64_t nbytes);

}  // namespace tenon::os

// Locks memory, so that it is never swapped. memory/backing.cc is the caller.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace tenon::os {

// RLIMIT_MEMLOCK, or UINT64_MAX if there is no limit. The kernel counts the locked address space of
// the whole process and not its pages. A process with CAP_IPC_LOCK has no limit.
uint64_t memory_lock_limit() noexcept;

// Keeps the pages of this range in memory from the time when they exist. Makes no pages. A forked
// child does not inherit the lock. RESOURCE_EXHAUSTED, with RLIMIT_MEMLOCK and its value, above
// that limit. PERMISSION or UNSUPPORTED where a container's filter or the kernel has no mlock2. Do
// not call this for huge pages of the pool: they are never swapped, and the kernel would take all
// of the range out of the pool.
Status lock_on_fault(std::byte* base, uint64_t nbytes);

}  // namespace tenon::os

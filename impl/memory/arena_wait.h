// Waits for room in an arena, which appears when storages of this process go and when leases end.
// storage/ calls this.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "memory/arena.h"
#include "os/wait.h"

namespace tenon::memory {

// Like Arena::allocate(), but waits while the arena is full. The details of TIMEOUT and of the
// other statuses that end a wait say who holds the memory.
Status allocate_waiting(Arena* arena, uint64_t nbytes, uint64_t alignment, const os::Wait& wait,
                        Block* out);

}  // namespace tenon::memory

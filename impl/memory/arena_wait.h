// Waits for room in an arena, which appears when storages of this process go and when leases end.
// storage/ calls this.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "memory/arena.h"
#include "os/wait.h"

namespace tenon::memory {

// Like Arena::allocate(), but waits while the arena is full. The details of TIMEOUT and of the
// other statuses that end a wait say who holds the memory. With timeout 0 a full arena is
// RESOURCE_EXHAUSTED with limit "arena". Every other error of Arena::allocate() ends the wait. In a
// process without the library's thread the waiting thread calls os::poll_service(). So the caller
// holds no ranked lock.
Status allocate_waiting(Arena* arena, uint64_t nbytes, uint64_t alignment, const os::Wait& wait,
                        Block* out);

}  // namespace tenon::memory

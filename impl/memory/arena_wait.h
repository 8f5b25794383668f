// Waits for room in an arena that the user made. Room appears when storages of this process go and
// when leases end. storage/ calls this.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "memory/arena.h"
#include "os/wait.h"

namespace tenon::memory {

// Like Arena::allocate(), but waits while the arena is full. If the wait ends without room
// (TIMEOUT, CANCELLED, INTERRUPTED), the details of the status say who holds the memory. With
// timeout 0 a full arena is RESOURCE_EXHAUSTED with limit "arena". Every other error of
// Arena::allocate() ends the wait: a block that is larger than the arena is refused at once. A wait
// needs an fd, so it can also fail with RESOURCE_EXHAUSTED for want of one.
//
// In a process that chose to have no service thread (os::use_no_thread()), the waiting thread calls
// os::poll_service(). So the caller holds no ranked lock. The caller keeps `arena` alive.
Status allocate_waiting(Arena* arena, uint64_t nbytes, uint64_t alignment, const os::Wait& wait,
                        Block* out);

}  // namespace tenon::memory

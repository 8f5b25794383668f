// Waiting for room in an arena: for storages of this process to go, and for leases to end.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "memory/arena.h"
#include "os/wait.h"

namespace tenon::memory {

// As Arena::allocate, but a full arena is waited for. TIMEOUT and the other ends of a wait have the
// details of who holds what.
Status allocate_waiting(Arena* arena, uint64_t nbytes, uint64_t alignment, const os::Wait& wait,
                        Block* out);

}  // namespace tenon::memory

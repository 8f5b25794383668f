// Other files of the fake ask these functions about memory of pools. pool.cc has the pools.
#pragma once

#include "process.h"

namespace fake_cuda {

// Drops memory that was allocated from a pool or imported from one. Such memory has no context.
void drop_pool_range(const Range& range);

// The caller holds Process::mutex.
unsigned types_of_pool(CUmemoryPool pool);

}  // namespace fake_cuda

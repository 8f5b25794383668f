#pragma once

#include "process.h"

namespace fake_cuda {

// Memory that a pool gave or that came from one: it has no context.
void drop_pool_range(const Range& range);

// Under Process::mutex.
unsigned types_of_pool(CUmemoryPool pool);

}  // namespace fake_cuda

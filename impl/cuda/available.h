// Tells whether this process can use CUDA. Every folder may include this header, because it
// includes nothing of cuda.h.
#pragma once

#include "base/status.h"

namespace tenon::cuda {

// Starts the driver at the first call (cuda/driver.h). UNSUPPORTED, with the reason, if the driver
// cannot be used here or this build has no CUDA.
//
// Two rules hold for every function of this folder that calls the driver. In a child of fork of a
// process that had begun to start the driver, it returns UNSUPPORTED, and a destructor gives
// nothing back. The driver may fork a helper while it starts, so the first caller holds no lock
// that has a rank (base/lock_rank.h): the fork hooks would wait for that lock.
Status available();

}  // namespace tenon::cuda

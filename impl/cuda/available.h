// Tells whether this process can use CUDA. Every folder may include this header, because it
// includes nothing of cuda.h.
#pragma once

#include "base/status.h"

namespace tenon::cuda {

// Starts the driver at the first call (cuda/driver.h). UNSUPPORTED, with the reason, if the driver
// cannot be used here or this build has no CUDA.
Status available();

}  // namespace tenon::cuda

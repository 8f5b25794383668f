// Whether this process can use CUDA. Nothing of cuda.h is in here, so that every folder may include
// it.
#pragma once

#include "base/status.h"

namespace tenon::cuda {

// Starts the driver at the first call, as driver.h says. UNSUPPORTED with the reason if it cannot
// be used here, or if this build has no CUDA.
Status available();

}  // namespace tenon::cuda

// Reads a tenon_wait.
#pragma once

#include <tenon/wait.h>

#include "base/status.h"
#include "os/wait.h"

namespace tenon::capi {

// NULL gives the default, a wait without end. The result borrows the caller's tenon_cancel.
// INVALID_ARGUMENT and UNSUPPORTED as for read_struct() and check_flags().
Result<os::Wait> read_wait(const tenon_wait* wait);

}  // namespace tenon::capi

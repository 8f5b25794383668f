// Reads a tenon_wait.
#pragma once

#include <tenon/wait.h>

#include "base/status.h"
#include "os/wait.h"

namespace tenon::capi {

Result<os::Wait> read_wait(const tenon_wait* wait);

}  // namespace tenon::capi

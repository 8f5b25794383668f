// Finds a function of the driver by its name and version. Both forms of cuGetProcAddress call this.
#pragma once

#include "process.h"

namespace fake_cuda {

enum class Found { yes, no_such_name, version_too_old };

CUresult look_up(const char* symbol, void** out, int version, cuuint64_t flags, Found* found);

}  // namespace fake_cuda

// Tests of bounds on time measure CPU time with this function, because the time on the clock also
// depends on what else the machine does.
#pragma once

#include <ctime>

namespace tenon {

// The CPU time that this process has used, in seconds.
inline double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace tenon

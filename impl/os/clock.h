// The clock of Tenon's time-outs, ticks and figures: CLOCK_MONOTONIC, which is one clock for all
// processes of a time namespace. Only the ages of named files are on another clock, CLOCK_REALTIME
// (real_time_ns() in named_file.h), because file systems keep their times on that one.
#pragma once

#include <time.h>

#include <cstdint>

namespace tenon::os {

inline int64_t monotonic_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace tenon::os

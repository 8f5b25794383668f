// The clock of every time-out and age in Tenon: CLOCK_MONOTONIC, which is one clock for all
// processes of a time namespace.
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

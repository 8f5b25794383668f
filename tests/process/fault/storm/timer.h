// SIGKILL from a timer of the process itself. No other process has to wake up for it, so it strikes
// within microseconds of its time.
#pragma once

#include <csignal>
#include <cstdint>
#include <ctime>

#include "process/fault/kit.h"

namespace storm {

inline void kill_me_after(int64_t ns) {
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  timer_t timer{};
  REQUIRE(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  itimerspec when{};
  when.it_value = {ns / 1'000'000'000, ns % 1'000'000'000 + (ns == 0 ? 1 : 0)};
  REQUIRE(timer_settime(timer, 0, &when, nullptr) == 0);
}

}  // namespace storm

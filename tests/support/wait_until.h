// Polls a condition that raises no event, until it holds or a limit is over. The C++ tests use it
// for the work of other threads and processes, such as the library's thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace tenon::test {

// How long a test waits for an event that must come. Only a failure takes that long.
inline constexpr std::chrono::milliseconds kWaitLimit{20'000};

// TENON_TEST_PATIENCE multiplies all limits. A run under compute-sanitizer sets it, because it is
// slow.
inline int patience_factor() {
  const char* const times = std::getenv("TENON_TEST_PATIENCE");
  return times != nullptr ? std::max(std::atoi(times), 1) : 1;
}

// Returns whether the condition becomes true within the limit.
template <typename Condition>
bool wait_until(Condition&& condition, std::chrono::milliseconds limit = kWaitLimit) {
  constexpr std::chrono::milliseconds kPause{1};
  // The loop counts pauses and not time. A machine that gives this process no time gives the other
  // process or thread none either.
  const auto pauses = limit / kPause * patience_factor();
  for (auto pause = pauses; pause > 0; --pause) {
    if (condition()) return true;
    std::this_thread::sleep_for(kPause);
  }
  return condition();
}

}  // namespace tenon::test

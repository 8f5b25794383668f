#include "modules/shared_weights/fork_closed.h"

#include <unistd.h>

#include <algorithm>

namespace tenon::shared_weights {

void ForkClosedFds::in_child() noexcept {
  for (const int number : numbers) ::close(number);
  numbers.clear();
}

void ForkClosed::reset() noexcept {
  const int number = std::exchange(number_, -1);
  if (number < 0 || generation_ != fork_generation()) return;
  ForkClosedFds& all = process_state<ForkClosedFds>();
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::erase(all.numbers, number);
  ::close(number);
}

}  // namespace tenon::shared_weights

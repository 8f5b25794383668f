// Measures how long the storm's processes were ready and did not run, because the machine ran other
// processes. A time limit must not count that time.
#pragma once

#include <dirent.h>

#include <fstream>
#include <span>
#include <string>

#include "support/storm/slot.h"

namespace storm {

// The sum over all threads of all living processes, since those began.
inline int64_t starved_ns(std::span<const Slot> slots) {
  int64_t sum = 0;
  for (const Slot& slot : slots) {
    const std::string folder = "/proc/" + std::to_string(slot.pid.load()) + "/task/";
    DIR* const threads = opendir(folder.c_str());
    if (threads == nullptr) continue;
    while (const dirent* each = readdir(threads)) {
      std::ifstream file(folder + each->d_name + "/schedstat");
      int64_t ran = 0;
      int64_t waited = 0;
      if (file >> ran >> waited) sum += waited;
    }
    closedir(threads);
  }
  return sum;
}

// A time limit that does not count the time in which the processes were starved.
class Deadline {
 public:
  Deadline(std::span<const Slot> slots, int64_t limit_ns)
      : slots_(slots), starved_(starved_ns(slots)), at_(now_ns() + limit_ns) {}
  bool is_over() const {
    const int64_t late = now_ns() - at_;
    return late > 0 && late > starved_ns(slots_) - starved_;
  }

 private:
  std::span<const Slot> slots_;
  int64_t starved_;
  int64_t at_;
};

}  // namespace storm

// How long the storm's processes were ready and did not run, because the machine had others to run:
// that is no time in which anything of theirs could have come back.
#pragma once

#include <dirent.h>

#include <fstream>
#include <span>
#include <string>

#include "fault/storm/doom.h"

namespace storm {

// Of all threads of all that live, since they began.
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

// A time limit that stands still while they do not run.
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

// How long the storm's processes were ready and did not run, because the machine had others to run: that is no time in which anything of
// theirs could have come back.
#pragma once

#include <dirent.h>

#include <fstream>
#include <string>

#include "fault/storm/board.h"

namespace storm {

// Of all threads of all that live, since they began.
inline int64_t starved_ns(const Board& board) {
  int64_t sum = 0;
  for (const Slot& slot : board.slots) {
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
  Deadline(const Board& board, int64_t limit_ns) : board_(&board), starved_(starved_ns(board)), at_(now_ns() + limit_ns) {}
  bool is_over() const {
    const int64_t late = now_ns() - at_;
    return late > 0 && late > starved_ns(*board_) - starved_;
  }

 private:
  const Board* board_;
  int64_t starved_;
  int64_t at_;
};

}  // namespace storm

// Reads the boards of other processes (docs/format/board.md) for `ls` and `top`. They are found
// through /proc and copied. Their content is not trusted: the worst that a bad board can do is to
// show wrong figures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "memory/board_image.h"
#include "os/process.h"

namespace tenon::cli {

struct Board {
  os::ProcessFacts process;  // pid as this process sees it
  bool same_pids = false;    // whether the board's pids are those that this process sees
  memory::BoardImage image;
};

struct Boards {
  std::vector<Board> all;            // by pid
  std::vector<std::string> refused;  // a line for each file that looked like a board and is none
  uint64_t unreadable = 0;           // the number of processes that this one may not inspect
  int64_t read_ns = 0;               // CLOCK_MONOTONIC
};

// Does not fail. Boards that cannot be read are counted or listed in the result.
Boards read_boards();

}  // namespace tenon::cli

// The boards of other processes (docs/format/board.md): found through /proc, copied, and not
// believed further than figures can be.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "memory/board_image.h"
#include "os/process.h"

namespace tenon::cli {

struct Board {
  os::ProcessFacts process;  // by this process's view of pids
  bool same_pids = false;    // the board's pids are those that this process sees
  memory::BoardImage image;
};

struct Boards {
  std::vector<Board> all;            // by pid
  std::vector<std::string> refused;  // a line for each that is no board
  uint64_t unreadable = 0;           // processes that this one may not look into
  int64_t read_ns = 0;               // CLOCK_MONOTONIC
};

Boards read_boards();

}  // namespace tenon::cli

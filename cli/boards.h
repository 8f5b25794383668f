// Reads the boards of other processes (docs/format/board.md) for `ls` and `top`. A board is a memfd
// in which a process publishes figures about its arenas, leases and queues. read_boards() finds the
// boards in /proc/PID/fd and copies them. Their content is not trusted: the worst that a bad board
// can do is to show wrong figures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "memory/board_image.h"
#include "os/fd.h"
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

// Opens a memfd of another process for reading. `fds` is the process's folder /proc/PID/fd, and
// `number` is the name of an fd there. A wanted inode that is not 0 must be the file's. The result
// is not open if the fd is gone or the file is another one. CORRUPT: the file is no memfd.
Result<os::Fd> open_memfd_of(int fds, const char* number, uint64_t wanted_inode);
uint64_t memfd_device();  // st_dev of all memfds; 0: unknown

// Does not fail. Boards that cannot be read are counted or listed in the result.
Boards read_boards();

}  // namespace tenon::cli

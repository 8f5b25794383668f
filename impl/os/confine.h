// Giving up, for the rest of a process's life, what it will not need.
#pragma once

#include <span>
#include <string>

#include "base/status.h"

namespace tenon::os {

// A directory, with all below it, and what stays allowed there.
struct AllowedPlace {
  std::string path;
  bool read = false;            // open files for reading, list directories
  bool remove_files = false;    // and sockets
  bool rename_sockets = false;  // within one directory
  bool remove_folders = false;  // empty ones
};

// No capabilities, none to be gained by exec, no core dump and no tracing by other processes of
// this user; and, where the kernel has Landlock, no file but in `places`, no TCP, no signal to
// others. True if it has. What was open before stays open.
Result<bool> confine(std::span<const AllowedPlace> places);

// As many fds as the hard limit lets this process have.
void raise_fd_limit() noexcept;

}  // namespace tenon::os

// A process calls these functions at its start to give up, for the rest of its life, the rights
// that it will not need. tenon-manager does so.
#pragma once

#include <span>
#include <string>

#include "base/status.h"

namespace tenon::os {

// A directory with everything below it, and the operations that stay allowed there. No other access
// to files is left, such as writing them or making new ones.
struct AllowedPlace {
  std::string path;
  bool read = false;            // open files for reading, list directories
  bool remove_files = false;    // files and sockets
  bool rename_sockets = false;  // within one directory
  bool remove_folders = false;  // empty ones
};

// Gives up all capabilities, and the gain of new ones by exec. Refuses core dumps, and tracing by
// other processes of this user. Where the kernel has Landlock, the process can also open and change
// no files but those in `places`, use no TCP, connect to no abstract sockets of other processes,
// and send no signals to them, as far as the kernel's version of Landlock knows these restrictions.
// Returns true if the kernel has Landlock. Files that were open before stay open. Call it before
// other threads start: the kernel restricts only the calling thread and the threads that this one
// starts later. After an error some rights may be given up already.
Result<bool> confine(std::span<const AllowedPlace> places);

// Raises the limit of open fds to the hard limit.
void raise_fd_limit() noexcept;

}  // namespace tenon::os

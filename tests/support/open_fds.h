// Counts the fds of the test's own process. The kits of the C++ tests and the benchmarks use it to
// find leaked fds. C tests have check_count_fds(), which leaves out the fds of guests.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>

namespace tenon::test {

// Returns how many fds are open, without the one that this function opens for a moment.
inline long count_open_fds() {
  long count = 0;
  if (DIR* const folder = opendir("/proc/self/fd")) {
    while (readdir(folder) != nullptr) ++count;
    closedir(folder);
    return count - 3;  // ".", ".." and the folder's own fd
  }
  // At the limit of fds the folder cannot be opened, so each number is tried.
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const int most = static_cast<int>(std::min<rlim_t>(limit.rlim_max, 70000));
  for (int fd = 0; fd < most; ++fd) count += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

}  // namespace tenon::test

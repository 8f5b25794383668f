// Waits for a child process, and puts its status into words. The kits that start children use it.
#pragma once

#include <sys/types.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace tenon::test {

// Waits until the child has ended. Returns its status as from waitpid, or -1 if `child` is no child
// of this process.
inline int wait_for_child(pid_t child) {
  int status = -1;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return status;
}

inline std::string describe_status(int status) {
  if (WIFEXITED(status)) return "exit status " + std::to_string(WEXITSTATUS(status));
  if (WIFSIGNALED(status))
    return std::string("killed by signal ") + std::to_string(WTERMSIG(status)) + " " +
           strsignal(WTERMSIG(status));
  return "?";
}

}  // namespace tenon::test

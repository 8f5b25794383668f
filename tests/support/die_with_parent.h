// Ends a child process when its parent dies, so that a killed test leaves no process behind. The
// kits that start children use it.
#pragma once

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>

namespace tenon::test {

// Call it first in the child. The kernel also ends the child if the thread of the parent that
// forked it ends, so that thread must live on. `parent` is the pid that the parent read before it
// forked: it tells whether the parent died before this call.
inline void die_with_parent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
}

}  // namespace tenon::test

// What stands behind an fd: another process's fd fetched, and two fds compared.
#pragma once

#include "base/status.h"
#include "os/fd.h"

namespace tenon::os {

// A copy of the fd of that number in the process of that pidfd. PERMISSION: the kernel gives it to
// those only who may trace that process; NOT_FOUND: it has no such fd; PEER_GONE; UNSUPPORTED: a
// kernel older than 5.6.
Result<Fd> fetch_fd(const Fd& pidfd, int number);

// Both are of one open(): so they lead to the same object, and nobody can have made one that only
// looks like the other. False also when the kernel does not tell.
bool is_same_open_file(int one, int other) noexcept;

}  // namespace tenon::os

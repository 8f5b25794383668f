// Fetches an fd of another process, and compares the open files behind two fds. Device memory that
// travels by fd needs both.
#pragma once

#include "base/status.h"
#include "os/fd.h"

namespace tenon::os {

// Copies fd `number` of the process of that pidfd. PERMISSION: the kernel requires the right to
// trace that process. NOT_FOUND: the process has no such fd. PEER_GONE: it has ended. UNSUPPORTED:
// the kernel is older than 5.6. RESOURCE_EXHAUSTED: no free fd.
Result<Fd> fetch_fd(const Fd& pidfd, int number);

// Whether both fds come from the same open(). Then they lead to the same object, and no other
// process can have made one of them as a counterfeit of the other. Also returns false if the kernel
// does not tell. May take LockRank::kFileComparison, and then changes the signal number (F_SETSIG)
// of the files for a moment.
bool is_same_open_file(int one, int other) noexcept;

}  // namespace tenon::os

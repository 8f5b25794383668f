// Withdraws deposited messages (deposit.h) whose carrier has let go of them. The carrier is the
// pipe or socket that brings a ticket to a receiver. The C boundary (capi/src/deposit.cc) calls
// watch_deposit(). A socket carries a marker with the ticket: the end of a pipe or of a socket
// pair, whose other end the lender has. The kernel closes the marker when the ticket is read
// without its fds, and also when the socket goes with the ticket unread. A pipe carries no marker.
// There the lender keeps a duplicate of the end that it writes to, which hangs up when no process
// has the read end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "memory/depot.h"
#include "os/fd.h"

namespace tenon::channel {

// A message that is watched. `fd` hangs up when the carrier has let go of the message.
struct DepositWatch {
  os::Fd fd;
  memory::Depot::MessageSlot place;
  int64_t grace_ns = 0;
};

// A message whose carrier is gone, and the time on CLOCK_MONOTONIC when it is withdrawn.
struct LetGo {
  memory::Depot::MessageSlot place;
  int64_t due_ns = 0;
};

// Withdraws a message of this process `grace_ns` after `fd` has hung up, if nobody has fetched it
// by then. A hang-up is noticed within a quarter of a second. On success the library owns the fd,
// and closes it when it has hung up or the message was fetched. INVALID_ARGUMENT: the message is
// another process's or was handed to a keeper, or the fd is no end of a pipe or socket.
// RESOURCE_EXHAUSTED: the watches have used their share of RLIMIT_NOFILE. On failure,
// std::bad_alloc included, the caller keeps `fd`. The call may withdraw other messages that are
// due, so the caller holds no lock. A forked child watches nothing, and its copies of the fds are
// closed.
Status watch_deposit(std::span<const std::byte> ticket, int fd, int64_t grace_ns);

struct DepositState;
// Requests a tick if there is anything to check. The caller holds the lock of the state.
void want_watch_tick(DepositState* all) noexcept;

}  // namespace tenon::channel

// Messages whose carrier tells when it has let go of them. A socket carries a marker with the
// message: the end of a pipe or of a socket pair, whose other end the lender has. The kernel closes
// the marker when the message is read, and also when the socket goes with the message unread. A
// pipe carries no marker. There the lender keeps a duplicate of the end that it writes to, which
// hangs up when no process has the read end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "memory/depot.h"
#include "os/fd.h"

namespace tenon::channel {

struct DepositWatch {
  os::Fd fd;
  memory::Depot::Place place;
  int64_t grace_ns = 0;
};

// A message whose carrier is gone, and when it is taken back.
struct LetGo {
  memory::Depot::Place place;
  int64_t due_ns = 0;
};

// Takes a message of this process back `grace_ns` after `fd` has hung up, if nobody has fetched it
// by then; a hang-up is seen within a quarter of a second. On success the fd is the library's,
// which closes it then. INVALID_ARGUMENT: the message is another process's, or the fd is no end of
// a pipe or socket.
Status watch_deposit(std::span<const std::byte> ticket, int fd, int64_t grace_ns);

}  // namespace tenon::channel

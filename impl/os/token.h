// Tokens and bells, which the leases use (memory/ledger.h, memory/holding.h).
//
// A token is the write end of a pipe. Its only meaning is that some process still has it. The
// kernel reports the hang-up at the read end, the watch, when the last copy of the token is gone,
// in whatever process or socket queue that was. It is a pipe and not a socket, because any holder
// of a socket can shut it down for all. A forked child inherits tokens and watches. So it is one
// more holder of a token until it closes it, and its copy of a watch hides from the holders that
// the lender is gone.
//
// A bell is a socket: a byte on it wakes the other side, and the kernel tells who sent it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "os/fd.h"

namespace tenon::os {

// All these fds are close-on-exec and non-blocking.
struct TokenPair {
  Fd watch;
  Fd token;
};
Result<TokenPair> create_token();
// The id of a token, from either end: both ends have the same id, and no other token has it as long
// as this one exists.
Result<uint64_t> token_id(int fd);
// Whether an fd that came from a peer is the write end of a pipe. Nothing else can be checked.
bool is_token(int fd) noexcept;
// Whether every copy of the token is gone now. False for -1 and for a closed fd.
bool has_hung_up(int watch) noexcept;
// Whether no process has the watch of this token any more. False for -1 and for a closed fd.
bool is_unwatched(int token) noexcept;

struct BellPair {
  Fd listener;
  Fd bell;
};
Result<BellPair> create_bell();
// Whether an fd that came from a peer is a connected stream socket of AF_UNIX.
bool is_bell(int fd) noexcept;
// Sends one byte. Never blocks, and never raises a signal. A full socket needs no more bytes to
// wake its reader.
void ring(int bell) noexcept;
struct Ringer {
  int32_t pid = 0;
  uint32_t uid = 0;
};
// Reads at most `most` bytes from the listener. Returns the process that rang last, as the kernel
// tells it. The pid is 0 if no process rang, or if it is in a pid namespace that this process does
// not see.
Ringer hear(int listener, size_t most) noexcept;

}  // namespace tenon::os

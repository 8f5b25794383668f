// Tokens and bells. A token is the write end of a pipe whose only meaning is that somebody still
// has it: the kernel reports the hang-up at the read end, the watch, when the last copy is gone, in
// whatever process or socket queue it was. A pipe and not a socket, because any one holder of a
// socket can shut it down for all. A bell is a socket: a byte on it wakes the other side, and the
// kernel says who sent it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "os/fd.h"

namespace tenon::os {

// All close-on-exec and non-blocking.
struct TokenPair {
  Fd watch;
  Fd token;
};
Result<TokenPair> create_token();
// Either end's: the same for both, and for no other token.
Result<uint64_t> token_id(int fd);
// What came from a peer is such an end; nothing else can be told of it.
bool is_token(int fd) noexcept;
// Every copy of the token is gone, now. False for a number that is no watch.
bool has_hung_up(int watch) noexcept;
// Of a token: whoever watched it is gone.
bool is_unwatched(int token) noexcept;

struct BellPair {
  Fd listener;
  Fd bell;
};
Result<BellPair> create_bell();
bool is_bell(int fd) noexcept;
// Never blocks, never raises a signal: a full socket wakes already.
void ring(int bell) noexcept;
struct Ringer {
  int32_t pid = 0;
  uint32_t uid = 0;
};
// Takes at most `most` bytes off the listener. Who rang last, as the kernel says it: pid 0 if
// nobody did, or from a pid namespace that this process does not see.
Ringer hear(int listener, size_t most) noexcept;

}  // namespace tenon::os

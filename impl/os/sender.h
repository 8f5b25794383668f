// Receives bytes from a stream socket together with the pid of the process that sent them. A child
// of fork shares the socket with its parent, and only the kernel can tell their bytes apart. The
// program tenon-manager, and its client names/manager.cc, receive with these functions. Connections
// (channel/frames.cc) use unread_nbytes() and peek().
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>

#include "base/status.h"

namespace tenon::os {

// Makes the kernel report the sender of all bytes that are sent from now on (SO_PASSCRED). On a
// listener this holds for the sockets that are accepted from it.
Status tell_senders(int socket);

struct FromSender {
  size_t nbytes = 0;  // 0 without an error: the other side has closed
  int error = 0;      // errno; EAGAIN: no bytes have arrived
  // The process that wrote the bytes. The kernel fills it in, but a sender with CAP_SYS_ADMIN can
  // name another process. 0: tell_senders() was not called before the bytes were sent, or the
  // sender is in a pid namespace that this process does not see.
  pid_t pid = 0;
};
// Receives bytes without waiting. One call gives the bytes of one sender only. The process keeps no
// fd that came with them. `room` is not empty.
FromSender receive_from_sender(int socket, std::span<std::byte> room) noexcept;
// The number of bytes that have arrived and were not received yet. 0 if the kernel does not tell.
size_t unread_nbytes(int socket) noexcept;
// Copies the bytes that the next receive would give, as far as `room` goes, and takes none of them.
// Returns how many bytes it copied.
size_t peek(int socket, std::span<std::byte> room) noexcept;

}  // namespace tenon::os

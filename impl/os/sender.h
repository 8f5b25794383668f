// Receives bytes from a stream socket together with the pid of the process that sent them. A child
// of fork shares the socket with its parent, and only the kernel can tell their bytes apart.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>

#include "base/status.h"

namespace tenon::os {

// Makes the kernel report the sender of each message. On a listener this holds for the sockets that
// are accepted from it.
Status tell_senders(int socket);

struct FromSender {
  size_t nbytes = 0;  // 0 without an error: the other side has closed
  int error = 0;      // errno
  pid_t pid = 0;      // 0: the sender is in a pid namespace that this process does not see
};
// Receives bytes without waiting. One call gives the bytes of one sender only. Fds that came with
// them are closed.
FromSender receive_from_sender(int socket, std::span<std::byte> room) noexcept;
// The number of bytes that have arrived and were not received yet.
size_t unread_nbytes(int socket) noexcept;

}  // namespace tenon::os

// Bytes from a stream socket together with the process that sent them: children of fork share one
// socket with their parent, and only the kernel can tell them apart.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>

#include "base/status.h"

namespace tenon::os {

// Ask the kernel to say with each message who sent it. On a listener it holds for what is accepted
// from it.
Status tell_senders(int socket);

struct FromSender {
  size_t nbytes = 0;  // 0 without an error: the other side has closed
  int error = 0;      // errno
  pid_t pid = 0;      // 0: in a pid namespace that this process does not see
};
// Never waits. One call gives the bytes of one sender only. Fds that came along are closed.
FromSender receive_from_sender(int socket, std::span<std::byte> room) noexcept;
// What has arrived and was not received yet.
size_t unread_nbytes(int socket) noexcept;

}  // namespace tenon::os

#include "os/sender.h"

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "os/control.h"

namespace tenon::os {
namespace {

void close_all(const cmsghdr* rights) noexcept {
  const size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (size_t i = 0; i < count; ++i) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(rights) + i * sizeof fd, sizeof fd);
    ::close(fd);
  }
}

}  // namespace

Status tell_senders(int socket) {
  const int on = 1;
  if (::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0) return {};
  return errno_status(errno, "asking for the senders on a socket").with("fd", socket);
}

FromSender receive_from_sender(int socket, std::span<std::byte> room) noexcept {
  for (;;) {
    iovec part{room.data(), room.size()};
    // There is room only for the credentials, which come first. When credentials are requested, the
    // kernel then makes no fds of any that a sender passes along.
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred))];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0) {
      if (errno == EINTR) continue;
      return {0, errno, 0};
    }
    FromSender result{static_cast<size_t>(got), 0, 0};
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = next_control(&message, header)) {
      if (header->cmsg_level != SOL_SOCKET || header->cmsg_len < CMSG_LEN(0)) continue;
      if (header->cmsg_type == SCM_CREDENTIALS && header->cmsg_len >= CMSG_LEN(sizeof(ucred))) {
        ucred sender{};
        std::memcpy(&sender, CMSG_DATA(header), sizeof sender);
        result.pid = sender.pid;
      }
      if (header->cmsg_type == SCM_RIGHTS) close_all(header);
    }
    return result;
  }
}

size_t unread_nbytes(int socket) noexcept {
  int nbytes = 0;
  return ::ioctl(socket, FIONREAD, &nbytes) == 0 && nbytes > 0 ? static_cast<size_t>(nbytes) : 0;
}

size_t peek(int socket, std::span<std::byte> room) noexcept {
  const ssize_t got = ::recv(socket, room.data(), room.size(), MSG_PEEK | MSG_DONTWAIT);
  return got > 0 ? static_cast<size_t>(got) : 0;
}

}  // namespace tenon::os

// Sends and receives packets between the processes of a test. The agents of several folders use it.
// A packet has a fixed number of bytes and at most one fd.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace packets {

// Sends one packet with at most one fd (-1: none). Waits while the socket is full. Returns false if
// the other end is closed.
inline bool put_packet(int socket, const void* data, size_t nbytes, int fd) {
  iovec part{const_cast<void*>(data), nbytes};
  msghdr packet{};
  packet.msg_iov = &part;
  packet.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (fd >= 0) {
    packet.msg_control = control;
    packet.msg_controllen = sizeof control;
    cmsghdr* head = CMSG_FIRSTHDR(&packet);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(head), &fd, sizeof fd);
  }
  ssize_t done = 0;
  while ((done = sendmsg(socket, &packet, MSG_NOSIGNAL)) < 0 && errno == EINTR) {
  }
  return done == static_cast<ssize_t>(nbytes);
}

// Receives a packet of exactly `nbytes`. Returns false for another size, at the end of the stream
// and on an error. *fd is -1 if no fd came. The caller closes the fd.
inline bool take_packet(int socket, void* data, size_t nbytes, int* fd) {
  iovec part{data, nbytes};
  msghdr packet{};
  packet.msg_iov = &part;
  packet.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  packet.msg_control = control;
  packet.msg_controllen = sizeof control;
  ssize_t done = 0;
  while ((done = recvmsg(socket, &packet, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
  }
  *fd = -1;
  if (done != static_cast<ssize_t>(nbytes)) return false;
  if (const cmsghdr* head = CMSG_FIRSTHDR(&packet); head != nullptr)
    std::memcpy(fd, CMSG_DATA(head), sizeof *fd);
  return true;
}

}  // namespace packets

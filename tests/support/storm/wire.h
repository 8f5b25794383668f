// Packets with fds. The driver sends orders and the sockets of a round with them, and peers send
// each other descriptors by hand.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

namespace storm {

inline constexpr size_t kMostFds = 32;

// Sends one packet with these fds. Never waits: returns false if the other end is closed or the
// socket is full.
inline bool put(int socket, const void* data, size_t nbytes, const int* fds, size_t n_fds) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostFds)> control{};
  iovec part{const_cast<void*>(data), nbytes};
  msghdr packet{};
  packet.msg_iov = &part;
  packet.msg_iovlen = 1;
  if (n_fds > 0) {
    packet.msg_control = control.data();
    packet.msg_controllen = CMSG_SPACE(sizeof(int) * n_fds);
    cmsghdr* const head = CMSG_FIRSTHDR(&packet);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int) * n_fds);
    std::memcpy(CMSG_DATA(head), fds, sizeof(int) * n_fds);
  }
  ssize_t done = 0;
  while ((done = sendmsg(socket, &packet, MSG_NOSIGNAL | MSG_DONTWAIT)) < 0 && errno == EINTR) {
  }
  return done == static_cast<ssize_t>(nbytes);
}

// Returns the number of bytes received, 0 if the other end is closed, or -1 with errno. `fds` gets
// the fds of the packet, which the caller closes, and stays as it is if there are none.
inline ssize_t take(int socket, void* data, size_t room, int flags, std::vector<int>* fds) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostFds)> control{};
  iovec part{data, room};
  msghdr packet{};
  packet.msg_iov = &part;
  packet.msg_iovlen = 1;
  packet.msg_control = control.data();
  packet.msg_controllen = control.size();
  ssize_t done = 0;
  while ((done = recvmsg(socket, &packet, MSG_CMSG_CLOEXEC | flags)) < 0 && errno == EINTR) {
  }
  if (done < 0) return done;
  if (const cmsghdr* head = CMSG_FIRSTHDR(&packet);
      head != nullptr && head->cmsg_type == SCM_RIGHTS) {
    fds->resize((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(fds->data(), CMSG_DATA(head), fds->size() * sizeof(int));
  }
  return done;
}

}  // namespace storm

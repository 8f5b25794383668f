#include "os/socket.h"

#include <dirent.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "os/control.h"

#ifndef SCM_PIDFD
#define SCM_PIDFD 0x04  // Linux 6.5; Debian 12's headers are older
#endif

namespace tenon::os {
namespace {

// The room for control data. Beside the fds it holds the data of options that the user may have
// switched on for the socket: SO_PASSCRED, SO_PASSSEC, SO_PASSPIDFD. Without that room their data
// would push fds out.
constexpr size_t kControlRoom = CMSG_SPACE(kMaxFdsPerMessage * sizeof(int)) + 1024;

Result<int> socket_option(int fd, int name) {
  int value = 0;
  socklen_t size = sizeof value;
  if (::getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0) return value;
  const int error = errno;
  if (error == EBADF)
    return Status(Code::kInvalidArgument, format("fd %d is not open", fd))
        .with("fd", fd)
        .with("errno", error);
  if (error == ENOTSOCK)
    return Status(Code::kInvalidArgument, format("fd %d is not a socket", fd))
        .with("fd", fd)
        .with("errno", error);
  return errno_status(error, format("socket %d", fd)).with("fd", fd);
}

void take_control(msghdr* message, ReceivedFds* fds) noexcept {
  for (cmsghdr* control = CMSG_FIRSTHDR(message); control != nullptr;
       control = next_control(message, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_len < CMSG_LEN(0)) continue;
    const size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(control) + i * sizeof fd, sizeof fd);
      if (control->cmsg_type == SCM_RIGHTS) fds->add(fd);
      // This fd comes if the user has switched on SO_PASSPIDFD. Nobody here needs it.
      if (control->cmsg_type == SCM_PIDFD && fd >= 0) ::close(fd);
      if (control->cmsg_type != SCM_RIGHTS) break;
    }
  }
}

}  // namespace

Result<SocketFacts> socket_facts(int fd) {
  SocketFacts facts;
  TENON_ASSIGN(facts.domain, socket_option(fd, SO_DOMAIN));
  TENON_ASSIGN(facts.type, socket_option(fd, SO_TYPE));
  TENON_ASSIGN(const int listening, socket_option(fd, SO_ACCEPTCONN));
  facts.listening = listening != 0;
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  facts.connected = ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
  return facts;
}

std::optional<uint64_t> send_buffer_size(int fd) noexcept {
  int value = 0;
  socklen_t size = sizeof value;
  if (::getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &value, &size) != 0 || value < 0) return std::nullopt;
  return static_cast<uint64_t>(value);
}

bool peer_hung_up(int fd) noexcept {
  pollfd polled{fd, POLLRDHUP, 0};
  int ready = 0;
  while ((ready = ::poll(&polled, 1, 0)) < 0 && errno == EINTR) {
  }
  return ready > 0;
}

bool is_writable(int fd) noexcept {
  pollfd polled{fd, POLLOUT, 0};
  while (::poll(&polled, 1, 0) < 0 && errno == EINTR) {
  }
  return polled.revents != 0;
}

bool can_hang_up(int fd) noexcept {
  struct stat info{};
  return ::fstat(fd, &info) == 0 && (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode));
}

ReceivedFds& ReceivedFds::operator=(ReceivedFds&& other) noexcept {
  if (this == &other) return *this;
  clear();
  std::copy_n(other.fds_.begin(), other.count_, fds_.begin());
  count_ = std::exchange(other.count_, 0);
  cut_ = std::exchange(other.cut_, false);
  return *this;
}

void ReceivedFds::add(int fd) noexcept {
  if (count_ < fds_.size()) {
    fds_[count_++] = fd;
  } else {
    close_foreign(fd);
  }
}

void ReceivedFds::clear() noexcept {
  for (size_t i = 0; i < count_; ++i) close_foreign(fds_[i]);
  count_ = 0;
  cut_ = false;
}

void ReceivedFds::move_to(std::vector<Fd>& out) {
  out.reserve(out.size() + count_);
  for (size_t i = 0; i < count_; ++i) out.emplace_back(fds_[i]).mark_foreign();
  count_ = 0;
  cut_ = false;
}

Transfer send_message(int socket, std::span<const std::byte> head, std::span<const std::byte> body,
                      std::span<const int> fds) noexcept {
  if (body.empty() && fds.empty()) {  // cheaper than sendmsg
    for (;;) {
      const ssize_t sent = ::send(socket, head.data(), head.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent >= 0) return {static_cast<size_t>(sent), 0, false};
      if (errno != EINTR) return {0, errno, false};
    }
  }
  // sendmsg does not write through these pointers.
  iovec parts[2] = {{const_cast<std::byte*>(head.data()), head.size()},
                    {const_cast<std::byte*>(body.data()), body.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFdsPerMessage * sizeof(int))];
  if (!fds.empty()) {
    if (fds.size() > kMaxFdsPerMessage) return {0, EINVAL, false};
    const size_t room = CMSG_SPACE(fds.size_bytes());
    std::memset(control, 0, room);
    message.msg_control = control;
    // The field has 32 bits in musl.
    message.msg_controllen = static_cast<decltype(message.msg_controllen)>(room);
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = static_cast<decltype(rights->cmsg_len)>(CMSG_LEN(fds.size_bytes()));
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
  }
  for (;;) {
    const ssize_t sent = ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return {static_cast<size_t>(sent), 0, false};
    if (errno != EINTR) return {0, errno, false};
  }
}

Transfer receive_message(int socket, std::span<std::byte> room, bool may_block,
                         ReceivedFds* fds) noexcept {
  alignas(cmsghdr) char control[kControlRoom];
  const int flags = MSG_CMSG_CLOEXEC | (may_block ? 0 : MSG_DONTWAIT);
  for (;;) {
    iovec part{room.data(), room.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = ::recvmsg(socket, &message, flags);
    if (got < 0) {
      if (errno == EINTR) continue;
      return {0, errno, false};
    }
    if (message.msg_controllen > 0) take_control(&message, fds);
    if ((message.msg_flags & MSG_CTRUNC) != 0) fds->mark_cut();
    return {static_cast<size_t>(got), 0, (message.msg_flags & MSG_TRUNC) != 0};
  }
}

// Since Linux 6.2 the size of this folder in /proc is the number of open fds. That helps at the fd
// limit, where the folder itself cannot be opened.
std::optional<uint64_t> open_fd_count() noexcept {
  constexpr const char* kFolder = "/proc/self/fd";
  struct stat about{};
  if (::stat(kFolder, &about) == 0 && about.st_size > 0)
    return static_cast<uint64_t>(about.st_size);
  DIR* folder = ::opendir(kFolder);
  if (folder == nullptr) return std::nullopt;
  uint64_t count = 0;
  while (const dirent* entry = ::readdir(folder)) {
    if (entry->d_name[0] != '.') ++count;
  }
  ::closedir(folder);
  return count - 1;  // without the fd of the folder itself
}

}  // namespace tenon::os

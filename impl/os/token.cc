#include "os/token.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "os/control.h"
#include "os/limits.h"
#include "os/memfd.h"
#include "os/socket.h"

namespace tenon::os {
namespace {

Status cannot_make(int error, const char* what) {
  Status status = errno_status(error, what);
  return error == EMFILE ? with_fd_limit(std::move(status)) : status;
}

bool polls_as(int fd, short state) noexcept {
  pollfd polled{fd, 0, 0};
  int ready = 0;
  while ((ready = poll(&polled, 1, 0)) < 0 && errno == EINTR) {
  }
  return ready > 0 && (polled.revents & state) != 0;
}

}  // namespace

Result<TokenPair> create_token() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0)
    return cannot_make(errno, "a token for leases");
  return TokenPair{Fd(ends[0]), Fd(ends[1])};
}

Result<uint64_t> token_id(int fd) {
  TENON_ASSIGN(const FileInfo info, stat_file(fd));
  return info.inode;
}

bool is_token(int fd) noexcept {
  // A pipe in a file system in user space would look like a token too. fstat would ask its server,
  // and AT_STATX_DONT_SYNC does not.
  struct statx info{};
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_ACCMODE) == O_WRONLY &&
         statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &info) == 0 &&
         S_ISFIFO(info.stx_mode);
}

bool has_hung_up(int watch) noexcept { return polls_as(watch, POLLHUP); }

// POLLERR is reported for the write end of a pipe whose read end nobody has.
bool is_unwatched(int token) noexcept { return polls_as(token, POLLERR); }

Result<BellPair> create_bell() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
    return cannot_make(errno, "a bell for leases");
  BellPair pair{Fd(ends[0]), Fd(ends[1])};
  // The kernel then tells who rings. Without the option the lender only knows less.
  const int on = 1;
  (void)setsockopt(pair.listener.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
  return pair;
}

bool is_bell(int fd) noexcept {
  Result<SocketFacts> facts = socket_facts(fd);
  return facts.is_ok() && facts.value().domain == AF_UNIX && facts.value().type == SOCK_STREAM &&
         facts.value().connected;
}

void ring(int bell) noexcept {
  const char one = 1;
  (void)send(bell, &one, sizeof one, MSG_DONTWAIT | MSG_NOSIGNAL);
}

Ringer hear(int listener, size_t most) noexcept {
  Ringer last;
  std::array<char, 512> bytes;
  while (most > 0) {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> room;
    iovec part{bytes.data(), std::min(bytes.size(), most)};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = room.data();
    message.msg_controllen = room.size();
    // There is no room for fds, so the kernel closes any that are sent here.
    const ssize_t got = recvmsg(listener, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got <= 0) return last;
    most -= static_cast<size_t>(got);
    for (cmsghdr* each = CMSG_FIRSTHDR(&message); each != nullptr;
         each = next_control(&message, each)) {
      if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_CREDENTIALS) continue;
      ucred who{};
      std::memcpy(&who, CMSG_DATA(each), sizeof who);
      last = {who.pid, who.uid};
    }
  }
  return last;
}

}  // namespace tenon::os

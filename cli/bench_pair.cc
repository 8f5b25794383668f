#include "bench_pair.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <tenon/error.h>
#include <tenon/storage.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

namespace tenon::cli {
namespace {

using os::Fd;

struct Answer {
  int32_t code = 0;  // a Code
  char message[256] = {};
};

void touch(const void* byte) { (void)*static_cast<const volatile unsigned char*>(byte); }

Status map_and_touch(const Fd& fd, uint64_t nbytes) {
  if (!fd.is_open()) return errno_status(errno, "opening the bare memory");
  void* mapping = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (mapping == MAP_FAILED) return errno_status(errno, "mapping the bare memory");
  touch(mapping);
  munmap(mapping, nbytes);
  return Status::ok();
}

Status touch_and_release(tenon_storage* storage) {
  touch(tenon_storage_data(storage));
  tenon_storage_release(storage);
  return Status::ok();
}

Status borrow(BorrowRequest* request, Fd fd) {
  tenon_storage* storage = nullptr;
  tenon_error* error = nullptr;
  switch (request->how) {
    case Borrow::kMapFd: return map_and_touch(fd, request->nbytes);
    case Borrow::kMapName:
      return map_and_touch(Fd(shm_open(request->name_handle.name, O_RDWR, 0)), request->nbytes);
    case Borrow::kOpenFd: {
      tenon_open_options options{};
      options.struct_size = sizeof options;
      options.flags = TENON_OPEN_ADOPT_FD;
      request->fd_handle.fd = fd.get();
      const tenon_status status = tenon_open_fd(&request->fd_handle, &options, &storage, &error);
      if (status != TENON_OK) return take_error(status, error);
      (void)fd.detach();
      return touch_and_release(storage);
    }
    case Borrow::kOpenName: {
      tenon_open_options options{};
      options.struct_size = sizeof options;
      options.flags = TENON_OPEN_ALLOW_UNSEALED;
      const tenon_status status =
          tenon_open_filename(&request->name_handle, &options, nullptr, &storage, &error);
      if (status != TENON_OK) return take_error(status, error);
      return touch_and_release(storage);
    }
  }
  return Status(Code::kInternal, "an unknown request");
}

// Sends one message, with at most one fd (-1: none). -1: errno says why, for example EPIPE if the
// other side is gone.
ssize_t send_with_fd(int socket, const void* bytes, size_t nbytes, int fd) noexcept {
  iovec part{const_cast<void*>(bytes), nbytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL);
}

// Receives one message, and the fd that may come with it. 0: the other side is gone.
ssize_t receive_with_fd(int socket, void* bytes, size_t nbytes, Fd* fd) noexcept {
  iovec part{bytes, nbytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (got <= 0) return got;
  if (const cmsghdr* header = CMSG_FIRSTHDR(&message);
      header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    int number = -1;
    std::memcpy(&number, CMSG_DATA(header), sizeof number);
    *fd = Fd(number);
  }
  return got;
}

[[noreturn]] void serve(int socket) {
  BorrowRequest request;
  for (;;) {
    Fd fd;
    if (receive_with_fd(socket, &request, sizeof request, &fd) !=
        static_cast<ssize_t>(sizeof request))
      std::_Exit(0);
    const Status status = borrow(&request, std::move(fd));
    Answer answer;
    answer.code = static_cast<int32_t>(status.code());
    status.message().copy(answer.message, sizeof answer.message - 1);
    if (send(socket, &answer, sizeof answer, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof answer))
      std::_Exit(1);
  }
}

}  // namespace

Result<BorrowerProcess> BorrowerProcess::start() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return errno_status(errno, "a pair of sockets");
  Fd here(ends[0]);
  Fd there(ends[1]);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return errno_status(errno, "a second process");
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) std::_Exit(1);
    here.reset();
    serve(there.get());
  }
  return BorrowerProcess(pid, std::move(here));
}

BorrowerProcess::~BorrowerProcess() {
  if (!socket_.is_open()) return;
  socket_.reset();
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Status BorrowerProcess::ask(const BorrowRequest& request, int fd) {
  if (send_with_fd(socket_.get(), &request, sizeof request, fd) < 0)
    return errno_status(errno, "asking the other process");
  Answer answer;
  const ssize_t got = recv(socket_.get(), &answer, sizeof answer, 0);
  if (got < 0) return errno_status(errno, "hearing from the other process");
  if (got != static_cast<ssize_t>(sizeof answer))
    return Status(Code::kPeerGone, "the other process ended");
  if (answer.code == 0) return Status::ok();
  return Status(static_cast<Code>(answer.code), format("the other process: %s", answer.message));
}

Status take_error(tenon_status status, tenon_error* error) {
  if (status == TENON_OK) return Status::ok();
  Status result(static_cast<Code>(status),
                error != nullptr ? tenon_error_message(error) : tenon_status_name(status));
  tenon_error_release(error);
  return result;
}

}  // namespace tenon::cli

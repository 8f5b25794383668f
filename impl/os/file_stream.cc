#include "os/file_stream.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>

#include "os/limits.h"

namespace tenon::os {
namespace {

constexpr uint64_t kMostAtOnce = uint64_t{1} << 30;

// Blocks the signals that a failing write sends to its own thread. take_away() removes such a
// signal, unless it was pending before.
class NoWriteSignals {
 public:
  NoWriteSignals() noexcept {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGPIPE);
    sigaddset(&signals_, SIGXFSZ);
    sigemptyset(&before_);
    pthread_sigmask(SIG_BLOCK, &signals_, &mask_);
    // A signal that the thread does not block cannot have been pending.
    if (sigismember(&mask_, SIGPIPE) == 1 || sigismember(&mask_, SIGXFSZ) == 1)
      sigpending(&before_);
  }
  NoWriteSignals(const NoWriteSignals&) = delete;
  NoWriteSignals& operator=(const NoWriteSignals&) = delete;
  ~NoWriteSignals() { pthread_sigmask(SIG_SETMASK, &mask_, nullptr); }

  void take_away(int signal) const noexcept {
    if (sigismember(&before_, signal) == 1) return;
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal);
    const timespec at_once{};
    while (sigtimedwait(&one, nullptr, &at_once) < 0 && errno == EINTR) {
    }
  }

 private:
  sigset_t signals_{};
  sigset_t before_{};
  sigset_t mask_{};
};

Status write_failed(int error, const std::string& name) {
  const std::string what = format("writing %s", name.c_str());
  if (error != EFBIG) return errno_status(error, what);
  const uint64_t limit = file_size_limit();
  if (limit == UINT64_MAX) {
    return Status(Code::kResourceExhausted,
                  what + ": over the largest file that the file system has")
        .with("errno", error)
        .with("limit", std::string("file system's file size"));
  }
  return Status(Code::kResourceExhausted, format("%s: over RLIMIT_FSIZE (%llu bytes)", what.c_str(),
                                                 static_cast<unsigned long long>(limit)))
      .with("errno", error)
      .with("limit", std::string("RLIMIT_FSIZE"))
      .with("limit_value", limit);
}

iovec as_iovec(std::span<const std::byte> bytes) noexcept {
  return {const_cast<std::byte*>(bytes.data()),
          static_cast<size_t>(std::min<uint64_t>(bytes.size(), kMostAtOnce))};
}

// Waits until there is room or none can be expected. The next write shows which.
void wait_for_room(int fd) noexcept {
  pollfd one{fd, POLLOUT, 0};
  while (poll(&one, 1, -1) < 0 && errno == EINTR) {
  }
}

}  // namespace

Result<Fd> open_to_read(const std::string& path) {
  Fd fd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!fd.is_open()) return with_fd_limit(errno_status(errno, path)).with("path", path);
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) return errno_status(errno, path).with("path", path);
  if (!S_ISREG(info.st_mode)) {
    return Status(Code::kInvalidArgument, format("%s is no regular file, so it cannot be mapped: "
                                                 "read it to its end, and import the bytes",
                                                 path.c_str()))
        .with("path", path);
  }
  return fd;
}

Status read_at(int fd, uint64_t offset, void* to, uint64_t nbytes, const std::string& name) {
  auto* at = static_cast<char*>(to);
  while (nbytes > 0) {
    const ssize_t got = pread(fd, at, std::min(nbytes, kMostAtOnce), static_cast<off_t>(offset));
    if (got < 0) {
      if (errno == EINTR) continue;
      return errno_status(errno, format("reading %s", name.c_str()));
    }
    if (got == 0) {
      return Status(Code::kCorrupt,
                    format("%s was cut short while it was read: it ends at byte %llu", name.c_str(),
                           static_cast<unsigned long long>(offset)))
          .with("offset", offset);
    }
    at += got;
    offset += static_cast<uint64_t>(got);
    nbytes -= static_cast<uint64_t>(got);
  }
  return Status::ok();
}

Status write_whole(int fd, std::span<const std::byte> head, std::span<const std::byte> body,
                   const std::string& name) {
  const NoWriteSignals quiet;
  while (!head.empty() || !body.empty()) {
    const iovec pieces[] = {as_iovec(head), as_iovec(body)};
    const ssize_t done =
        head.empty() ? ::write(fd, pieces[1].iov_base, pieces[1].iov_len) : ::writev(fd, pieces, 2);
    if (done > 0) {
      const auto nbytes = static_cast<size_t>(done);
      const size_t of_head = std::min(nbytes, head.size());
      head = head.subspan(of_head);
      body = body.subspan(nbytes - of_head);
      continue;
    }
    // A device that writes nothing and reports no error has no room.
    const int error = done == 0 ? ENOSPC : errno;
    if (error == EINTR) continue;
    if (error == EAGAIN) {
      wait_for_room(fd);
      continue;
    }
    if (error == EPIPE) quiet.take_away(SIGPIPE);
    if (error == EFBIG) quiet.take_away(SIGXFSZ);
    return write_failed(error, name);
  }
  return Status::ok();
}

}  // namespace tenon::os

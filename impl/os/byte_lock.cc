#include "os/byte_lock.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "os/limits.h"

namespace tenon::os {
namespace {

using FdPath = std::array<char, 40>;

FdPath path_of_fd(int fd) noexcept {
  FdPath path;
  std::snprintf(path.data(), path.size(), "/proc/self/fd/%d", fd);
  return path;
}

flock byte_at(uint64_t at, int16_t type) noexcept {
  flock byte{};  // l_pid must be 0
  byte.l_type = type;
  byte.l_whence = SEEK_SET;
  byte.l_start = static_cast<off_t>(at);
  byte.l_len = 1;
  return byte;
}

}  // namespace

Fd open_for_locks(int file) noexcept {
  return Fd(::open(path_of_fd(file).data(), O_RDWR | O_CLOEXEC | O_NOCTTY));
}

bool lock_byte(const Fd& file, uint64_t at) noexcept {
  flock byte = byte_at(at, F_WRLCK);
  return ::fcntl(file.get(), F_OFD_SETLK, &byte) == 0;
}

void unlock_byte(const Fd& file, uint64_t at) noexcept {
  flock byte = byte_at(at, F_UNLCK);
  (void)::fcntl(file.get(), F_OFD_SETLK, &byte);
}

bool has_locked_byte(const Fd& file, uint64_t at) noexcept {
  flock byte = byte_at(at, F_WRLCK);
  return ::fcntl(file.get(), F_OFD_GETLK, &byte) != 0 || byte.l_type != F_UNLCK;
}

Result<CloseWatch> CloseWatch::create() {
  CloseWatch watch;
  watch.fd_ = Fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!watch.is_open()) return with_fd_limit(errno_status(errno, "watching a file for closes"));
  return watch;
}

int CloseWatch::add(const Fd& file) noexcept {
  return ::inotify_add_watch(fd_.get(), path_of_fd(file.get()).data(), IN_CLOSE_WRITE);
}

void CloseWatch::remove(int number) noexcept { (void)::inotify_rm_watch(fd_.get(), number); }

void CloseWatch::drain() noexcept {
  alignas(inotify_event) std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t got = ::read(fd_.get(), buffer.data(), buffer.size());
    // A short read has taken all events. A process that closes files without end cannot hold the
    // reader.
    if (got >= 0 || errno != EINTR) return;
  }
}

}  // namespace tenon::os

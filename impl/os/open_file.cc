#include "os/open_file.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tenon::os {
namespace {

#ifndef SYS_pidfd_getfd
constexpr long SYS_pidfd_getfd = 438;
#endif
constexpr int kDupfdQuery = 1024 + 3;  // F_DUPFD_QUERY, Linux 6.10
constexpr int kKcmpFile = 0;           // KCMP_FILE, where a seccomp filter does not forbid it

Status refused(int error, int number) {
  const auto fail = [&](Code code, const char* why) {
    return Status(code, format("fetching fd %d of another process: %s%s", number, std::strerror(error), why)).with("errno", error);
  };
  switch (error) {
    case EPERM: return fail(Code::kPermission, " (the kernel asks for the right to trace that process, which containers often take away)");
    case EBADF: return fail(Code::kNotFound, "");
    case ESRCH: return fail(Code::kPeerGone, "");
    case ENOSYS: return fail(Code::kUnsupported, " (it takes Linux 5.6)");
    case EMFILE:
    case ENFILE: return fail(Code::kResourceExhausted, "").with("limit", std::string("file descriptors"));
    default: return fail(Code::kIo, "");
  }
}

}  // namespace

Result<Fd> fetch_fd(const Fd& pidfd, int number) {
  Fd fetched(static_cast<int>(::syscall(SYS_pidfd_getfd, pidfd.get(), number, 0)));
  if (!fetched.is_open()) return refused(errno, number);
  return fetched;
}

bool is_same_open_file(int one, int other) noexcept {
  const int told = ::fcntl(one, kDupfdQuery, other);
  if (told >= 0) return told == 1;
  const pid_t self = ::getpid();
  return ::syscall(SYS_kcmp, self, self, kKcmpFile, one, other) == 0;
}

}  // namespace tenon::os

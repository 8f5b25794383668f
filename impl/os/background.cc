#include "os/background.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>

namespace tenon::os {

namespace {

// Closes all fds from `first` to `last`, either of which may not be open.
void close_fds(unsigned first, unsigned last) noexcept {
  if (first > last) return;
#ifdef SYS_close_range
  if (::syscall(SYS_close_range, first, last, 0U) == 0) return;
#endif
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const auto most = static_cast<unsigned>(std::min<rlim_t>(limit.rlim_cur, 65536));
  for (unsigned fd = first; fd <= last && fd < most; ++fd) ::close(static_cast<int>(fd));
}

}  // namespace

void close_inherited_fds() noexcept { close_inherited_fds_but({}); }

void close_inherited_fds_but(std::span<int> fds) noexcept {
  // open() returns the lowest free number, so this loop fills the gaps below 3.
  int fd = 0;
  do {
    fd = ::open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) ::close(fd);
  std::sort(fds.begin(), fds.end());
  unsigned next = STDERR_FILENO + 1;
  for (const int kept : fds) {
    if (kept < static_cast<int>(next)) continue;
    close_fds(next, static_cast<unsigned>(kept) - 1);
    next = static_cast<unsigned>(kept) + 1;
  }
  close_fds(next, ~0U);
}

Result<Fd> open_null() {
  Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null.is_open()) return errno_status(errno, "/dev/null");
  return null;
}

void silence_standard_fds(const Fd& null) noexcept {
  for (int fd = 0; fd <= STDERR_FILENO; ++fd) ::dup2(null.get(), fd);
}

Status print_line(std::string_view line) {
  std::string text(line);
  text.push_back('\n');
  for (std::string_view left = text; !left.empty();) {
    const ssize_t written = ::write(STDOUT_FILENO, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno_status(errno, "printing to stdout");
    left.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

Result<bool> fork_to_background() {
  const pid_t child = ::fork();
  if (child < 0) return errno_status(errno, "going to the background");
  if (child > 0) return false;
  ::setsid();
  return true;
}

Result<Fd> ending_signals() {
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    ::signal(number, SIG_DFL);  // a signal that our parent process ignored would never arrive
    ::sigaddset(&signals, number);
  }
  Fd fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.is_open()) return errno_status(errno, "an fd for signals");
  if (::sigprocmask(SIG_SETMASK, &signals, nullptr) != 0)
    return errno_status(errno, "blocking signals");
  return fd;
}

Result<std::string> make_private_folder(const std::string& prefix) {
  std::string path = prefix + "XXXXXX";
  if (::mkdtemp(path.data()) != nullptr) return path;
  return errno_status(errno, "a new directory " + prefix + "XXXXXX").with("path", path);
}

void remove_folder(const std::string& path) noexcept { ::rmdir(path.c_str()); }

}  // namespace tenon::os

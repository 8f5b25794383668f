#include "keeper_lock.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "os/clock.h"
#include "os/lock_file.h"
#include "os/process.h"
#include "os/wait.h"

namespace tenon::cli {
namespace {

using shared_weights::Place;

constexpr int64_t kPauseNs = 1'000'000;

std::string path_of(const Place& place) { return place.directory + "/" + place.name + ".keep"; }

struct flock whole_file(int type) noexcept {
  struct flock lock{};
  lock.l_type = static_cast<short>(type);
  lock.l_whence = SEEK_SET;
  return lock;
}

bool set_lock(int fd, int type) noexcept {
  struct flock lock = whole_file(type);
  return fcntl(fd, F_SETLK, &lock) == 0;
}

// A process that has the lock. 0: there is none. Below 0: one that has no pid here.
pid_t owner_of(int fd) noexcept {
  struct flock lock = whole_file(F_WRLCK);
  if (fcntl(fd, F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return 0;
  return lock.l_pid > 0 ? lock.l_pid : -1;
}

// The record lock needs an fd that may write.
Result<os::Fd> open_to_lock(const Place& place) {
  const std::string path = path_of(place);
  TENON_ASSIGN(const os::Fd made, os::open_lock_file(path, true, place.mode, place.group));
  os::Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.is_open() && errno != ENOENT)
    return errno_status(errno, "opening " + path).with("path", path);
  return fd;
}

Status keeper_error(Code code, const Place& place, pid_t pid, const char* why) {
  Status status(code, format("the weights \"%s\" in %s: %s", place.name.c_str(),
                             place.directory.c_str(), why));
  if (pid > 0) status = std::move(status).with("pid", pid);
  return std::move(status).with("path", path_of(place));
}

// Sends SIGTERM to the process that has the lock, and waits until it has ended.
Status end_keeper(const Place& place, int fd, pid_t pid, int64_t deadline_ns) {
  const os::Fd process = os::open_pidfd(pid);
  if (!process.is_open() && errno == ENOSYS)
    return keeper_error(Code::kUnsupported, place, pid,
                        format("this kernel has no pidfds: end process %d with kill", pid).c_str());
  // If the same process has the lock now, the pidfd leads to it and not to a later process of that
  // pid.
  if (!process.is_open() || owner_of(fd) != pid) return Status::ok();
  if (::syscall(SYS_pidfd_send_signal, process.get(), SIGTERM, nullptr, 0) != 0) {
    if (errno == ESRCH) return Status::ok();
    return keeper_error(
        errno == EPERM ? Code::kPermission : Code::kIo, place, pid,
        format("process %d of another user keeps them: let that user drop them", pid).c_str());
  }
  os::Waiter waiter(os::Wait{.timeout_ns = std::max<int64_t>(deadline_ns - os::monotonic_ns(), 1)});
  if (waiter.until_ready(process.get(), POLLIN, "the end of a keeper").is_ok()) return Status::ok();
  return keeper_error(Code::kTimeout, place, pid,
                      format("process %d has got SIGTERM and does not end: continue it if it is "
                             "stopped (kill -CONT %d), or kill it",
                             pid, pid)
                          .c_str());
}

}  // namespace

Result<KeeperLock> KeeperLock::take(const Place& place) {
  const std::string path = path_of(place);
  for (;;) {
    TENON_TRY(shared_weights::make_directory(place));
    Result<os::Fd> opened = open_to_lock(place);
    // A process that leaves the default directory removes it if it is empty.
    const bool is_gone = place.is_default && opened.status().code() == Code::kNotFound;
    if (!opened.is_ok() && !is_gone) return opened.status();
    os::Fd fd = is_gone ? os::Fd() : std::move(opened).value();
    // The last keeper that leaves has the file locked exclusively for a moment, and removes it.
    if (fd.is_open() && set_lock(fd.get(), F_RDLCK) && os::is_still_at(fd.get(), path))
      return KeeperLock(std::move(fd), place);
    os::Waiter pause(os::Wait{});
    TENON_TRY(pause.pause(kPauseNs, "a lock"));
  }
}

KeeperLock::~KeeperLock() {
  if (!fd_.is_open()) return;
  if (set_lock(fd_.get(), F_WRLCK)) ::unlink(path_of(place_).c_str());
  shared_weights::remove_empty_directory(place_);
}

Result<std::vector<pid_t>> end_keepers(const Place& place, int64_t patience_ns) {
  const int64_t deadline_ns = os::monotonic_ns() + patience_ns;
  std::vector<pid_t> ended;
  Result<os::Fd> opened =
      os::open_lock_file(path_of(place), false, place.mode, static_cast<gid_t>(-1));
  if (!opened.is_ok() && opened.status().code() != Code::kNotFound) return opened.status();
  while (opened.is_ok()) {
    const int fd = opened.value().get();
    const pid_t pid = owner_of(fd);
    if (pid < 0)
      return keeper_error(Code::kUnsupported, place, pid,
                          "a process of another container keeps them: drop them there");
    if (pid == 0) break;
    TENON_TRY(end_keeper(place, fd, pid, deadline_ns));
    ended.push_back(pid);
  }
  if (ended.empty())
    return keeper_error(Code::kNotFound, place, 0,
                        "no process keeps them. `tenon weights ls` shows who has weights");
  return ended;
}

}  // namespace tenon::cli

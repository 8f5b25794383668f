#include "os/lock_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <memory>

#include "os/host.h"

namespace tenon::os {
namespace {

// A process that makes a file for a group sets the permission bits after the open. Until then the
// other members of the group may not open it.
constexpr int kMostTries = 20;

Status cannot(int error, const char* what, const std::string& path) {
  return errno_status(error, format("%s %s", what, path.c_str())).with("path", path);
}

}  // namespace

Result<Fd> open_lock_file(const std::string& path, bool create, mode_t mode, gid_t group) {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  Fd fd;
  bool is_new = false;
  for (int tries = 0; !fd.is_open(); ++tries) {
    fd = Fd(::open(path.c_str(), kFlags));
    if (fd.is_open()) break;
    int error = errno;
    if (error == ENOENT && create) {
      fd = Fd(::open(path.c_str(), kFlags | O_CREAT | O_EXCL, mode));
      is_new = fd.is_open();
      if (is_new) break;
      error = errno;
      if (error == EEXIST && tries < kMostTries) continue;
    }
    if (error == ELOOP)
      return Status(Code::kCorrupt, format("%s is a symbolic link", path.c_str()))
          .with("path", path);
    const bool may_be_new = error == EACCES && group != static_cast<gid_t>(-1);
    if (!may_be_new || tries >= kMostTries) return cannot(error, "opening", path);
    const timespec pause{0, 1'000'000};
    ::nanosleep(&pause, nullptr);
  }
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return cannot(errno, "looking at", path);
  if (!S_ISREG(info.st_mode))
    return Status(Code::kCorrupt, format("%s is no file", path.c_str())).with("path", path);
  if (is_new) {
    // The group is set before the mode, because the mode was chosen for that group.
    const bool is_given =
        group == static_cast<gid_t>(-1) || ::fchown(fd.get(), static_cast<uid_t>(-1), group) == 0;
    if (!is_given || ::fchmod(fd.get(), mode) != 0) {
      const int error = errno;
      ::unlink(path.c_str());
      return cannot(error, "setting the access of", path);
    }
  }
  return fd;
}

bool is_still_at(int fd, const std::string& path) noexcept {
  struct stat mine{};
  struct stat now{};
  return ::fstat(fd, &mine) == 0 && ::lstat(path.c_str(), &now) == 0 && mine.st_dev == now.st_dev &&
         mine.st_ino == now.st_ino;
}

std::vector<pid_t> lock_owners(int fd) {
  std::vector<pid_t> found;
  struct stat info{};
  if (::fstat(fd, &info) != 0) return found;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> table(std::fopen("/proc/locks", "re"),
                                                              &std::fclose);
  char line[256];
  while (table && std::fgets(line, sizeof line, table.get()) != nullptr) {
    int pid = 0;
    unsigned major_number = 0;
    unsigned minor_number = 0;
    unsigned long long inode = 0;
    if (std::sscanf(line, "%*u: FLOCK %*s %*s %d %x:%x:%llu", &pid, &major_number, &minor_number,
                    &inode) != 4)
      continue;
    const bool is_it = inode == info.st_ino && major_number == major(info.st_dev) &&
                       minor_number == minor(info.st_dev);
    if (is_it && pid > 0) found.push_back(pid);
  }
  return found;
}

Status make_private_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return cannot(errno, "making the directory", path);
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) return cannot(errno, "looking at", path);
  constexpr mode_t kOfOthers = 0077;
  if (S_ISDIR(info.st_mode) && info.st_uid == user_id() && (info.st_mode & kOfOthers) == 0)
    return Status::ok();
  return Status(Code::kPermission,
                format("%s is no directory of this user alone: remove it, or choose another "
                       "directory",
                       path.c_str()))
      .with("path", path)
      .with("uid", static_cast<int64_t>(info.st_uid));
}

bool is_on_network(int directory) noexcept {
  struct statfs info{};
  if (::fstatfs(directory, &info) != 0) return false;
  constexpr unsigned long kNfs = 0x6969;
  constexpr unsigned long kSmb2 = 0xfe534d42;
  constexpr unsigned long kCifs = 0xff534d42;
  constexpr unsigned long kNineP = 0x01021997;
  const auto kind = static_cast<unsigned long>(info.f_type) & 0xffffffffUL;
  return kind == kNfs || kind == kSmb2 || kind == kCifs || kind == kNineP;
}

}  // namespace tenon::os

// Gives this process and its children a /dev/shm that no other process sees.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <string>

namespace fault {

// Returns false if this user may not do that. Nothing that matters has changed then. Call it before
// the process has other threads.
inline bool has_own_shm(const char* options = "mode=1777") {
  const auto put_text = [](const char* path, const std::string& text) {
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    const bool good = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    close(fd);
    return good;
  };
  const uid_t uid = geteuid();
  const gid_t gid = getegid();
  if (unshare(CLONE_NEWNS | (uid == 0 ? 0 : CLONE_NEWUSER)) != 0) return false;
  if (uid != 0 &&
      !(put_text("/proc/self/setgroups", "deny") &&
        put_text("/proc/self/uid_map", std::to_string(uid) + " " + std::to_string(uid) + " 1") &&
        put_text("/proc/self/gid_map", std::to_string(gid) + " " + std::to_string(gid) + " 1"))) {
    return false;
  }
  return mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", "/dev/shm", "tmpfs", 0, options) == 0;
}

}  // namespace fault

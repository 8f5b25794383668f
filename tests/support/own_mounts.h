// Gives the test's own process namespaces and file systems that no other process sees. The tests of
// full file systems, of /dev/shm and of containers use it.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

namespace tenon::test {

// Whether a user other than root keeps its uid and gid in its new user namespace, or is 0 there.
enum class NamespaceUser : uint8_t { kSame, kRoot };

// Writes a setting of this process in /proc. Returns false, with errno, on failure.
inline bool write_setting(const std::string& path, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool good = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int why = errno;
  close(fd);
  errno = why;
  return good;
}

// Lets the uid and gid `outside` be `inside` in the user namespace that this process has made.
inline bool map_user(std::pair<uid_t, gid_t> inside, std::pair<uid_t, gid_t> outside) {
  const auto map = [](unsigned in, unsigned out) {
    return std::to_string(in) + " " + std::to_string(out) + " 1";
  };
  return write_setting("/proc/self/setgroups", "deny") &&
         write_setting("/proc/self/uid_map", map(inside.first, outside.first)) &&
         write_setting("/proc/self/gid_map", map(inside.second, outside.second));
}

// Makes the namespaces of `flags` (CLONE_NEW*). A user other than root gets a user namespace too,
// without which the kernel refuses the others. Returns false, with errno, on failure. Call it
// before the process has other threads.
inline bool enter_namespaces(int flags, NamespaceUser as = NamespaceUser::kSame) {
  const uid_t uid = geteuid();
  const gid_t gid = getegid();
  if (unshare(flags | (uid == 0 ? 0 : CLONE_NEWUSER)) != 0) return false;
  if (uid == 0) return true;
  return as == NamespaceUser::kRoot ? map_user({0, 0}, {uid, gid})
                                    : map_user({uid, gid}, {uid, gid});
}

// Mounts a tmpfs over a folder, in a mount namespace that this process has made. Returns false,
// with errno, on failure.
inline bool mount_own_tmpfs(const std::string& where, const char* options) {
  return mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", where.c_str(), "tmpfs", 0, options) == 0;
}

}  // namespace tenon::test

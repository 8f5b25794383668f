#include "os/host.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "os/foreign.h"
#include "os/limits.h"
#include "os/process.h"

namespace tenon::os {
namespace {

HostIdentity read_identity() {
  HostIdentity identity;
  identity.pid_namespace = pid_namespace();
  const Fd fd(open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  char text[40];
  const ssize_t length = fd.is_open() ? read(fd.get(), text, sizeof text) : 0;
  size_t nibble = 0;
  for (ssize_t i = 0; i < length && nibble < 32; ++i) {
    const char c = text[i];
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) continue;
    identity.boot_id[nibble / 2] = static_cast<uint8_t>(identity.boot_id[nibble / 2] << 4 | digit);
    ++nibble;
  }
  return identity;
}

Status gone(const RemoteFile& file, const char* why) {
  return Status(Code::kPeerGone, format("fd %d of process %d %s", file.fd, file.pid, why))
      .with("pid", file.pid)
      .with("fd", file.fd);
}

// The identity is read when the library is loaded and not at the first use, because /proc cannot be
// read at the fd limit.
const HostIdentity g_identity = read_identity();

}  // namespace

const HostIdentity& host_identity() { return g_identity; }

uint64_t pid_namespace() noexcept {
  struct stat info{};
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

int32_t process_id() noexcept { return getpid(); }

uint32_t user_id() noexcept { return geteuid(); }

Result<Fd> open_remote_fd(const RemoteFile& file, bool writable) {
  Fd process = open_process(file.pid);
  if (!process.is_open()) {
    if (errno == ENOENT || errno == ESRCH) return gone(file, "is gone");
    return with_fd_limit(
        errno_status(errno, format("process %d in /proc", file.pid)).with("pid", file.pid));
  }
  if (!file.other_user) TENON_TRY(check_folder_user(process, file.pid, "OTHER_USER"));
  // The file is opened with O_PATH first. Its number may belong to a device or a pipe by now, and a
  // real open of one can have effects.
  const std::string path = format("/proc/%d/fd/%d", file.pid, file.fd);
  const std::string below = format("fd/%d", file.fd);
  const Fd handle(openat(process.get(), below.c_str(), O_PATH | O_CLOEXEC));
  if (!handle.is_open()) {
    if (errno == ENOENT || errno == ESRCH) return gone(file, "is gone");
    const int error = errno;
    return with_fd_limit(errno_status(error, format("reaching fd %d of process %d through %s",
                                                    file.fd, file.pid, path.c_str()))
                             .with("path", path)
                             .with("pid", file.pid));
  }
  process.reset();
  TENON_ASSIGN(const FileInfo found, stat_file(handle.get()));
  if (!found.regular || found.device != file.device || found.inode != file.inode ||
      found.nbytes != file.nbytes)
    return gone(file, "is another file by now");
  // If the file's name has no nonce, `file` must have a nonce of zeros.
  Nonce nonce{};
  (void)read_nonce(handle.get(), &nonce);
  if (nonce != file.nonce) return gone(file, "is another file by now");
  Result<Fd> fd =
      open_handle(handle, writable, format("opening fd %d of process %d", file.fd, file.pid));
  if (fd.is_ok()) return fd;
  return std::move(fd).status().with("pid", file.pid);
}

}  // namespace tenon::os

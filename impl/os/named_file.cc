#include "os/named_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <limits>
#include <memory>

#include "os/limits.h"

namespace tenon::os {
namespace {

int64_t nanoseconds(const timespec& time) noexcept {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

NameInfo read_info(const struct stat& info) noexcept {
  NameInfo result;
  if (S_ISREG(info.st_mode)) result.kind = NameInfo::Kind::kFile;
  if (S_ISSOCK(info.st_mode)) result.kind = NameInfo::Kind::kSocket;
  result.device = info.st_dev;
  result.inode = info.st_ino;
  result.nbytes = info.st_size < 0 ? 0 : static_cast<uint64_t>(info.st_size);
  result.allocated_nbytes = static_cast<uint64_t>(info.st_blocks) * 512;
  result.uid = info.st_uid;
  result.gid = info.st_gid;
  result.mode = info.st_mode & 07777;
  result.links = info.st_nlink;
  result.changed_ns = std::max(nanoseconds(info.st_mtim), nanoseconds(info.st_ctim));
  return result;
}

Status copy_failed(int error, const char* direction) {
  if (error == EFAULT)
    return Status(Code::kCorrupt,
                  "the file under the storage was cut short: some of its bytes are gone")
        .with("errno", error);
  return errno_status(error, format("copying %s a mapping", direction));
}

// Copies with process_vm_readv or process_vm_writev on this very process. The kernel then does the
// copy, and returns EFAULT where the mapping has lost its file.
template <typename Copy>
Status copy_in_pieces(const std::byte* local, const std::byte* mapped, uint64_t nbytes,
                      const char* direction, Copy copy) {
  while (nbytes > 0) {
    const uint64_t piece = std::min<uint64_t>(nbytes, uint64_t{1} << 30);
    const iovec here{const_cast<std::byte*>(local), piece};
    const iovec there{const_cast<std::byte*>(mapped), piece};
    const ssize_t done = copy(&here, &there);
    if (done < 0) {
      if (errno == EINTR) continue;
      return copy_failed(errno, direction);
    }
    if (done == 0) return copy_failed(EFAULT, direction);
    local += done;
    mapped += done;
    nbytes -= static_cast<uint64_t>(done);
  }
  return Status::ok();
}

}  // namespace

Result<Fd> open_directory(const std::string& path) {
  Fd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (fd.is_open()) return fd;
  const int error = errno;
  if (error == ENOTDIR || error == ELOOP)
    return with_path(Status(Code::kInvalidArgument, format("%s is not a directory", path.c_str()))
                         .with("errno", error),
                     path);
  return with_path(with_fd_limit(errno_status(error, format("directory %s", path.c_str()))), path);
}

Result<NameInfo> look_at_name(int directory, const std::string& leaf) {
  struct stat info{};
  if (fstatat(directory, leaf.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
    return errno_status(errno, leaf).with("path", leaf);
  return read_info(info);
}

Result<NameInfo> look_at_file(int fd) {
  struct stat info{};
  if (fstat(fd, &info) != 0) return errno_status(errno, format("fd %d", fd)).with("fd", fd);
  return read_info(info);
}

Result<NameInfo> look_at_path(const std::string& path) { return look_at_name(AT_FDCWD, path); }

Result<Fd> open_name(int directory, const std::string& leaf, bool writable) {
  Fd fd(openat(directory, leaf.c_str(),
               (writable ? O_RDWR : O_RDONLY) | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (fd.is_open()) return fd;
  const int error = errno;
  if (error == EWOULDBLOCK)
    return Status(Code::kWouldBlock, format("%s is being looked at by a sweep", leaf.c_str()))
        .with("path", leaf);
  if (error == ELOOP)
    return Status(Code::kCorrupt, format("%s is a link", leaf.c_str()))
        .with("errno", error)
        .with("path", leaf);
  if (error == ENXIO || error == ENODEV || error == EISDIR)
    return Status(Code::kCorrupt, format("%s is no file", leaf.c_str()))
        .with("errno", error)
        .with("path", leaf);
  return with_fd_limit(errno_status(error, leaf)).with("path", leaf);
}

Result<Fd> create_name(int directory, const std::string& leaf) {
  Fd fd(openat(directory, leaf.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (fd.is_open()) return fd;
  if (errno == EEXIST)
    return Status(Code::kPermission, format("the name %s is taken", leaf.c_str()))
        .with("errno", errno)
        .with("path", leaf);
  return with_fd_limit(errno_status(errno, format("a new file %s", leaf.c_str())));
}

Result<Fd> create_nameless(int directory, const std::string& path) {
  Fd fd(openat(directory, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600));
  if (fd.is_open()) return fd;
  const int error = errno;
  if (error == EOPNOTSUPP || error == EISDIR) {
    return with_path(Status(Code::kUnsupported,
                            format("the file system of %s has no files without a name (O_TMPFILE)",
                                   path.c_str()))
                         .with("errno", error),
                     path);
  }
  return with_path(with_fd_limit(errno_status(error, format("a new file in %s", path.c_str()))),
                   path);
}

Status set_access(int fd, mode_t mode, gid_t group, const std::string& path) {
  if (group != static_cast<gid_t>(-1) && fchown(fd, static_cast<uid_t>(-1), group) != 0)
    return with_path(errno_status(errno, format("giving %s to group %u", path.c_str(), group)),
                     path);
  if (fchmod(fd, mode) != 0)
    return with_path(errno_status(errno, format("setting the mode of %s", path.c_str())), path);
  return Status::ok();
}

Status rename_name(int directory, const std::string& from, const std::string& leaf,
                   const std::string& path) {
  // musl's headers have neither renameat2 nor its flag.
  constexpr unsigned kNoReplace = 1;
  int done = static_cast<int>(
      ::syscall(SYS_renameat2, directory, from.c_str(), directory, leaf.c_str(), kNoReplace));
  if (done != 0 && (errno == EINVAL || errno == ENOSYS)) {
    // The file system or the kernel has no renameat2.
    done = linkat(directory, from.c_str(), directory, leaf.c_str(), 0);
    if (done == 0) (void)unlinkat(directory, from.c_str(), 0);
  }
  if (done == 0) return Status::ok();
  const int error = errno;
  if (error == EEXIST)
    return with_path(
        Status(
            Code::kPermission,
            format(
                "the name %s is taken, and a process may hold it (`tenon ls` shows which): choose "
                "another name, or have this one released first",
                path.c_str()))
            .with("errno", error),
        path);
  return with_path(errno_status(error, format("naming a file %s", path.c_str())), path);
}

Status set_file_size(int fd, uint64_t nbytes) {
  if (ftruncate(fd, static_cast<off_t>(nbytes)) == 0) return Status::ok();
  return errno_status(errno,
                      format("a file of %llu bytes", static_cast<unsigned long long>(nbytes)));
}

Status unlink_name(int directory, const std::string& leaf) {
  if (unlinkat(directory, leaf.c_str(), 0) == 0 || errno == ENOENT) return Status::ok();
  return errno_status(errno, format("removing the name %s", leaf.c_str())).with("path", leaf);
}

void NameCursor::Close::operator()(void* stream) const noexcept {
  closedir(static_cast<DIR*>(stream));
}

Result<NameCursor> NameCursor::create(int directory) {
  // The cursor needs a file description of its own, because reading moves its position.
  Fd own(openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!own.is_open()) return with_fd_limit(errno_status(errno, "listing a directory"));
  NameCursor cursor;
  cursor.stream_.reset(fdopendir(own.get()));
  if (!cursor.stream_) return errno_status(errno, "listing a directory");
  (void)own.detach();
  return cursor;
}

bool NameCursor::next(size_t count, const std::function<void(const char* leaf)>& each) {
  auto* const stream = static_cast<DIR*>(stream_.get());
  while (count > 0) {
    const dirent* entry = readdir(stream);
    if (entry == nullptr) {
      rewinddir(stream);
      return false;
    }
    const std::string_view name(entry->d_name);
    if (name == "." || name == "..") continue;
    each(entry->d_name);
    --count;
  }
  return true;
}

Status list_names(int directory, const std::function<bool(const char* leaf)>& each) {
  TENON_ASSIGN(NameCursor cursor, NameCursor::create(directory));
  bool going_on = true;
  while (going_on && cursor.next(1, [&](const char* leaf) { going_on = each(leaf); })) {
  }
  return Status::ok();
}

uint64_t free_space(int fd) noexcept {
  struct statfs system{};
  if (fstatfs(fd, &system) != 0 || system.f_blocks == 0)
    return std::numeric_limits<uint64_t>::max();
  return static_cast<uint64_t>(system.f_bavail) * static_cast<uint64_t>(system.f_bsize);
}

uint64_t total_space(int fd) noexcept {
  struct statfs system{};
  if (fstatfs(fd, &system) != 0 || system.f_blocks == 0)
    return std::numeric_limits<uint64_t>::max();
  return static_cast<uint64_t>(system.f_blocks) * static_cast<uint64_t>(system.f_bsize);
}

bool take_shared_lock(int fd) noexcept { return flock(fd, LOCK_SH | LOCK_NB) == 0; }

bool take_exclusive_lock(int fd) noexcept { return flock(fd, LOCK_EX | LOCK_NB) == 0; }

void drop_lock(int fd) noexcept { (void)flock(fd, LOCK_UN); }

Alone take_lease(int fd) noexcept {
  // The kernel sends a signal to this process when another one opens the file during the lease. The
  // default signal, SIGIO, kills the process. SIGURG is ignored unless the program handles it.
  if (fcntl(fd, F_SETSIG, SIGURG) != 0) return Alone::kUnknown;
  if (fcntl(fd, F_SETLEASE, F_WRLCK) == 0) return Alone::kYes;
  return errno == EAGAIN ? Alone::kNo : Alone::kUnknown;
}

void drop_lease(int fd) noexcept { (void)fcntl(fd, F_SETLEASE, F_UNLCK); }

Status copy_from_mapping(const void* from, void* to, uint64_t nbytes) {
  const pid_t self = getpid();
  return copy_in_pieces(static_cast<const std::byte*>(to), static_cast<const std::byte*>(from),
                        nbytes, "from", [self](const iovec* here, const iovec* there) {
                          return process_vm_readv(self, here, 1, there, 1, 0);
                        });
}

Status copy_to_mapping(const void* from, void* to, uint64_t nbytes) {
  const pid_t self = getpid();
  return copy_in_pieces(static_cast<const std::byte*>(from), static_cast<const std::byte*>(to),
                        nbytes, "to", [self](const iovec* here, const iovec* there) {
                          return process_vm_writev(self, here, 1, there, 1, 0);
                        });
}

int64_t real_time_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return nanoseconds(now);
}

}  // namespace tenon::os

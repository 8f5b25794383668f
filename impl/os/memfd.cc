#include "os/memfd.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "os/limits.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace tenon::os {
namespace {

constexpr std::string_view kNamePrefix = "tenon-";
constexpr std::string_view kLinkPrefix = "/memfd:tenon-";
constexpr std::string_view kMemfdCreate = "memfd_create";
constexpr int kSealPauses = 10;
constexpr timespec kSealPause{.tv_sec = 0, .tv_nsec = 20'000'000};

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

const char* kind_of(mode_t mode) noexcept {
  switch (mode & S_IFMT) {
    case S_IFREG: return "regular file";
    case S_IFDIR: return "directory";
    case S_IFSOCK: return "socket";
    case S_IFIFO: return "pipe";
    case S_IFCHR: return "character device";
    case S_IFBLK: return "block device";
    default: return "anonymous inode";
  }
}

}  // namespace

Result<Nonce> random_nonce() {
  Nonce nonce{};
  size_t done = 0;
  while (done < nonce.size()) {
    const ssize_t got = getrandom(nonce.data() + done, nonce.size() - done, 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      return errno_status(errno, "getrandom");
    }
    done += static_cast<size_t>(got);
  }
  return nonce;
}

std::string hex(const Nonce& nonce) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(nonce.size() * 2);
  for (const uint8_t byte : nonce) {
    text.push_back(digits[byte >> 4]);
    text.push_back(digits[byte & 15]);
  }
  return text;
}

std::string memfd_name(const Nonce& nonce) { return std::string(kNamePrefix) + hex(nonce); }

Result<Fd> create_memfd(const Nonce& nonce, uint64_t nbytes) {
  return create_memfd(memfd_name(nonce), nbytes);
}

Result<Fd> create_memfd(const std::string& name, uint64_t nbytes) {
  Fd fd(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL));
  if (!fd.is_open() && errno == EINVAL)
    fd = Fd(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));  // before Linux 6.3
  if (!fd.is_open()) return memfd_status(errno);
  if (ftruncate(fd.get(), static_cast<off_t>(nbytes)) != 0) {
    return errno_status(errno,
                        format("a memfd of %llu bytes", static_cast<unsigned long long>(nbytes)));
  }
  return fd;
}

Status memfd_status(int error) {
  Status status = with_fd_limit(errno_status(error, "a new memfd"));
  const char* why = nullptr;
  if (error == EPERM) why = "a seccomp filter, as containers have, forbids memfd_create";
  if (error == EACCES)
    why = "a policy (vm.memfd_noexec, or a security module) forbids memfd_create";
  if (error == ENOSYS) why = "this kernel, or a seccomp filter, has no memfd_create";
  if (why == nullptr) return status;
  return Status(error == ENOSYS ? Code::kUnsupported : Code::kPermission,
                format("%s: %s, which seals need. Allow it, or use what works without: named "
                       "files, private memory, and storages of mode "
                       "SHARED, which lie in nameless files of /dev/shm that borrowers open with "
                       "allow_unsealed",
                       status.message().c_str(), why))
      .with("errno", error)
      .with("limit", std::string(kMemfdCreate));
}

bool is_memfd_denied(const Status& status) noexcept {
  if (!status.info()) return false;
  const auto& details = status.info()->details;
  return std::any_of(details.begin(), details.end(), [](const Detail& each) {
    return each.key == "limit" && each.value == kMemfdCreate;
  });
}

Result<Fd> create_nameless_file(uint64_t nbytes) {
  // With O_EXCL, linkat() cannot give the file a name.
  Fd fd(open("/dev/shm", O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.is_open())
    return with_path(with_fd_limit(errno_status(errno, "a nameless file in /dev/shm")), "/dev/shm");
  if (ftruncate(fd.get(), static_cast<off_t>(nbytes)) != 0) {
    return with_path(
        errno_status(errno, format("a nameless file of %llu bytes in /dev/shm", as_llu(nbytes))),
        "/dev/shm");
  }
  return fd;
}

bool read_nonce(int fd, Nonce* out) {
  char path[40];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  char target[PATH_MAX];
  const ssize_t length = readlink(path, target, sizeof target);
  if (length < 0) return false;
  const std::string_view name(target, static_cast<size_t>(length));
  if (!name.starts_with(kLinkPrefix) || name.size() < kLinkPrefix.size() + out->size() * 2)
    return false;
  Nonce nonce{};
  for (size_t i = 0; i < nonce.size(); ++i) {
    const int high = hex_digit(name[kLinkPrefix.size() + i * 2]);
    const int low = hex_digit(name[kLinkPrefix.size() + i * 2 + 1]);
    if (high < 0 || low < 0) return false;
    nonce[i] = static_cast<uint8_t>(high * 16 + low);
  }
  *out = nonce;
  return true;
}

Status add_seals(int fd, unsigned seals) {
  // EBUSY: a reference to a page exists for a moment. The kernel itself takes such references when
  // memory is short and it looks for pages to reclaim. The seal against writes waits about 150 ms
  // for them, which is not always enough.
  for (int pauses = 0; fcntl(fd, F_ADD_SEALS, seals) != 0; ++pauses) {
    if (errno == EINVAL)
      return Status(Code::kUnsupported,
                    "this kernel has no seal against future writes (Linux 5.1 has)")
          .with("errno", errno);
    if (errno != EBUSY || pauses == kSealPauses) return errno_status(errno, "sealing a memfd");
    nanosleep(&kSealPause, nullptr);
  }
  return Status::ok();
}

// AT_STATX_DONT_SYNC: fstat would wait for a file's server, if that is in user space or on another
// machine.
Result<FileInfo> stat_file(int fd) {
  struct statx info{};
  if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &info) != 0) {
    const int error = errno;
    return errno_status(error, format("fd %d", fd)).with("fd", fd);
  }
  FileInfo result;
  result.device = makedev(info.stx_dev_major, info.stx_dev_minor);
  result.inode = info.stx_ino;
  result.nbytes = info.stx_size > uint64_t{INT64_MAX} ? 0 : info.stx_size;
  result.allocated_nbytes = info.stx_blocks * 512;
  result.block_nbytes = info.stx_blksize;
  result.regular = S_ISREG(info.stx_mode);
  result.kind = kind_of(info.stx_mode);
  return result;
}

bool is_of_huge_pages(int fd) noexcept {
  struct statfs system{};
  // Only files with seals are asked, because the server of another file may never answer fstatfs.
  return fcntl(fd, F_GET_SEALS) >= 0 && fstatfs(fd, &system) == 0 &&
         system.f_type == HUGETLBFS_MAGIC;
}

Result<FileInfo> inspect_file(int fd) {
  TENON_ASSIGN(FileInfo result, stat_file(fd));
  if (const int seals = fcntl(fd, F_GET_SEALS); seals >= 0) {
    result.seals = static_cast<unsigned>(seals);
    // Only tmpfs and hugetlbfs have seals. fstatfs could wait for a server.
    result.in_memory = true;
  }
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return errno_status(errno, format("fd %d", fd)).with("fd", fd);
  const bool path_only = (flags & O_PATH) != 0;
  result.readable = !path_only && (flags & O_ACCMODE) != O_WRONLY;
  result.writable = !path_only && (flags & O_ACCMODE) == O_RDWR;
  return result;
}

Result<Fd> reopen_read_only(int fd) {
  char path[40];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  Fd reopened(open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!reopened.is_open()) {
    const int error = errno;
    return with_fd_limit(
        errno_status(error, format("reopening a segment read-only through %s", path))
            .with("path", std::string(path)));
  }
  return reopened;
}

Result<Fd> duplicate(int fd) {
  Fd copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy.is_open()) {
    // The kernel gives EINVAL when RLIMIT_NOFILE is 0.
    const int error = errno == EINVAL ? EMFILE : errno;
    return with_fd_limit(errno_status(error, format("duplicating fd %d", fd)).with("fd", fd));
  }
  return copy;
}

Status reserve_pages(int fd, uint64_t offset, uint64_t nbytes) {
  while (fallocate(fd, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                   static_cast<off_t>(nbytes)) != 0) {
    if (errno == EINTR) continue;
    return errno_status(errno, format("reserving %llu bytes of shared memory",
                                      static_cast<unsigned long long>(nbytes)))
        .with("wanted", nbytes);
  }
  return Status::ok();
}

Status write_file(int fd, uint64_t offset, const void* data, uint64_t nbytes) {
  // pwrite past the limit raises SIGXFSZ, even inside a file that is older than the limit.
  TENON_TRY(check_file_size(offset + nbytes));
  const auto* from = static_cast<const char*>(data);
  while (nbytes > 0) {
    const ssize_t done =
        pwrite(fd, from, std::min<uint64_t>(nbytes, uint64_t{1} << 30), static_cast<off_t>(offset));
    if (done < 0) {
      if (errno == EINTR) continue;
      return errno_status(errno, "writing into a segment");
    }
    from += done;
    offset += static_cast<uint64_t>(done);
    nbytes -= static_cast<uint64_t>(done);
  }
  return Status::ok();
}

Status read_file(int fd, uint64_t offset, void* data, uint64_t nbytes) {
  auto* to = static_cast<char*>(data);
  while (nbytes > 0) {
    const ssize_t done =
        pread(fd, to, std::min<uint64_t>(nbytes, uint64_t{1} << 30), static_cast<off_t>(offset));
    if (done < 0) {
      if (errno == EINTR) continue;
      return errno_status(errno, "reading from a segment");
    }
    if (done == 0) {
      return Status(Code::kCorrupt,
                    format("the file under the storage was cut short: %llu bytes are missing",
                           static_cast<unsigned long long>(nbytes)));
    }
    to += done;
    offset += static_cast<uint64_t>(done);
    nbytes -= static_cast<uint64_t>(done);
  }
  return Status::ok();
}

}  // namespace tenon::os

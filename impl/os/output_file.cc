#include "os/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string_view>

#include "os/file_stream.h"
#include "os/limits.h"
#include "os/memfd.h"
#include "os/named_file.h"

namespace tenon::os {
namespace {

constexpr std::string_view kTemporaryPrefix = ".tenon-export-";
constexpr size_t kRandomDigits = 32;
constexpr int kTries = 16;
constexpr int kMostLinks = 40;
// A directory of millions of files is not searched to its end, because that would take longer than
// most exports.
constexpr size_t kMostNamesToSweep = 65536;

bool is_temporary(std::string_view leaf) {
  if (!leaf.starts_with(kTemporaryPrefix)) return false;
  leaf.remove_prefix(kTemporaryPrefix.size());
  return leaf.size() == kRandomDigits &&
         leaf.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<std::string> new_temporary_name() {
  TENON_ASSIGN(const Nonce random, random_nonce());
  return std::string(kTemporaryPrefix) + hex(random);
}

struct OutputPlace {
  std::string directory;
  std::string leaf;
};

OutputPlace split_output_path(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

// Finds the place of the file to which `path` leads, which may not exist yet. If `path` is a
// symbolic link, the link's target is replaced and not the link.
Result<OutputPlace> find_output_place(const std::string& path) {
  std::string at = path;
  for (int links = 0; links < kMostLinks; ++links) {
    OutputPlace place = split_output_path(at);
    if (place.leaf.empty() || place.leaf == "." || place.leaf == "..")
      return with_path(Status(Code::kInvalidArgument, format("\"%s\" names no file", path.c_str())),
                       path);
    char target[4096];
    const ssize_t length = readlink(at.c_str(), target, sizeof target);
    // The path is no link. Opening the directory reports any other error.
    if (length < 0) return place;
    const std::string_view next(target, static_cast<size_t>(length));
    if (next.size() == sizeof target) return with_path(errno_status(ENAMETOOLONG, path), path);
    at = next.starts_with('/') ? std::string(next) : place.directory + "/" + std::string(next);
  }
  return with_path(errno_status(ELOOP, path), path);
}

Result<Fd> open_folder(const std::string& directory) {
  Fd fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // If the directory may be used but not listed, no sweep takes place.
  if (!fd.is_open() && errno == EACCES)
    fd = Fd(open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (fd.is_open()) return fd;
  return with_path(with_fd_limit(errno_status(errno, format("directory %s", directory.c_str()))),
                   directory);
}

// Removes the temporary files of processes that were killed before they renamed them. An error here
// does not stop the export.
void sweep(int directory) {
  Result<NameCursor> cursor = NameCursor::create(directory);
  if (!cursor.is_ok()) return;
  (void)cursor.value().next(kMostNamesToSweep, [directory](const char* leaf) {
    if (!is_temporary(leaf)) return;
    // Opened for writing, because some network file systems lock only such files.
    const Fd fd(openat(directory, leaf, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat info{};
    if (!fd.is_open() || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return;
    if (take_exclusive_lock(fd.get())) (void)unlinkat(directory, leaf, 0);
  });
}

}  // namespace

Result<OutputFile> OutputFile::create(const std::string& path) { return create(path, true); }
Result<OutputFile> OutputFile::create_named(const std::string& path) { return create(path, false); }

Result<OutputFile> OutputFile::create(const std::string& path, bool may_be_nameless) {
  TENON_ASSIGN(OutputPlace place, find_output_place(path));
  OutputFile output;
  output.path_ = path;
  output.leaf_ = std::move(place.leaf);
  TENON_ASSIGN(output.directory_, open_folder(place.directory));
  struct stat old{};
  if (fstatat(output.directory_.get(), output.leaf_.c_str(), &old, AT_SYMLINK_NOFOLLOW) == 0) {
    if (!S_ISREG(old.st_mode))
      return with_path(Status(Code::kInvalidArgument,
                              format("%s is there and is no regular file", path.c_str())),
                       path);
    output.old_ = {true, old.st_uid, old.st_gid, old.st_mode & 0777};
  } else if (errno != ENOENT) {
    return with_path(errno_status(errno, path), path);
  }
  sweep(output.directory_.get());
  TENON_TRY(output.create_temporary(may_be_nameless));
  TENON_ASSIGN(const FileInfo info, inspect_file(output.file_.get()));
  output.in_memory_ = info.in_memory;
  return output;
}

Status OutputFile::create_temporary(bool may_be_nameless) {
  // The umask, or the rules of the directory, decide the permission bits of a new file. A file that
  // replaces another one is accessible to nobody else until it has the bits of that file.
  const mode_t mode = old_.exists ? 0600 : 0666;
  const auto refused = [this](int error) {
    return with_path(
        with_fd_limit(errno_status(error, format("a new file beside %s", path_.c_str()))), path_);
  };
  if (may_be_nameless) {
    const int fd = openat(directory_.get(), ".", O_RDWR | O_TMPFILE | O_CLOEXEC, mode);
    const int error = fd < 0 ? errno : 0;
    if (fd < 0 && error != EOPNOTSUPP && error != EISDIR && error != EINVAL) return refused(error);
    file_ = Fd(fd);
    if (fd >= 0 && access(link_path().c_str(), F_OK) == 0) return Status::ok();
    file_.reset();  // without /proc the file could never get a name
  }
  for (int i = 0; i < kTries; ++i) {
    TENON_ASSIGN(std::string leaf, new_temporary_name());
    const int fd = openat(directory_.get(), leaf.c_str(),
                          O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    const int error = fd < 0 ? errno : 0;
    if (error == EEXIST) continue;
    if (fd < 0) return refused(error);
    file_ = Fd(fd);
    temporary_ = std::move(leaf);
    // A sweep can come between open and flock. Then it holds the lock, or it held the lock and the
    // name is gone. On a file system without locks there are no sweeps.
    const bool swept = flock(file_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    struct stat info{};
    if (!swept && fstat(file_.get(), &info) == 0 && info.st_nlink > 0) return Status::ok();
    remove_temporary();
  }
  return with_path(Status(Code::kIo, format("no name beside %s stays: another process removes them",
                                            path_.c_str())),
                   path_);
}

std::string OutputFile::link_path() const { return "/proc/self/fd/" + std::to_string(file_.get()); }

Status OutputFile::write(std::span<const std::byte> bytes) { return write_both({}, bytes); }

Status OutputFile::write_both(std::span<const std::byte> head, std::span<const std::byte> body) {
  do {
    // On a tmpfs these bytes use memory, and if that is short, the kernel kills the process.
    const std::span<const std::byte> piece =
        in_memory_ ? body.first(std::min<uint64_t>(body.size(), kReserveChunk)) : body;
    if (in_memory_) TENON_TRY(ask_headroom(head.size() + piece.size()));
    if (Status written = write_whole(file_.get(), head, piece, path_); !written.is_ok())
      return with_path(std::move(written), path_);
    head = {};
    body = body.subspan(piece.size());
  } while (!body.empty());
  return Status::ok();
}

Status OutputFile::link_temporary() {
  if (!temporary_.empty()) return Status::ok();
  // The file is locked before it has a name, because from then on any sweep may check it. On a file
  // system without locks, no sweep gets a lock either.
  (void)flock(file_.get(), LOCK_EX | LOCK_NB);
  int error = EEXIST;
  for (int i = 0; i < kTries && error == EEXIST; ++i) {
    TENON_ASSIGN(std::string leaf, new_temporary_name());
    if (linkat(AT_FDCWD, link_path().c_str(), directory_.get(), leaf.c_str(), AT_SYMLINK_FOLLOW) ==
        0) {
      temporary_ = std::move(leaf);
      return Status::ok();
    }
    error = errno;
  }
  return with_path(errno_status(error, format("naming a file beside %s", path_.c_str())), path_);
}

Status OutputFile::keep_access_of_old() {
  if (!old_.exists) return Status::ok();
  // Only root may change a file's owner, and only a member of a group may give a file to it. If
  // neither is allowed, the new file keeps this user's owner and group, with the old file's bits.
  if (fchown(file_.get(), old_.uid, old_.gid) != 0 &&
      fchown(file_.get(), static_cast<uid_t>(-1), old_.gid) != 0 && errno != EPERM &&
      errno != EINVAL) {
    return with_path(errno_status(errno, format("the owner of %s", path_.c_str())), path_);
  }
  // A file system without permission bits refuses bits that it cannot represent.
  if (fchmod(file_.get(), old_.mode) != 0 && errno != EPERM && errno != EOPNOTSUPP)
    return with_path(errno_status(errno, format("the mode of %s", path_.c_str())), path_);
  return Status::ok();
}

Status OutputFile::commit(Durability durability) {
  const Status status = put_in_place(durability);
  remove_temporary();
  file_.reset();
  return status;
}

Status OutputFile::put_in_place(Durability durability) {
  if (durability != Durability::kNone && fsync(file_.get()) != 0)
    return with_path(errno_status(errno, format("making %s durable", path_.c_str())), path_);
  TENON_TRY(link_temporary());
  TENON_TRY(keep_access_of_old());
  if (renameat(directory_.get(), temporary_.c_str(), directory_.get(), leaf_.c_str()) != 0)
    return with_path(
        errno_status(errno, format("putting the new file in the place of %s", path_.c_str())),
        path_);
  temporary_.clear();
  if (durability == Durability::kFileAndDirectory && fsync(directory_.get()) != 0) {
    return with_path(
        errno_status(errno, format("%s is written, and its directory cannot be made durable",
                                   path_.c_str())),
        path_);
  }
  return Status::ok();
}

void OutputFile::remove_temporary() noexcept {
  if (!temporary_.empty() && directory_.is_open())
    (void)unlinkat(directory_.get(), temporary_.c_str(), 0);
  temporary_.clear();
}

OutputFile::~OutputFile() { remove_temporary(); }

}  // namespace tenon::os

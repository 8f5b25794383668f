// Files with names in a directory that many processes use, and the kernel's knowledge of the
// processes that hold them. The code for names (names/) is the main user. Other folders use single
// functions, such as copy_from_mapping().
//
// `directory` is an fd of the directory, and `leaf` is the name in it. A sweep is a pass over a
// directory that removes the names which no process holds (names/liveness.h).
//
// The functions that return a status have the codes of errno_status() (base/status.h), such as
// NOT_FOUND, PERMISSION and RESOURCE_EXHAUSTED, beside those that their comments name.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "os/fd.h"

namespace tenon::os {

// Facts about a name at one moment. They are read without opening the file or socket.
struct NameInfo {
  enum class Kind { kFile, kSocket, kOther };
  Kind kind = Kind::kOther;
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t nbytes = 0;            // of the file
  uint64_t allocated_nbytes = 0;  // bytes of memory or disk
  uid_t uid = 0;
  gid_t gid = 0;
  mode_t mode = 0;  // permission bits
  uint64_t links = 0;
  int64_t changed_ns = 0;  // CLOCK_REALTIME: the younger of mtime and ctime
};

// Opens a directory for the functions below. A path whose last component is a symbolic link, or no
// directory, is refused with INVALID_ARGUMENT.
Result<Fd> open_directory(const std::string& path);
// These three do not follow a symbolic link at the end of the path. They may wait for the server of
// the file system.
Result<NameInfo> look_at_name(int directory, const std::string& leaf);
Result<NameInfo> look_at_file(int fd);
Result<NameInfo> look_at_path(const std::string& path);
// Opens the file of a name. Never follows a symbolic link, and never blocks on a pipe or on a file
// lease. Causes no IN_CLOSE_WRITE event in a watch of the directory unless `writable`. WOULD_BLOCK:
// a process holds a file lease on the file, mostly because it is sweeping the directory (see
// take_lease()). CORRUPT: the name is a link or a socket or, if `writable`, a directory. Pipes and
// devices are opened, and directories unless `writable`, so the caller checks the kind with
// look_at_file().
Result<Fd> open_name(int directory, const std::string& leaf, bool writable);
// Makes a new empty file for this user alone. PERMISSION if the name is taken.
Result<Fd> create_name(int directory, const std::string& leaf);
// Makes a file that never has a name, for testing the file system's abilities. UNSUPPORTED if the
// file system has no such files. Here and below, `path` is only for the error message.
Result<Fd> create_nameless(int directory, const std::string& path);
// Sets exactly these permission bits, whatever the umask says. Sets `group` unless it is -1.
Status set_access(int fd, mode_t mode, gid_t group, const std::string& path);
// Renames the file from `from` to `leaf`, and never replaces another file. Where the file system
// has no such rename, the file has both names for a moment. PERMISSION (detail path) if the name is
// taken.
Status rename_name(int directory, const std::string& from, const std::string& leaf,
                   const std::string& path);
// The caller has called check_file_size().
Status set_file_size(int fd, uint64_t nbytes);
// Removes a name. Succeeds if the name is gone already.
Status unlink_name(int directory, const std::string& leaf);
// Calls `each` with every name but "." and "..", until it returns false.
Status list_names(int directory, const std::function<bool(const char* leaf)>& each);

// Lists the names of a directory in pieces. Each call of next() goes on where the last one stopped.
class NameCursor {
 public:
  static Result<NameCursor> create(int directory);
  // Gives at most `count` names. Returns false at the end of the directory, and the next call
  // begins again.
  bool next(size_t count, const std::function<void(const char* leaf)>& each);

 private:
  struct Close {
    void operator()(void* stream) const noexcept;
  };
  std::unique_ptr<void, Close> stream_;  // a DIR
};

// The bytes that the file system has left for an ordinary user, and all its bytes. UINT64_MAX if
// they are unknown.
uint64_t free_space(int fd) noexcept;
uint64_t total_space(int fd) noexcept;

// The liveness lock of a file: each process that has opened the file by its name through Tenon
// holds the lock shared, and a sweep takes it exclusively to find out whether any does. It is an
// flock of the open file description. So a mapping keeps the lock after the fd was closed, and a
// child of fork inherits it. The kernel drops the lock with the last of them. The two functions
// that take it return at once, and return false if another process has the lock, or the file system
// has no locks.
bool take_shared_lock(int fd) noexcept;
bool take_exclusive_lock(int fd) noexcept;
void drop_lock(int fd) noexcept;

// Whether nobody but `fd` has the file open or mapped, in any namespace. take_lease() asks for a
// write lease (F_SETLEASE), which the kernel grants only then. While the file lease stands, a
// process that opens the file waits for us or, if it opens without waiting, gets EWOULDBLOCK. So
// drop the lease soon. The kernel sends SIGURG to this process when another one opens the file
// meanwhile. A program ignores that signal unless it handles it. A forked child shares the file
// lease and the liveness lock with its parent, and drop_lease() or drop_lock() in one of them drops
// them for both.
enum class Alone {
  kYes,
  kNo,
  kUnknown
};  // kUnknown: there are no file leases here, or the file is another user's
Alone take_lease(int fd) noexcept;
void drop_lease(int fd) noexcept;

// Copy between this process's own mapped memory and a buffer. They return CORRUPT where a load or a
// store would raise SIGBUS, and PERMISSION where a filter forbids the system call. After an error a
// part may be copied.
Status copy_from_mapping(const void* from, void* to, uint64_t nbytes);
Status copy_to_mapping(const void* from, void* to, uint64_t nbytes);

// CLOCK_REALTIME, the clock of file times.
int64_t real_time_ns() noexcept;

}  // namespace tenon::os

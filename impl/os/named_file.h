// Files with names in a directory that many processes use, and what the kernel knows of who holds
// them.
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

// A name as seen at one moment, without opening what it names.
struct NameInfo {
  enum class Kind { kFile, kSocket, kOther };
  Kind kind = Kind::kOther;
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t nbytes = 0;            // of the file
  uint64_t allocated_nbytes = 0;  // memory that it takes
  uid_t uid = 0;
  gid_t gid = 0;
  mode_t mode = 0;  // permission bits
  uint64_t links = 0;
  int64_t changed_ns = 0;  // CLOCK_REALTIME: the younger of mtime and ctime
};

// An fd of the directory, for all that follows (O_DIRECTORY; a link as its last component is
// refused).
Result<Fd> open_directory(const std::string& path);
Result<NameInfo> look_at_name(int directory, const std::string& leaf);
Result<NameInfo> look_at_file(int fd);
Result<NameInfo> look_at_path(const std::string& path);
// Never follows a link, never blocks on a pipe or on a lease, and makes no sound in a watch for
// IN_CLOSE_WRITE unless `writable`. WOULD_BLOCK: somebody holds a lease on it, that is, it is being
// swept.
Result<Fd> open_name(int directory, const std::string& leaf, bool writable);
// A new empty file for this user alone. PERMISSION if the name is taken.
Result<Fd> create_name(int directory, const std::string& leaf);
// A file that never has a name, for trying out what the file system can do. UNSUPPORTED where it
// has none.
Result<Fd> create_nameless(int directory, const std::string& path);
// Exactly these permission bits, whatever the umask; `group` unless it is -1.
Status set_access(int fd, mode_t mode, gid_t group, const std::string& path);
// Whole and at once, never in place of another. PERMISSION (detail path) if the name is taken.
Status rename_name(int directory, const std::string& from, const std::string& leaf,
                   const std::string& path);
// The caller has asked check_file_size.
Status set_file_size(int fd, uint64_t nbytes);
// A name that is gone already is success.
Status unlink_name(int directory, const std::string& leaf);
// Calls `each` with every name but "." and "..", until it returns false.
Status list_names(int directory, const std::function<bool(const char* leaf)>& each);

// The same in pieces: each call goes on where the last one stopped.
class NameCursor {
 public:
  static Result<NameCursor> create(int directory);
  // At most `count` names. False: the end was reached, and the next call begins again.
  bool next(size_t count, const std::function<void(const char* leaf)>& each);

 private:
  struct Close {
    void operator()(void* stream) const noexcept;
  };
  std::unique_ptr<void, Close> stream_;  // a DIR
};

// Space that the file system has left for this user; UINT64_MAX if it does not say.
uint64_t free_space(int fd) noexcept;
uint64_t total_space(int fd) noexcept;

// The liveness lock: an flock of the open file description, so a mapping keeps it after the fd was
// closed, a child of fork inherits it, and the kernel takes it back with the last of them. Both
// return at once.
bool take_shared_lock(int fd) noexcept;
bool take_exclusive_lock(int fd) noexcept;
void drop_lock(int fd) noexcept;

// Whether nobody but `fd` has the file open or mapped, in any namespace: the kernel grants a write
// lease only then. While the lease stands, whoever opens the file waits for us.
enum class Alone {
  kYes,
  kNo,
  kUnknown
};  // kUnknown: no leases here, or the file is another user's
Alone take_lease(int fd) noexcept;
void drop_lease(int fd) noexcept;

// Copies of this process's own mapped memory that fail where a load or store would raise SIGBUS.
Status copy_from_mapping(const void* from, void* to, uint64_t nbytes);
Status copy_to_mapping(const void* from, void* to, uint64_t nbytes);

int64_t real_time_ns() noexcept;

}  // namespace tenon::os

// Tells on which machine and in which pid namespace this process runs, and opens an fd of another
// process by its number. Handles and descriptors that carry no fd are opened this way.
#pragma once

#include <array>
#include <cstdint>

#include "base/status.h"
#include "os/fd.h"
#include "os/memfd.h"

namespace tenon::os {

struct HostIdentity {
  std::array<uint8_t, 16> boot_id{};
  uint64_t pid_namespace = 0;
};

// Read from /proc once, when the library is loaded. A field that cannot be read is zero. A forked
// child keeps the values of its parent, even if it is in another pid namespace.
const HostIdentity& host_identity();

// The pid namespace of this process, read now. 0 without /proc.
uint64_t pid_namespace() noexcept;
int32_t process_id() noexcept;
uint32_t user_id() noexcept;  // the effective user

// A file that another process has open, as a handle or a descriptor names it.
struct RemoteFile {
  int32_t pid = 0;
  int32_t fd = -1;
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t nbytes = 0;
  Nonce nonce{};
  bool other_user = false;  // open it even if the process belongs to another user
};

// Opens /proc/<pid>/fd/<fd>, and checks that it is the very file that `file` describes, because an
// fd number or a pid may have been closed and used again. The kernel checks only whether this
// process may open the file, and root always may. So the process must belong to our own effective
// user, unless `other_user` is set. A memfd whose name has a nonce (memfd.h) is opened only if
// `file` has the same nonce, and any other file only if the nonce in `file` is zero. PEER_GONE: the
// process or the file is gone. PERMISSION: the process belongs to another user, or /proc refuses.
// RESOURCE_EXHAUSTED: no free fd. WOULD_BLOCK: another process holds a file lease (F_SETLEASE), for
// which the kernel would make us wait, or the file system has not answered for two seconds.
Result<Fd> open_remote_fd(const RemoteFile& file, bool writable);

}  // namespace tenon::os

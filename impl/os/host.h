// Which machine and pid namespace this is, and fetching an fd from another process by its number.
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

// Read once from /proc; zero where it cannot be read.
const HostIdentity& host_identity();

int32_t process_id() noexcept;
uint32_t user_id() noexcept;  // the effective one

struct RemoteFile {
  int32_t pid = 0;
  int32_t fd = -1;
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t nbytes = 0;
  Nonce nonce{};
  bool other_user = false;  // take it from a process of another user, too
};

// Opens /proc/<pid>/fd/<fd>, and makes sure that it is the very file: a number can have been closed
// and used again, a pid too. The kernel asks only whether this process may open the file, which
// root may always. So the process must be of our own effective user, and a memfd with a nonce in
// its name is opened by the bytes that have the nonce and by no others. PEER_GONE: the process or
// the file is not there any more. PERMISSION: the process is another user's, or /proc refuses.
// WOULD_BLOCK: another process holds a file lease (F_SETLEASE), and the kernel would let us wait
// for it.
Result<Fd> open_remote_fd(const RemoteFile& file, bool writable);

}  // namespace tenon::os

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
};

// Open /proc/<pid>/fd/<fd> and make sure that it is the very file: a number can have been closed and used again, a pid too. PEER_GONE if it
// is not there any more, PERMISSION if /proc does not let us.
Result<Fd> open_remote_fd(const RemoteFile& file, bool writable);

}  // namespace tenon::os

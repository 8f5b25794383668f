// The two processes of `tenon bench`: this process lends, and its child borrows. A request says how
// the child is to reach the memory. The child opens the memory, reads its first byte, lets go of it
// and answers.
#pragma once

#include <sys/types.h>
#include <tenon/by_fd.h>
#include <tenon/by_filename.h>

#include <cstdint>

#include "base/status.h"
#include "os/fd.h"

namespace tenon::cli {

enum class Borrow : uint32_t { kMapFd, kOpenFd, kMapName, kOpenName };

// kMapFd and kMapName use the bare system calls (mmap, shm_open). kOpenFd and kOpenName use Tenon.
struct BorrowRequest {
  Borrow how = Borrow::kMapFd;
  uint64_t nbytes = 0;
  tenon_fd_handle fd_handle{};
  tenon_filename_handle name_handle{};  // for kMapName only the name counts
};

// One thread at a time may use it. The child ends with this object, or with this process. The
// destructor waits for it.
class BorrowerProcess {
 public:
  // Call this before the process uses the library, because a child of fork has a right to its
  // parent's memory.
  static Result<BorrowerProcess> start();
  BorrowerProcess() noexcept = default;
  BorrowerProcess(BorrowerProcess&&) noexcept = default;
  BorrowerProcess& operator=(BorrowerProcess&&) noexcept = delete;
  BorrowerProcess(const BorrowerProcess&) = delete;
  BorrowerProcess& operator=(const BorrowerProcess&) = delete;
  ~BorrowerProcess();

  // Sends a request and waits for the answer, without a limit. `fd` is borrowed. -1: no fd is sent.
  // PEER_GONE if the child has ended. Otherwise the child's own error.
  Status ask(const BorrowRequest& request, int fd);

 private:
  BorrowerProcess(pid_t pid, os::Fd socket) noexcept : pid_(pid), socket_(std::move(socket)) {}
  pid_t pid_ = 0;
  os::Fd socket_;
};

// Turns the result of a call of the C header into a Status. Releases `error`, which may be null.
Status take_error(tenon_status status, tenon_error* error);

}  // namespace tenon::cli

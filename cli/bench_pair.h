// The two processes of `tenon bench`: this one lends, its child borrows. A request says how the
// child is to reach the memory; it opens it, reads the first byte, lets go, and answers.
#pragma once

#include <sys/types.h>
#include <tenon/by_fd.h>
#include <tenon/by_filename.h>

#include <cstdint>

#include "base/status.h"
#include "os/fd.h"

namespace tenon::cli {

enum class Borrow : uint32_t { kMapFd, kOpenFd, kMapName, kOpenName };

struct BorrowRequest {
  Borrow how = Borrow::kMapFd;
  uint64_t nbytes = 0;
  tenon_fd_handle fd_handle{};
  tenon_filename_handle name_handle{};  // kMapName: name is all that counts
};

class BorrowerProcess {
 public:
  // Before anything of the library was used here: a child of fork has a right to what its parent
  // had.
  static Result<BorrowerProcess> start();
  BorrowerProcess() noexcept = default;
  BorrowerProcess(BorrowerProcess&&) noexcept = default;
  BorrowerProcess& operator=(BorrowerProcess&&) noexcept = delete;
  BorrowerProcess(const BorrowerProcess&) = delete;
  BorrowerProcess& operator=(const BorrowerProcess&) = delete;
  ~BorrowerProcess();

  // There and back. `fd` -1: none.
  Status ask(const BorrowRequest& request, int fd);

 private:
  BorrowerProcess(pid_t pid, os::Fd socket) noexcept : pid_(pid), socket_(std::move(socket)) {}
  pid_t pid_ = 0;
  os::Fd socket_;
};

// What a call of the C header said, as a Status.
Status take_error(tenon_status status, tenon_error* error);

}  // namespace tenon::cli

// Lending and opening by name: files in PyTorch's layout, and sockets that hand out segments.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/counted.h"
#include "base/status.h"
#include "os/wait.h"
#include "share/by_fd.h"
#include "share/filename.h"
#include "share/liveness.h"
#include "storage/storage.h"

namespace tenon::share {

struct FilenameOptions {
  Access access = Access::kAuto;
  bool torch = false;
  bool in_flight = false;
  bool has_group = false;
  gid_t group = 0;
  mode_t mode = 0600;
  std::string directory{kSharedMemory};
  std::string prefix{kDefaultPrefix};
  std::string name;
  std::string manager;
};

// A handle: what comes from outside is not trusted.
struct NameClaim {
  Access access = Access::kAuto;
  uint64_t offset = 0;
  uint64_t nbytes = 0;
  std::string manager;
  std::string name;
};

struct NameOpenOptions {
  OpenOptions open;
  bool other_user = false;
  bool no_manager = false;
  bool received = false;
};

// A storage in a new named file.
Result<Ref<Storage>> create_named(const FilenameOptions& options, uint64_t nbytes);
Result<NameClaim> lend_by_filename(const Ref<Storage>& storage, const FilenameOptions& options,
                                   os::Waiter* waiter);
Result<Ref<Storage>> open_by_filename(const NameClaim& claim, const NameOpenOptions& options,
                                      os::Waiter* waiter);

// Messages in flight.
Status count_message(const NameClaim& claim);
Status count_message_received(const NameClaim& claim);

Status unlink_filename(std::string_view name);

struct SweepTotals {
  uint64_t live = 0;
  uint64_t in_flight = 0;
  uint64_t dead = 0;
  uint64_t unsure = 0;
  uint64_t removed_nbytes = 0;
};
Result<SweepTotals> sweep_names(const std::string& directory, const LookOptions& options);

// What exit() does: this process's part in the counts, what it has in flight, and the names that it
// serves.
void leave_by_filename() noexcept;

}  // namespace tenon::share

// Lends storages by name and opens them. The C API calls these functions. A name is a file in
// PyTorch's layout, or a socket on which the lender hands out the fd of a segment
// (docs/format/filename.md). A message is in flight from the sending of its handle until its
// receiver has opened the name.
//
// Any thread may call the functions. Their caller holds no lock that has a rank (base/lock_rank.h),
// because they make memory, sweep directories and release segments. The errors are those of the C
// functions (tenon/by_filename.h). A forked child holds the files that it inherited without a part
// in their counts, and serves none of its parent's names on sockets.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/counted.h"
#include "base/status.h"
#include "names/filename.h"
#include "names/liveness.h"
#include "os/wait.h"
#include "share/by_fd.h"
#include "storage/storage.h"

namespace tenon::names {

using memory::Access;
using memory::Segment;
using storage::Storage;

struct FilenameOptions {
  Access access = Access::kAuto;
  // PyTorch must be able to open the name, so a manager is asked to guard it.
  bool torch = false;
  // The handle goes into a message, which counts as in flight.
  bool in_flight = false;
  bool has_group = false;
  gid_t group = 0;
  // The permission bits of the file or socket.
  mode_t mode = 0600;
  std::string directory{kSharedMemory};
  // If `name` is empty, the library chooses a name that begins with `prefix`.
  std::string prefix{kDefaultPrefix};
  std::string name;
  // The path of the manager's socket, for `torch`. Empty: start_manager() chooses (manager.h).
  std::string manager;
};

// A handle of a name. A claim that comes from outside is not trusted.
struct NameClaim {
  Access access = Access::kAuto;
  uint64_t offset = 0;
  uint64_t nbytes = 0;
  std::string manager;
  std::string name;
};

struct NameOpenOptions {
  share::OpenOptions open;
  bool other_user = false;
  // Does not tell the manager that the handle names.
  bool no_manager = false;
  // The handle came in a message, which stops being in flight. For a file it stops only if the
  // opening succeeds, and for a socket once the lender has answered.
  bool received = false;
};

// Makes a storage in a new named file. It does not use `torch`, `manager`, `in_flight` and `access`
// of the options.
Result<Ref<Storage>> create_named(const FilenameOptions& options, uint64_t nbytes);
// Lends a storage by name. A movable private storage moves into a new file. On failure it has not
// moved. The name of a file lasts while a process holds the file or a message is in flight. The
// name of a socket lasts while this process holds the storage or, if the name is the segment's
// (serve_name()), the segment, or while a message is in flight. An empty storage that neither has a
// file nor moves into one gets no name. `waiter` is not null.
Result<NameClaim> lend_by_filename(const Ref<Storage>& storage, const FilenameOptions& options,
                                   os::Waiter* waiter);
// Opens a storage by its handle. TIMEOUT: the wait for a lender or manager ended, or another
// process checked for 1 s whether the file is dead. NOT_FOUND, PEER_GONE: the memory is gone.
// PERMISSION: it is another user's, or was lent read-only. CORRUPT: the handle does not fit the
// file.
Result<Ref<Storage>> open_by_filename(const NameClaim& claim, const NameOpenOptions& options,
                                      os::Waiter* waiter);

// Counts a message with this handle as in flight, or as received. NOT_FOUND: this process does not
// hold the name. For count_message_received() a name that is gone is no error. That function may
// wait one second for the lender, or for a process that checks the file. count_message() does not
// wait.
Status count_message(const NameClaim& claim);
Status count_message_received(const NameClaim& claim);

// Removes a name. A name that does not exist is no error. PERMISSION: it is neither a file nor a
// socket, or the kernel forbids it.
Status unlink_filename(std::string_view name);

// How many names a sweep found in each state.
struct SweepTotals {
  uint64_t live = 0;
  uint64_t in_flight = 0;
  // The removed names. Without LookOptions::remove, the names that a sweep would remove.
  uint64_t dead = 0;
  // Also PyTorch's dead files without LookOptions::torch, and dead names whose removal failed.
  uint64_t unsure = 0;
  uint64_t removed_nbytes = 0;  // of the names that `dead` counts
};
// Examines all names of a directory (look_at_all()) and counts them. If it removes names in
// /dev/shm, it also removes what killed managers left (remove_dead_managers()).
Result<SweepTotals> sweep_names(const std::string& directory, const LookOptions& options);

// Does what exit() does for names: subtracts this process from their counts, keeps the files of its
// messages in flight for a while, and ends the names that it serves on sockets.
void leave_by_filename() noexcept;

}  // namespace tenon::names

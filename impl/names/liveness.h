// Tells live names from dead ones, and removes the dead ones. Nothing is guessed: the kernel says
// whether a process holds a file (by a lock or a lease) or listens on a socket.
//
// A process checks one file at a time, under LockRank::kNameCheck, so the caller holds neither that
// lock nor a later one (base/lock_rank.h). fork waits for a check, so no child inherits the fd of
// one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "names/filename.h"
#include "os/named_file.h"

namespace tenon::names {

// kFile: made by Tenon; kOther: not ours, not PyTorch's.
enum class NameKind { kFile, kTorchFile, kSocket, kOther };
enum class NameState { kLive, kInFlight, kDead, kUnsure };

struct NameReport {
  std::string leaf;
  NameKind kind = NameKind::kOther;
  NameState state = NameState::kUnsure;
  std::string why;  // one line, without the name: what the kernel or the header said
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t nbytes = 0;            // payload
  uint64_t allocated_nbytes = 0;  // memory that it takes
  uint32_t uid = 0;
  uint32_t mode = 0;
  int32_t count = 0;      // of a file
  int32_t maker_pid = 0;  // 0: unknown
  int64_t age_ns = 0;     // since it was made (Tenon's) or changed
  bool removed = false;
};

struct LookOptions {
  bool remove = false;           // what is dead
  bool torch = false;            // PyTorch's own files too
  bool any_user = false;         // other users' as well, where the kernel lets this process look
  int64_t min_age_ns = kKeepNs;  // PyTorch's files younger than this may be in a message
  bool sockets = true;           // false: tells of a socket no more than that it is there
  // Tries, a millisecond apart, for the lock and the lease: two who look at once disturb each
  // other.
  int patience = 1;
};

// The report of a name that was not opened. For a file that is neither Tenon's nor PyTorch's there
// is nothing more to know.
NameReport report_unopened(const std::string& leaf, const os::NameInfo& info);
// Examines one name. NOT_FOUND if it is gone. A name that cannot be opened, also for want of an fd,
// gives a report of kUnsure.
Result<NameReport> look_at(int directory, const std::string& leaf, const LookOptions& options);
// Examines all names of a directory that are Tenon's or PyTorch's, in no order, and gives each
// report to `each`, which returns false to stop. A RESOURCE_EXHAUSTED of one name ends the listing.
// Otherwise the errors are those of os::open_directory().
Status look_at_all(const std::string& directory, const LookOptions& options,
                   const std::function<bool(const NameReport&)>& each);

// Removes the name of a file that this process has just let go of, or that a watch reported, if no
// process holds the file and, for a file of PyTorch's own, its count is 0. It never fails. It does
// not sleep, but it may wait for a mutex while another thread of this process looks at a name.
// False: a process holds the file, or looked at it in the same moment.
bool remove_if_dead(int directory, const std::string& leaf) noexcept;

// Removes a name that a sweep comes upon, if it is dead. It looks once. False: somebody holds the
// name, or looked at it in the same moment.
bool sweep_name(int directory, const std::string& leaf) noexcept;

// Removes the sockets on which no process listens. Called when a `.tenon-bell-*` file in the
// directory has changed.
void remove_dead_sockets(int directory) noexcept;

// Removes a name that a killed process left, so that its successor can take the name. True: the
// name is free now, so the caller can try again to take it. The call can sleep for 2 ms.
bool remove_dead_namesake(int directory, const std::string& leaf);

}  // namespace tenon::names

// Tells live names from dead ones, and removes the dead ones. Nothing is guessed: the kernel says
// whether a process holds a file or listens on a socket. For a file the check takes the exclusive
// lock (flock) and then a write lease (fcntl F_SETLEASE), which the kernel refuses while a process
// has the file open or mapped. While the check has the lease, an opener of the file waits.
//
// A process checks one file at a time, under LockRank::kNameCheck, so the caller holds neither that
// lock nor a later one (base/lock_rank.h). fork waits for a check, so no child inherits the fd of
// one. A check of a socket takes no lock.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "names/filename.h"
#include "os/named_file.h"

namespace tenon::names {

// kFile: made by Tenon. kOther: neither Tenon's nor PyTorch's. For a file that cannot be opened
// only its name tells the kind.
enum class NameKind { kFile, kTorchFile, kSocket, kOther };
// kInFlight: no process holds the file, but a message with its handle may be on its way. kUnsure:
// the kernel did not tell, or the name was not opened.
enum class NameState { kLive, kInFlight, kDead, kUnsure };

struct NameReport {
  std::string leaf;
  NameKind kind = NameKind::kOther;
  NameState state = NameState::kUnsure;
  std::string why;  // one line, without the name: what the kernel or the header said
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t nbytes = 0;            // of the payload; of the whole file if it is kOther
  uint64_t allocated_nbytes = 0;  // memory that it takes
  uint32_t uid = 0;
  uint32_t mode = 0;
  int32_t count = 0;      // of a file
  int32_t maker_pid = 0;  // 0: unknown
  int64_t age_ns = 0;     // since it was made (Tenon's) or changed
  bool removed = false;
};

struct LookOptions {
  bool remove = false;    // removes dead names
  bool torch = false;     // removes PyTorch's own dead files too
  bool any_user = false;  // also looks at other users' names, where the kernel allows that
  // Younger files of PyTorch whose count is above 0 are kInFlight and not kDead.
  int64_t min_age_ns = kKeepNs;
  bool sockets = true;  // false: the report of a socket is report_unopened()
  // How often the opening, and then the lock and the lease, are tried, a millisecond apart. Two
  // processes that check one file at once disturb each other.
  int patience = 1;
};

// The report of a name that was not opened: kOther and kUnsure.
NameReport report_unopened(const std::string& leaf, const os::NameInfo& info);
// Examines one name. NOT_FOUND if it is gone. RESOURCE_EXHAUSTED if no fd is left for it. A file
// that cannot be opened for another reason, such as its permissions, gives a report of kUnsure. A
// file that another process is checking is kLive.
Result<NameReport> look_at(int directory, const std::string& leaf, const LookOptions& options);
// Examines all names of a directory, in no order, and gives each report that is not kOther to
// `each`, which returns false to stop and is called without LockRank::kNameCheck. A look_at() that
// fails with RESOURCE_EXHAUSTED ends the listing with that error. Otherwise the errors are those of
// os::open_directory().
Status look_at_all(const std::string& directory, const LookOptions& options,
                   const std::function<bool(const NameReport&)>& each);

// For one file that this process has just let go of, or that the watch of the directory (inotify)
// reported. Removes the name if no process holds the file and, for a file of PyTorch's own, its
// count is 0. Never fails. Does not sleep, but may wait for a mutex while another thread of this
// process checks a name. True: a later call would do no more, because the name is gone, is kept for
// a message, or is not for this function. False: the caller may try again, because a process holds
// the file or checked it in the same moment, the kernel did not tell, or no fd was left.
bool remove_if_dead(int directory, const std::string& leaf) noexcept;

// For each name in a sweep of a directory. Removes the name if it is dead, a socket's too, but
// never a file of PyTorch's own. Looks once. False: a later look may remove it, because a process
// holds the file, checked it in the same moment, or is still making it, or because no fd was left.
bool sweep_name(int directory, const std::string& leaf) noexcept;

// Removes the sockets on which no process listens. Called when a `.tenon-bell-*` file in the
// directory has changed.
void remove_dead_sockets(int directory) noexcept;

// Removes a name that a killed process left, so that its successor can take the name. True: this
// call or another one has removed the dead name, or it was gone already, so the caller can try once
// more to take it. False: the name is not dead, it could not be removed, or it is a dead file of
// PyTorch's own. The call can sleep for 4 ms. May throw std::bad_alloc.
bool remove_dead_namesake(int directory, const std::string& leaf);

}  // namespace tenon::names

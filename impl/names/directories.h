// The directories in which this process has met names. Each is opened once, and stays open while an
// object of this process (such as a named file or a served socket) refers to it. Of the others the
// 16 most recently used stay open too. Calls that make or open names, deposits, and the library's
// thread (names_thread.h) use the directories. A forked child keeps them, and begins their sweeps
// anew.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/status.h"
#include "os/fd.h"

namespace tenon::names {

class Directory : public Counted {
 public:
  Directory(os::Fd fd, std::string path, uint64_t device, uint64_t inode) noexcept
      : fd_(std::move(fd)), path_(std::move(path)), device_(device), inode_(inode) {}
  int fd() const noexcept { return fd_.get(); }
  const std::string& path() const noexcept { return path_; }
  uint64_t device() const noexcept { return device_; }
  uint64_t inode() const noexcept { return inode_; }

  // Says whether the watch of the library's thread has a reference to this directory.
  void set_watched(bool watched) noexcept { watched_.store(watched, std::memory_order_relaxed); }

 private:
  friend class Directories;

  const os::Fd fd_;
  const std::string path_;
  const uint64_t device_;
  const uint64_t inode_;
  std::atomic<bool> watched_{false};
  // State of sweep_some_names(), guarded by the register's lock (LockRank::kDirectories). It keeps
  // a list of names and not an open directory stream, which would cost one more fd.
  std::vector<std::string> pass_;  // the names that are still to be checked
  int64_t next_pass_ns_ = 0;
  bool swept_ = false;
  bool swept_while_watched_ = false;
};

// Opens the directory to which the path leads now. There is one object for a path as long as it
// leads to the same directory and an object of this process is in it. Two paths to one directory
// have two objects. The call closes idle directories too, which takes LockRank::kDirectories and
// kNamesThread, so the caller holds no lock that has a rank. The errors are those of
// os::open_directory().
Result<Ref<Directory>> open_names_directory(const std::string& path);

// Closes the directories that nothing uses, except the 16 most recently used. Called when an object
// has let go of its directory. The caller holds no lock.
void close_idle_directories() noexcept;

// Checks some names of the directory and removes the dead ones. Called when this process makes a
// name or its depot, and when it finds that the lender of a deposit is gone. The first call, and
// the first call while the directory is watched, check all names for at most 50 ms. Later calls
// check 8 names each and go on where the last call stopped. `watched` is the result of
// watch_names(), or false if the caller did not ask for a watch. If it is true, the library's
// thread is told what happens from now on, so one pass over all names per minute is enough, and the
// thread also checks the names that the first sweep did not reach, or for which it got no clear
// answer. If it is false, a pass begins at most once per second. The caller holds no lock that has
// a rank.
void sweep_some_names(const Ref<Directory>& directory, bool watched) noexcept;

// Makes the library's thread check all names of a watched directory soon. The thread calls this
// when the watch has lost events.
void sweep_all_names(const Ref<Directory>& directory) noexcept;

}  // namespace tenon::names

// The directories in which this process met names. Each is open once, and closed when nothing of
// ours is left in it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/status.h"
#include "os/fd.h"

namespace tenon::share {

class Directory : public Counted {
 public:
  Directory(os::Fd fd, std::string path, uint64_t device, uint64_t inode) noexcept
      : fd_(std::move(fd)), path_(std::move(path)), device_(device), inode_(inode) {}
  int fd() const noexcept { return fd_.get(); }
  const std::string& path() const noexcept { return path_; }
  uint64_t device() const noexcept { return device_; }
  uint64_t inode() const noexcept { return inode_; }

  // Whether the thread's watch has a reference to this.
  void set_watched(bool watched) noexcept { watched_.store(watched, std::memory_order_relaxed); }

 private:
  friend class Directories;

  const os::Fd fd_;
  const std::string path_;
  const uint64_t device_;
  const uint64_t inode_;
  std::atomic<bool> watched_{false};
  // Of sweep_some_names. Names and no stream, which would be an fd more.
  std::vector<std::string> pass_;  // still to be looked at
  int64_t next_pass_ns_ = 0;
  bool swept_ = false;
  bool swept_while_watched_ = false;
};

// What the path leads to now. One object for one directory as long as the path leads there and
// anything of ours is in it; a few in which nothing is left, those used last, stay open too.
Result<Ref<Directory>> open_names_directory(const std::string& path);

// Something let go of a directory: close those that are too many. With no lock held.
void close_idle_directories() noexcept;

// For calls that make or open names: look at some names of the directory (at all of them the first
// time, and the first time that it is watched), go on where the last call stopped, and remove the
// dead. `watched`: the thread sees what happens from now on, so a pass now and then is enough; and
// the thread looks at what the first sweep had no time for, or had no clear answer of.
void sweep_some_names(const Ref<Directory>& directory, bool watched) noexcept;

// For the thread, which was not told of what happened in a watched directory: look at all its names
// soon.
void sweep_all_names(const Ref<Directory>& directory) noexcept;

}  // namespace tenon::share

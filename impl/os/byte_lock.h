// A lock on one byte of a file, by which other processes learn that this process has ended. The
// kernel drops the lock when the last fd of its open file description is closed, so at the latest
// when the process ends, however it ends. All processes that have the file can ask for the lock, in
// whatever namespaces they are.
//
// The locks say nothing about the bytes, which may lie behind the end of the file.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "os/fd.h"

namespace tenon::os {

// Opens the file of an fd once more. The result has an open file description of its own, so no
// other process shares its locks, except children of fork until they close it. The result is not
// open if /proc does not show the file, or does not let this process write to it.
Fd open_for_locks(int file) noexcept;

// False if another description has the byte, or the file system knows no such locks.
bool lock_byte(const Fd& file, uint64_t at) noexcept;
void unlock_byte(const Fd& file, uint64_t at) noexcept;
// Whether another description has locked the byte. True if the kernel does not say.
bool has_locked_byte(const Fd& file, uint64_t at) noexcept;

// Tells when a process has closed an open file description of a file that could be written to. The
// kernel tells of the close just before it drops the locks.
class CloseWatch {
 public:
  // RESOURCE_EXHAUSTED: fs.inotify.max_user_instances, or no fd is left.
  static Result<CloseWatch> create();
  CloseWatch() noexcept = default;
  // The fd is readable when there was a close that drain() has not taken.
  int fd() const noexcept { return fd_.get(); }
  bool is_open() const noexcept { return fd_.is_open(); }
  // Watches one more file, and keeps its memory until remove(). Returns its number, which is the
  // same for one file. Less than 0: it cannot be watched.
  int add(const Fd& file) noexcept;
  void remove(int number) noexcept;
  void drain() noexcept;

 private:
  Fd fd_;
};

}  // namespace tenon::os

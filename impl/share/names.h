// What this process has to do with names: the files that it holds, and the files that it keeps for
// messages in flight.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/counted.h"
#include "base/status.h"
#include "memory/segment.h"
#include "os/fd.h"
#include "os/mapping.h"
#include "share/directories.h"
#include "share/filename.h"

namespace tenon::share {

// This process's hold on a named file: its part of the count, its lock (which the mapping has), and
// what is to be done when it ends.
class FileTail : public memory::SegmentTail {
 public:
  FileTail(Ref<Directory> directory, std::string leaf, uint64_t device, uint64_t inode,
           std::string manager) noexcept;
  ~FileTail() override;
  void before_unmap(memory::Segment* segment) noexcept override;
  void after_unmap() noexcept override;
  Result<os::Fd> reopen() override;

  Filename filename() const { return {directory_->path(), leaf_}; }

  // `header` is in the segment's own mapping, or in `page` where that one cannot be written or does
  // not have the lock; null: another user's file that may only be read. From here on our part is in
  // the count, and the file in the register of what is let go at exit.
  void enter(FilenameHeader* header, os::Mapping page) noexcept;

  // One message in flight more. NOT_FOUND if the file may only be read.
  Status count_message();
  // One less: it was received, or never will be.
  void count_received() noexcept;
  std::string manager() const;
  void set_manager(const std::string& manager);

 private:
  friend class Names;
  void leave(bool at_exit) noexcept;
  bool header_is_there() const noexcept;

  Ref<Directory> directory_;  // never changes before the end
  const std::string leaf_;
  const uint64_t device_;
  const uint64_t inode_;
  const uint64_t generation_;
  std::string manager_;
  FilenameHeader* header_ = nullptr;
  os::Mapping page_;
  std::atomic<int32_t> sent_{0};  // messages in flight that this process counted
  bool held_ = false;             // enter() was called
  bool entered_ = false;          // in the register
  bool last_ = false;             // our part was the last of the count
  FileTail* previous_ = nullptr;  // in the register
  FileTail* next_ = nullptr;
};

// What exit does: the counts go down, and messages in flight get their time. For processes that end
// without exit.
void leave_names() noexcept;

// Atomic steps of a count that others write too.
enum class CountStep {
  kDone,
  kZero,
  kBad
};  // kZero: its last holder just let go; kBad: no count can be so
CountStep count_up(std::atomic<int32_t>* count) noexcept;
void count_down(std::atomic<int32_t>* count) noexcept;  // never below 0

// One message about the file was received: its head goes down by one.
void count_message_received(FilenameHeader* header) noexcept;

// The segment that this process has mapped writable from this name; none if it has not.
Ref<memory::Segment> find_held_file(const Filename& filename);

// Somebody let go of the file: remove the name if it is dead, unless we keep it for messages in
// flight. False: look again soon.
bool settle_name(const Ref<Directory>& directory, const std::string& leaf) noexcept;

}  // namespace tenon::share

// This process's part in named files: the files that it holds, and the files that it keeps for
// messages in flight. A message is in flight from its sending until its receiver has opened the
// file. by_filename.cc, named_segment.cc and the library's thread (names_thread.h) call it. The
// register of files has the lock LockRank::kNames. The counts in the heads of the files
// (share/named_file_head.h) change by atomic steps without it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/counted.h"
#include "base/status.h"
#include "memory/segment.h"
#include "names/directories.h"
#include "names/filename.h"
#include "os/fd.h"
#include "os/mapping.h"
#include "share/named_file_head.h"

namespace tenon::names {

// This process's hold on a named file. The hold is one in the file's count, and a shared lock
// (flock), which the segment's mapping keeps. When the segment ends, the tail lowers the count,
// removes the name if the file is dead (liveness.h), and tells the manager (manager.h) if one
// guards the name. The end can take up to 5 ms, while another process checks the file. The tail
// takes locks from LockRank::kDirectories on, so the last reference to the segment is not released
// under any of these.
//
// In a forked child the tail holds the file by its mapping alone: it neither lowers the count nor
// tells the manager. The files that are kept for messages stay the parent's.
class FileTail : public memory::SegmentTail {
 public:
  FileTail(Ref<Directory> directory, std::string leaf, uint64_t device, uint64_t inode,
           std::string manager) noexcept;
  ~FileTail() override;
  void before_unmap(memory::Segment* segment) noexcept override;
  void after_unmap() noexcept override;
  // NOT_FOUND: the name is gone, or leads to another file.
  Result<os::Fd> reopen() override;

  Filename filename() const { return {directory_->path(), leaf_}; }

  // Begins the hold. The file joins the register of files that are let go at exit. `header` lies in
  // the segment's own mapping, or in `page` if that mapping cannot be written or does not keep the
  // lock, and the caller has raised its count. `header` is null for another user's file that may
  // only be read, which has no count of this process.
  void enter(share::FilenameHeader* header, os::Mapping page) noexcept;

  // Counts one more message in flight. NOT_FOUND if the file may only be read or was cut short,
  // CORRUPT if its count is impossible.
  Status count_message();
  // Counts one message less: it was received, or never will be.
  void count_received() noexcept;
  // The path of the socket of the manager that guards the name (manager.h); empty if none does.
  std::string manager() const;
  void set_manager(const std::string& manager);

 private:
  friend class Names;
  void leave(bool at_exit) noexcept;
  bool header_is_there() const noexcept;

  Ref<Directory> directory_;  // never changes before the destructor
  const std::string leaf_;
  const uint64_t device_;
  const uint64_t inode_;
  const uint64_t generation_;
  std::string manager_;
  share::FilenameHeader* header_ = nullptr;
  os::Mapping page_;
  std::atomic<int32_t> sent_{0};  // messages in flight that this process counted
  bool held_ = false;             // enter() was called
  bool entered_ = false;          // in the register
  bool last_ = false;             // this process was the last in the count
  FileTail* previous_ = nullptr;  // in the register
  FileTail* next_ = nullptr;
};

// Does what exit does: lowers the counts, removes the names whose count is 0 then (unless a process
// that is related by fork holds the file), and writes a time into the heads of files of messages in
// flight, until which no process removes them (kKeepNs). It does not wait. For processes that end
// without exit. The caller holds no lock that has a rank.
void leave_names() noexcept;

// Atomic steps of a count that other processes change too. kZero: the count was 0. An opener then
// takes the file for dead, unless a process holds the file without a part in the count. Only a
// process that holds the file's lock, such as a forked child in count_message(), may raise it
// again. kBad: no count can have this value.
enum class CountStep { kDone, kZero, kBad };
CountStep count_up(std::atomic<int32_t>* count) noexcept;
void count_down(std::atomic<int32_t>* count) noexcept;  // never below 0

// Counts one message as received: decrements the count in the file's head, and for Tenon's own
// files `in_flight` too.
void count_message_received(share::FilenameHeader* header) noexcept;

// Finds the segment that this process has mapped writable from the file that has this name now;
// null if there is none. A segment that was opened by fd has no FileTail. The caller holds no lock
// that has a rank.
Ref<memory::Segment> find_held_file(const Filename& filename);

// Called when a process has let go of the file. Removes the name if it is dead, unless this process
// keeps the file for messages in flight. If `leaf` is a bell (kBellPrefix), also removes the dead
// sockets of the directory. False: check again soon. The caller holds no lock that has a rank.
bool settle_name(const Ref<Directory>& directory, const std::string& leaf) noexcept;

}  // namespace tenon::names

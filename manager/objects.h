// Objects keeps the names that clients of the manager registered, and removes the files that nobody
// needs any more. Server calls it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/keyed_hash.h"
#include "base/status.h"
#include "os/fd.h"
#include "os/named_file.h"
#include "os/poller.h"

namespace tenon::manager {

// Identifies one process that sends messages, or one connection if the kernel does not name the
// process. An id is never used for another sender.
using SenderId = uint64_t;

struct Bounds {
  size_t names = 1'000'000;
  size_t names_per_sender = 200'000;
};

// A name is checked when something happened to it: a sender deallocated it or ended, or the
// directory's watch reported a change. The checks wait in a queue, so that a sender with many names
// does not delay the others.
//
// The count in a named file is changed by the processes that open it and by senders of messages. A
// sender that ended without deallocating left its share in the count. Objects knows this share: the
// sender's registrations less its deallocations. The rest of the count are messages in flight. So a
// file is removed when nobody holds it and no message is in flight. The kernel's write lease tells
// whether anybody holds the file, and keeps openers out during the check.
//
// One thread uses the object. A function that is not noexcept may throw std::bad_alloc, which ends
// the manager.
class Objects {
 public:
  // The errors are those of opening the directory. Without a watch the object works too.
  static Result<std::unique_ptr<Objects>> open(const std::string& directory, const Bounds& bounds);

  // Registers a name. False: there are too many names. `claimed_pid` is the pid in the message.
  bool add(SenderId sender, const std::string& leaf, int32_t claimed_pid);
  // Takes one registration of the name back (a deallocation), and queues a check of the name.
  void subtract(SenderId sender, const std::string& leaf);
  // The sender has ended, and all its messages were read. Later calls of work() settle and check
  // its names.
  void end_of(SenderId sender);

  // -1: there is no watch (because of inotify's limits), so names are checked from time to time.
  int watch_fd() const noexcept { return watch_ ? watch_->fd() : -1; }
  void read_watch();

  // Checks `most` names. `now_ns` is monotonic.
  void work(size_t most, int64_t now_ns);
  bool has_work() const noexcept { return !queue_.empty() || !ended_.empty(); }
  int64_t next_due_ns() const noexcept;  // INT64_MAX: none
  // Whether a sender that ended normally may have left a message that a process will still open.
  bool has_messages() const noexcept { return messages_ > 0; }
  size_t size() const noexcept { return entries_.size(); }

  // close(true) checks all names for the last time: a file that nobody holds is removed, even with
  // messages in flight. Tenon's own files stay as long as their head says. close(false) goes back
  // to normal checks.
  void close(bool close);
  // While `wait` is true, the last check waits until a held name is let go of, because its holder
  // is about to end.
  void wait_for_holders(bool wait) noexcept { waits_for_holders_ = wait; }
  // Call this before an end that a signal asked for. It removes dead files and leaves the rest.
  void settle();

 private:
  struct Part {
    SenderId sender = 0;
    int32_t net = 0;  // registrations less deallocations
    // The part of `net` that was registered while there was no such file, by a sender that was not
    // going to make it.
    int32_t unproven = 0;
    int64_t added_ns = 0;  // the time of the last registration
  };
  struct Entry {
    std::string leaf;
    uint64_t device = 0;
    uint64_t inode = 0;        // 0: no file was seen yet
    int64_t left_behind = 0;   // the share of ended senders in the file's count
    std::vector<Part> parts;   // one for each living sender
    int64_t due_ns = 0;        // if not 0, the entry is in timers_
    uint8_t waits = 0;         // how often it was found held, or with a message
    bool maker_known = false;  // a sender registered the name in order to make the file
    bool queued = false;
    bool message = false;  // whether messages_ counts this entry
  };
  using Names = std::unordered_set<Entry*>;
  enum class Found { kMissing, kForeign, kReplaced, kLater, kHeld, kMessage, kRemoved };

  Objects(os::Fd directory, std::string path, const Bounds& bounds) noexcept;
  void take_spare();
  Names* names_of(SenderId sender) noexcept;
  Part* part_of(Entry* entry, SenderId sender) noexcept;
  void drop_part(Entry* entry, SenderId sender) noexcept;
  void enqueue(Entry* entry);
  void touch(Entry* entry);
  void settle_some(size_t most);
  void set_due(Entry* entry, int64_t due_ns);
  void set_message(Entry* entry, bool message) noexcept;
  void forget_file(Entry* entry) noexcept;
  void erase(Entry* entry);
  void look(Entry* entry, int64_t now_ns);
  Found examine(Entry* entry, int64_t* later_ns);
  Found judge(Entry* entry, int fd, bool alone, int64_t* later_ns);
  bool remove(const Entry& entry) noexcept;

  os::Fd directory_;
  os::Fd spare_;  // closed for a check when clients have taken all other fds
  const std::string path_;
  const Bounds bounds_;
  const uint32_t uid_;
  std::optional<os::DirectoryWatch> watch_;
  std::unordered_map<std::string, std::unique_ptr<Entry>, KeyedHash> entries_;
  std::unordered_map<SenderId, Names, KeyedHash> senders_;
  std::deque<std::pair<SenderId, Names>> ended_;  // senders whose names are settled in turns
  std::deque<Entry*> queue_;
  std::set<std::pair<int64_t, Entry*>> timers_;
  size_t messages_ = 0;
  bool closing_ = false;
  bool waits_for_holders_ = false;
};

}  // namespace tenon::manager

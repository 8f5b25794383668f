// The names that clients registered, who registered them, and which of them may go.
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

// One process that sends messages, or, where the kernel does not name it, one connection. Never
// used again for another.
using SenderId = uint64_t;

struct Bounds {
  size_t names = 1'000'000;
  size_t names_per_sender = 200'000;
};

// A name is looked at when something happened to it: a sender let go of it or ended, or the
// directory's watch told. Looks wait in a queue, so that a sender with many names does not keep the
// others waiting.
//
// The file's count is what its openers and senders of messages made of it. A sender that ended
// without a word left its part in it, which is known here: as many as it had registered and not
// deallocated. What remains after that are messages in flight. So a file goes when nobody holds it
// (the kernel's write lease says so, and keeps openers out meanwhile) and nothing remains.
class Objects {
 public:
  static Result<std::unique_ptr<Objects>> open(const std::string& directory, const Bounds& bounds);

  // False: that is one name too many. `claimed_pid` is what the message says.
  bool add(SenderId sender, const std::string& leaf, int32_t claimed_pid);
  void subtract(SenderId sender, const std::string& leaf);
  void end_of(SenderId sender);

  // -1: there is no watch (inotify's limits), so names are looked at from time to time.
  int watch_fd() const noexcept { return watch_ ? watch_->fd() : -1; }
  void read_watch();

  // Looks at `most` names. `now_ns` is monotonic.
  void work(size_t most, int64_t now_ns);
  bool has_work() const noexcept { return !queue_.empty() || !ended_.empty(); }
  int64_t next_due_ns() const noexcept;  // INT64_MAX: none
  // Whether a sender that ended in order may have left a message that somebody will still open.
  bool has_messages() const noexcept { return messages_ > 0; }
  size_t size() const noexcept { return entries_.size(); }

  // Look at all for the last time: what nobody holds goes, messages or not. `close` false: they are
  // looked at as ever again.
  void close(bool close);
  // While `wait` is true, the last look waits until a held name is let go of, because its holder is
  // about to end.
  void wait_for_holders(bool wait) noexcept { waits_for_holders_ = wait; }
  // Before an end that somebody asked for: what is dead goes, the rest stays.
  void settle();

 private:
  struct Part {
    SenderId sender = 0;
    int32_t net = 0;  // registered less deallocated
    // Of those, registered when there was no such file, by a sender that was not going to make it.
    int32_t unproven = 0;
    int64_t added_ns = 0;  // the last time
  };
  struct Entry {
    std::string leaf;
    uint64_t device = 0;
    uint64_t inode = 0;        // 0: not seen yet
    int64_t left_behind = 0;   // what ended senders have not taken back from the file's count
    std::vector<Part> parts;   // of living senders
    int64_t due_ns = 0;        // in timers_ if not 0
    uint8_t waits = 0;         // how often it was found held by strangers
    bool maker_known = false;  // a sender registered it in order to make it
    bool queued = false;
    bool message = false;  // counted in messages_
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
  os::Fd spare_;  // given up for a look when clients have taken all others
  const std::string path_;
  const Bounds bounds_;
  const uint32_t uid_;
  std::optional<os::DirectoryWatch> watch_;
  std::unordered_map<std::string, std::unique_ptr<Entry>, KeyedHash> entries_;
  std::unordered_map<SenderId, Names, KeyedHash> senders_;
  std::deque<std::pair<SenderId, Names>> ended_;  // their names are settled in turns
  std::deque<Entry*> queue_;
  std::set<std::pair<int64_t, Entry*>> timers_;
  size_t messages_ = 0;
  bool closing_ = false;
  bool waits_for_holders_ = false;
};

}  // namespace tenon::manager

#include "manager/objects.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "names/filename.h"
#include "names/liveness.h"
#include "os/memfd.h"
#include "share/named_file_head.h"

namespace tenon::manager {
namespace {

constexpr int64_t kMillisecond = 1'000'000;
// A check of a name takes about this many times as long as noting that a sender has left the name.
constexpr size_t kEndsPerLook = 8;
// Two processes that check one file disturb each other for some microseconds.
constexpr int64_t kSoonNs = 20 * kMillisecond;
// A sender that registered a name and does not hold it is about to open it, or failed to.
constexpr int64_t kOpeningNs = 1000 * kMillisecond;
// At the end, a held name is checked this often, because another process that checks it holds it
// for a moment.
constexpr uint8_t kClosingTries = 3;
constexpr int64_t kSlowestWatchedNs = 30'000 * kMillisecond;
constexpr int64_t kSlowestBlindNs = 1000 * kMillisecond;

}  // namespace

Objects::Objects(os::Fd directory, std::string path, const Bounds& bounds) noexcept
    : directory_(std::move(directory)), path_(std::move(path)), bounds_(bounds), uid_(geteuid()) {}

Result<std::unique_ptr<Objects>> Objects::open(const std::string& directory, const Bounds& bounds) {
  TENON_ASSIGN(os::Fd fd, os::open_directory(directory));
  std::unique_ptr<Objects> objects(new Objects(std::move(fd), directory, bounds));
  Result<os::DirectoryWatch> watch = os::DirectoryWatch::create();
  if (watch.is_ok() && watch.value().add(directory, true).is_ok())
    objects->watch_ = std::move(watch).value();
  objects->take_spare();
  return objects;
}

void Objects::take_spare() {
  Result<os::Fd> opened = os::open_directory(path_);
  if (opened.is_ok()) spare_ = std::move(opened).value();
}

Objects::Names* Objects::names_of(SenderId sender) noexcept {
  if (const auto place = senders_.find(sender); place != senders_.end()) return &place->second;
  const auto ended = std::find_if(ended_.begin(), ended_.end(),
                                  [&](const auto& one) { return one.first == sender; });
  return ended == ended_.end() ? nullptr : &ended->second;
}

Objects::Part* Objects::part_of(Entry* entry, SenderId sender) noexcept {
  const auto place = std::find_if(entry->parts.begin(), entry->parts.end(),
                                  [&](const Part& part) { return part.sender == sender; });
  return place == entry->parts.end() ? nullptr : &*place;
}

void Objects::drop_part(Entry* entry, SenderId sender) noexcept {
  std::erase_if(entry->parts, [&](const Part& part) { return part.sender == sender; });
}

void Objects::enqueue(Entry* entry) {
  if (entry->queued) return;
  queue_.push_back(entry);
  entry->queued = true;
}

// Something happened to the name, so it is checked soon, and if necessary soon again.
void Objects::touch(Entry* entry) {
  entry->waits = 0;
  enqueue(entry);
}

void Objects::set_due(Entry* entry, int64_t due_ns) {
  if (entry->due_ns != 0) timers_.erase({entry->due_ns, entry});
  entry->due_ns = due_ns;
  if (due_ns != 0) timers_.insert({due_ns, entry});
}

void Objects::set_message(Entry* entry, bool message) noexcept {
  if (entry->message == message) return;
  entry->message = message;
  if (message) {
    ++messages_;
  } else {
    --messages_;
  }
}

// Forgets what is known of a file, because another file has the name now, or will have it.
void Objects::forget_file(Entry* entry) noexcept {
  entry->device = 0;
  entry->inode = 0;
  entry->left_behind = 0;
  entry->maker_known = false;
  set_message(entry, false);
}

void Objects::erase(Entry* entry) {
  for (const Part& part : entry->parts) {
    if (Names* names = names_of(part.sender)) names->erase(entry);
  }
  set_due(entry, 0);
  set_message(entry, false);
  if (entry->queued) std::erase(queue_, entry);
  const std::string leaf = entry->leaf;
  entries_.erase(leaf);
}

bool Objects::add(SenderId sender, const std::string& leaf, int32_t claimed_pid) {
  auto place = entries_.find(leaf);
  if (place == entries_.end()) {
    if (entries_.size() >= bounds_.names) return false;
    place = entries_.emplace(leaf, std::make_unique<Entry>()).first;
    place->second->leaf = leaf;
  }
  Entry* entry = place->second.get();
  Names& names = senders_[sender];
  Part* part = part_of(entry, sender);
  if (part == nullptr) {
    if (names.size() >= bounds_.names_per_sender) {
      if (entry->parts.empty() && entry->inode == 0 && !entry->queued) erase(entry);
      return false;
    }
    names.insert(entry);
    entry->parts.push_back({sender, 0, 0, 0});
    part = &entry->parts.back();
  }
  Result<os::NameInfo> seen = os::look_at_name(directory_.get(), leaf);
  if (seen.is_ok()) {
    const os::NameInfo& info = seen.value();
    if (entry->inode != 0 && (entry->inode != info.inode || entry->device != info.device)) {
      forget_file(entry);
      for (Part& other : entry->parts) other.net = other.unproven = 0;
    }
    entry->inode = info.inode;
    entry->device = info.device;
  } else if (claimed_pid != 0 && names::maker_of_torch_name(leaf) == claimed_pid) {
    // PyTorch registers a name just before it makes the file.
    entry->maker_known = true;
  } else {
    ++part->unproven;
  }
  ++part->net;
  part->added_ns = os::real_time_ns();
  return true;
}

void Objects::subtract(SenderId sender, const std::string& leaf) {
  const auto place = entries_.find(leaf);
  if (place == entries_.end()) return;
  Entry* entry = place->second.get();
  Part* part = part_of(entry, sender);
  if (part == nullptr) {
    // A child of fork may deallocate a name that its parent registered. Its negative `net` keeps
    // the sum right while the entry lives.
    if (senders_[sender].size() >= bounds_.names_per_sender) return;
    senders_[sender].insert(entry);
    entry->parts.push_back({sender, 0, 0, 0});
    part = &entry->parts.back();
  }
  --part->net;
  // A sender deallocates only a file that it opened.
  if (part->unproven > 0) --part->unproven;
  if (part->net == 0) {
    senders_[sender].erase(entry);
    drop_part(entry, sender);
  }
  touch(entry);
}

void Objects::end_of(SenderId sender) {
  const auto place = senders_.find(sender);
  if (place == senders_.end()) return;
  ended_.emplace_back(sender, std::move(place->second));
  senders_.erase(place);
}

void Objects::settle_some(size_t most) {
  while (!ended_.empty()) {
    auto& [sender, names] = ended_.front();
    for (; !names.empty(); --most) {
      if (most == 0) return;
      Entry* entry = *names.begin();
      names.erase(names.begin());
      if (const Part* part = part_of(entry, sender); part != nullptr) {
        entry->left_behind += std::max(part->net - part->unproven, std::min(part->net, 0));
        drop_part(entry, sender);
      }
      touch(entry);
    }
    ended_.pop_front();
  }
}

void Objects::read_watch() {
  if (!watch_) return;
  bool overflowed = false;
  watch_->read([&](int, const char* leaf) {
    if (leaf == nullptr) {
      overflowed = true;
    } else if (const auto place = entries_.find(leaf); place != entries_.end()) {
      touch(place->second.get());
    }
  });
  if (!overflowed) return;
  for (const auto& [leaf, entry] : entries_) touch(entry.get());
}

void Objects::work(size_t most, int64_t now_ns) {
  while (!timers_.empty() && timers_.begin()->first <= now_ns) {
    Entry* entry = timers_.begin()->second;
    set_due(entry, 0);
    enqueue(entry);
  }
  settle_some(most * kEndsPerLook);
  for (; most > 0 && !queue_.empty(); --most) {
    Entry* entry = queue_.front();
    queue_.pop_front();
    entry->queued = false;
    look(entry, now_ns);
  }
}

int64_t Objects::next_due_ns() const noexcept {
  return timers_.empty() ? INT64_MAX : timers_.begin()->first;
}

void Objects::look(Entry* entry, int64_t now_ns) {
  int64_t later_ns = 0;
  const Found found = examine(entry, &later_ns);
  if (!spare_.is_open()) take_spare();
  set_message(entry, found == Found::kMessage && entry->left_behind <= 0);
  const bool wanted = !entry->parts.empty();
  switch (found) {
    case Found::kMissing:
    case Found::kReplaced:
    case Found::kForeign:
    case Found::kRemoved:
      forget_file(entry);
      set_due(entry, 0);
      if (!wanted) erase(entry);
      return;
    case Found::kLater: set_due(entry, now_ns + later_ns); return;
    case Found::kHeld:
    case Found::kMessage: break;
  }
  if (closing_ &&
      (found != Found::kHeld || (entry->waits >= kClosingTries && !waits_for_holders_))) {
    erase(entry);
    return;
  }
  // If no registered sender holds the file, an unknown process holds it or will. The watch reports
  // when that changes. The timer is for a change that the watch misses.
  const bool by_strangers = std::none_of(entry->parts.begin(), entry->parts.end(),
                                         [](const Part& part) { return part.net > 0; });
  const int64_t slowest = closing_ ? kSoonNs : watch_ ? kSlowestWatchedNs : kSlowestBlindNs;
  const int64_t pause = std::min<int64_t>(kSoonNs << std::min<int>(entry->waits, 16), slowest);
  if (entry->waits < UINT8_MAX) ++entry->waits;
  set_due(entry, by_strangers ? now_ns + pause : 0);
}

Objects::Found Objects::examine(Entry* entry, int64_t* later_ns) {
  *later_ns = kSoonNs;
  Result<os::Fd> opened = os::open_name(directory_.get(), entry->leaf, false);
  if (!opened.is_ok() && opened.status().code() == Code::kResourceExhausted) {
    spare_.reset();
    opened = os::open_name(directory_.get(), entry->leaf, false);
  }
  if (!opened.is_ok()) {
    switch (opened.status().code()) {
      case Code::kNotFound: return Found::kMissing;
      case Code::kWouldBlock:
      case Code::kResourceExhausted: return Found::kLater;
      default: return Found::kForeign;
    }
  }
  const int fd = opened.value().get();
  Result<os::NameInfo> looked = os::look_at_file(fd);
  if (!looked.is_ok()) return Found::kLater;
  const os::NameInfo& info = looked.value();
  if (info.kind != os::NameInfo::Kind::kFile || info.uid != uid_) return Found::kForeign;
  if (entry->inode == 0) {
    // No sender was seen to use a file of this name.
    if (!entry->maker_known) return Found::kForeign;
    entry->inode = info.inode;
    entry->device = info.device;
  }
  if (entry->inode != info.inode || entry->device != info.device) return Found::kReplaced;
  switch (os::take_lease(fd)) {
    case os::Alone::kNo: return Found::kHeld;
    case os::Alone::kYes: return judge(entry, fd, true, later_ns);
    case os::Alone::kUnknown: return judge(entry, fd, false, later_ns);
  }
  return Found::kHeld;
}

// Closing `fd` ends the write lease. Without leases (`alone` is false) only the count can be used,
// and then the file must have no message in flight and no registered sender.
Objects::Found Objects::judge(Entry* entry, int fd, bool alone, int64_t* later_ns) {
  Result<share::FilenameHead> read = share::read_head(fd);
  const share::FilenameHead head = read.is_ok() ? read.value() : share::FilenameHead{};
  int64_t left_behind = entry->left_behind;
  int64_t youngest_ns = INT64_MAX;
  const int64_t now_real_ns = os::real_time_ns();
  for (const Part& part : entry->parts) {
    left_behind += std::min(part.net, 0);
    if (part.net > 0)
      youngest_ns = std::min(youngest_ns, std::max<int64_t>(now_real_ns - part.added_ns, 0));
  }
  const int64_t in_flight = int64_t{head.count} - left_behind;
  if (!alone && (in_flight > 0 || youngest_ns != INT64_MAX)) return Found::kHeld;
  if (closing_ && head.magic == share::kFilenameMagic) {
    // The head of a file of Tenon's says how long a message is waited for.
    os::drop_lease(fd);
    names::LookOptions options;
    options.remove = true;
    static_cast<void>(names::look_at(directory_.get(), entry->leaf, options));
    return Found::kMessage;
  }
  if (in_flight > 0 && !closing_) return Found::kMessage;
  if (youngest_ns < kOpeningNs) {
    *later_ns = kOpeningNs - youngest_ns;
    return Found::kLater;
  }
  return remove(*entry) ? Found::kRemoved : Found::kForeign;
}

bool Objects::remove(const Entry& entry) noexcept {
  Result<os::NameInfo> named = os::look_at_name(directory_.get(), entry.leaf);
  if (!named.is_ok() || named.value().inode != entry.inode || named.value().device != entry.device)
    return true;
  return os::unlink_name(directory_.get(), entry.leaf).is_ok();
}

void Objects::close(bool close) {
  if (closing_ == close) return;
  closing_ = close;
  if (!close) return;
  for (const auto& [leaf, entry] : entries_) touch(entry.get());
}

void Objects::settle() {
  for (const auto& [leaf, entry] : entries_) touch(entry.get());
  while (has_work()) work(queue_.size() + 1, 0);
}

}  // namespace tenon::manager

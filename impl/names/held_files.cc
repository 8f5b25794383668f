#include "names/held_files.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <thread>
#include <vector>

#include "base/fork.h"
#include "base/process_state.h"
#include "names/liveness.h"
#include "names/manager.h"
#include "os/host.h"
#include "os/named_file.h"
#include "os/process.h"
#include "share/cache.h"
#include "share/named_file_head.h"

namespace tenon::names {
namespace {

using os::Fd;
using os::NameInfo;

// A file that this process keeps for its messages in flight after its own storages have ended. A
// mapping of the head keeps the lock. An fd would too, but fds are few, and messages can be many.
struct Kept {
  Ref<Directory> directory;
  std::string leaf;
  os::Mapping head;
};

// A file whose count said that this process was the last holder. Nobody opens the file any more,
// unless a forked child still holds it without a part in the count (count_up()).
struct LastHeld {
  Ref<Directory> directory;
  std::string leaf;
  uint64_t device = 0;
  uint64_t inode = 0;
};

// The number of tries, a millisecond apart, to remove such a file. Another process may check the
// file at the same moment. Also, if a peer ended and left an fd unread in a socket, the kernel
// closes that fd a timer tick later, or even later on a busy machine.
constexpr int kLastTries = 5;

struct NamesState : ProcessState<LockRank::kNames> {
  std::vector<Kept> kept;
  // Files that could not be removed yet. The library's thread tries again. If the process ends
  // first, at_exit() removes them.
  std::vector<LastHeld> unsettled;
  // The register of the files that this process holds, a linked list.
  FileTail* first = nullptr;
  bool exit_hook = false;

  // A forked child holds the files that it inherited by their mappings, and has no part in the
  // counts (leave() sees that by the generation). The files kept for messages are the parent's:
  // mappings of them in the child would make the files look held.
  void in_child() noexcept {
    kept.clear();
    unsettled.clear();
  }
};

NamesState& names_state() noexcept { return process_state<NamesState>(); }

bool same_file(const NameInfo& info, uint64_t device, uint64_t inode) noexcept {
  return info.device == device && info.inode == inode;
}

// Whether a message for which the file is kept may still be on its way. The file may have been cut
// short.
bool is_awaited(const Kept& kept) noexcept {
  std::byte bytes[share::kFilenameHeaderNbytes];
  if (!os::copy_from_mapping(kept.head.base(), bytes, sizeof bytes).is_ok()) return false;
  const share::FilenameHead head = share::parse_head(bytes);
  return head.count > 0 && head.in_flight > 0;
}

}  // namespace

// The functions that use the register of held files, the exit handler among them.
class Names {
 public:
  static void at_exit() noexcept {
    NamesState& all = names_state();
    std::vector<Kept> kept;
    {
      const std::lock_guard<std::mutex> lock(all.mutex);
      kept.swap(all.kept);
    }
    for (const Kept& each : kept) {
      const int64_t until = os::real_time_ns() + kKeepNs;
      (void)os::copy_to_mapping(
          &until, each.head.base() + offsetof(share::FilenameHeader, keep_until_ns), sizeof until);
    }
    std::vector<LastHeld> last;
    {
      const std::lock_guard<std::mutex> lock(all.mutex);
      last.swap(all.unsettled);
    }
    while (true) {
      FileTail* tail = nullptr;
      {
        const std::lock_guard<std::mutex> lock(all.mutex);
        tail = all.first;
      }
      if (tail == nullptr) break;
      tail->leave(true);
      if (tail->last_) add_last(*tail, &last);
    }
    if (!last.empty()) remove_last(last);
  }

  // Notes a file that could not be removed. It is removed at exit, if it still exists then.
  static void not_settled(const FileTail& tail) noexcept {
    NamesState& all = names_state();
    std::vector<LastHeld> files;
    {
      const std::lock_guard<std::mutex> lock(all.mutex);
      files.swap(all.unsettled);
    }
    std::erase_if(files, [](const LastHeld& each) { return !is_there(each); });
    add_last(tail, &files);
    const std::lock_guard<std::mutex> lock(all.mutex);
    try {
      all.unsettled.insert(all.unsettled.end(), std::make_move_iterator(files.begin()),
                           std::make_move_iterator(files.end()));
    } catch (...) {
      // No memory: the next sweep removes these files.
    }
  }

  // Removes the files at exit. The mappings of this process stay until the kernel takes them, so
  // the lease cannot be asked for. Without relatives by fork the count is believed, as PyTorch
  // does. A relative may hold a file without a part in the count, but it shows in /proc.
  static void remove_last(const std::vector<LastHeld>& files) noexcept {
    try {
      std::vector<os::Holders> holders(files.size());
      if (has_forked()) {
        std::vector<os::FileId> ids;
        ids.reserve(files.size());
        for (const LastHeld& file : files) ids.push_back({file.device, file.inode});
        holders = os::find_holders(ids);
      }
      for (size_t i = 0; i < files.size(); ++i) {
        const auto& pids = holders[i].pids;
        if (std::any_of(pids.begin(), pids.end(),
                        [](pid_t pid) { return pid != os::process_id(); }))
          continue;
        if (is_there(files[i])) (void)os::unlink_name(files[i].directory->fd(), files[i].leaf);
      }
    } catch (...) {
      // No memory: the next sweep does it.
    }
  }

  static void add_last(const FileTail& tail, std::vector<LastHeld>* files) noexcept {
    try {
      files->push_back({tail.directory_, tail.leaf_, tail.device_, tail.inode_});
    } catch (...) {
      // No memory: the next sweep removes the file.
    }
  }

  static bool is_there(const LastHeld& file) noexcept {
    Result<NameInfo> info = os::look_at_name(file.directory->fd(), file.leaf);
    return info.is_ok() && same_file(info.value(), file.device, file.inode);
  }

  static void enter(FileTail* tail) noexcept {
    NamesState& all = names_state();
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (!all.exit_hook) {
      // Exit handlers and destructors of static objects run in reverse order. A static object that
      // is completed after this registration is destroyed first, so a storage that it holds is
      // released before at_exit() runs.
      all.exit_hook = std::atexit([]() { at_exit(); }) == 0;
    }
    tail->entered_ = true;
    tail->next_ = all.first;
    if (all.first != nullptr) all.first->previous_ = tail;
    all.first = tail;
  }

  // Takes the file out of the register. False: it was not there.
  static bool remove(FileTail* tail) noexcept {
    NamesState& all = names_state();
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (!tail->entered_) return false;
    tail->entered_ = false;
    (tail->previous_ != nullptr ? tail->previous_->next_ : all.first) = tail->next_;
    if (tail->next_ != nullptr) tail->next_->previous_ = tail->previous_;
    tail->previous_ = nullptr;
    tail->next_ = nullptr;
    return true;
  }

  // Keeps the file for messages in flight. Call this before the mapping is removed, because this
  // process must have the lock without a gap.
  static void keep(const FileTail& tail) noexcept {
    try {
      Kept kept{tail.directory_, tail.leaf_, os::Mapping()};
      Result<Fd> opened = os::open_name(tail.directory_->fd(), tail.leaf_, true);
      if (!opened.is_ok()) return;
      const Fd fd = std::move(opened).value();
      Result<NameInfo> info = os::look_at_file(fd.get());
      if (!info.is_ok() || !same_file(info.value(), tail.device_, tail.inode_) ||
          !os::take_shared_lock(fd.get()))
        return;
      Result<os::Mapping> head = os::Mapping::create(os::Mapping::Kind::kSharedWritable, fd.get(),
                                                     0, share::kFilenameHeaderNbytes);
      if (!head.is_ok()) return;
      kept.head = std::move(head).value();
      NamesState& all = names_state();
      const std::lock_guard<std::mutex> lock(all.mutex);
      all.kept.push_back(std::move(kept));
    } catch (...) {
      // No memory. The message is lost, as if this process had been killed.
    }
  }
};

void leave_names() noexcept { Names::at_exit(); }

FileTail::FileTail(Ref<Directory> directory, std::string leaf, uint64_t device, uint64_t inode,
                   std::string manager) noexcept
    : directory_(std::move(directory)),
      leaf_(std::move(leaf)),
      device_(device),
      inode_(inode),
      generation_(fork_generation()),
      manager_(std::move(manager)) {}

FileTail::~FileTail() {
  (void)Names::remove(this);
  directory_ = nullptr;
  close_idle_directories();
}

void FileTail::enter(share::FilenameHeader* header, os::Mapping page) noexcept {
  header_ = header;
  page_ = std::move(page);
  held_ = true;
  Names::enter(this);
}

// Whether the count can be changed. The file may have been cut short, and then changing the count
// would raise SIGBUS. A process that cuts the file between this check and the change attacks on
// purpose.
bool FileTail::header_is_there() const noexcept {
  int32_t count = 0;
  return header_ != nullptr && os::copy_from_mapping(header_, &count, sizeof count).is_ok();
}

void FileTail::leave(bool at_exit) noexcept {
  if (!Names::remove(this) || !header_is_there()) return;
  const bool inherited = generation_ != fork_generation();
  if (!inherited) count_down(&header_->count);
  last_ = header_->count.load(std::memory_order_relaxed) <= 0;
  if (inherited) return;
  const bool awaited = sent_.load(std::memory_order_relaxed) > 0 && !last_ &&
                       header_->in_flight.load(std::memory_order_relaxed) > 0;
  if (awaited && at_exit)
    header_->keep_until_ns.store(os::real_time_ns() + kKeepNs, std::memory_order_relaxed);
  if (awaited && !at_exit) Names::keep(*this);
  if (at_exit && !manager_.empty()) deallocate_at_manager(manager_, "/" + leaf_);
}

void FileTail::before_unmap(memory::Segment*) noexcept { leave(false); }

void FileTail::after_unmap() noexcept {
  page_ = os::Mapping();
  // If this process was the last in the count, a process that seems to hold the file only checks
  // it, as this one does. So the check is repeated.
  bool settled = settle_name(directory_, leaf_);
  for (int tries = 0; !settled && last_ && tries < kLastTries; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    settled = settle_name(directory_, leaf_);
  }
  if (!settled && last_) Names::not_settled(*this);
  // The deallocation comes last, as in PyTorch, so that the manager sees the file as it is then.
  if (held_ && !manager_.empty() && generation_ == fork_generation())
    deallocate_at_manager(manager_, "/" + leaf_);
}

Result<Fd> FileTail::reopen() {
  Result<Fd> opened = os::open_name(directory_->fd(), leaf_, true);
  if (opened.is_ok()) {
    Result<NameInfo> info = os::look_at_file(opened.value().get());
    if (info.is_ok() && same_file(info.value(), device_, inode_)) return opened;
  } else if (opened.status().code() != Code::kNotFound) {
    return opened;
  }
  const std::string path = filename().path();
  return Status(Code::kNotFound,
                format("the name %s is gone, and without it its file cannot be lent by fd",
                       path.c_str()))
      .with("path", path);
}

Status FileTail::count_message() {
  if (!header_is_there())
    return Status(Code::kNotFound, "the file may only be read, or was cut short")
        .with("path", filename().path());
  int32_t zero = 0;
  switch (count_up(&header_->count)) {
    case CountStep::kDone: break;
    case CountStep::kZero:
      // A forked child holds the file without a part in the count.
      if (header_->count.compare_exchange_strong(zero, 1) ||
          count_up(&header_->count) == CountStep::kDone)
        break;
      [[fallthrough]];
    case CountStep::kBad:
      return Status(Code::kCorrupt, "the count of the file is no count")
          .with("path", filename().path());
  }
  // PyTorch's own files have no such number. For them the manager keeps messages in flight.
  if (header_->magic == share::kFilenameMagic)
    header_->in_flight.fetch_add(1, std::memory_order_relaxed);
  sent_.fetch_add(1, std::memory_order_relaxed);
  return Status::ok();
}

void FileTail::count_received() noexcept {
  if (header_is_there()) count_message_received(header_);
}

std::string FileTail::manager() const {
  const std::lock_guard<std::mutex> lock(names_state().mutex);
  return manager_;
}

void FileTail::set_manager(const std::string& manager) {
  const std::lock_guard<std::mutex> lock(names_state().mutex);
  manager_ = manager;
}

CountStep count_up(std::atomic<int32_t>* count) noexcept {
  int32_t now = count->load(std::memory_order_relaxed);
  while (true) {
    if (now == 0) return CountStep::kZero;
    if (now < 0 || now == INT32_MAX) return CountStep::kBad;
    if (count->compare_exchange_weak(now, now + 1)) return CountStep::kDone;
  }
}

void count_down(std::atomic<int32_t>* count) noexcept {
  int32_t now = count->load(std::memory_order_relaxed);
  while (now > 0 && !count->compare_exchange_weak(now, now - 1)) {
  }
}

void count_message_received(share::FilenameHeader* header) noexcept {
  count_down(&header->count);
  // In PyTorch's own files `in_flight` is zero, and PyTorch's senders do not change it.
  if (header->magic == share::kFilenameMagic) count_down(&header->in_flight);
}

Ref<memory::Segment> find_held_file(const Filename& filename) {
  Result<Ref<Directory>> directory = open_names_directory(filename.directory);
  if (!directory.is_ok()) return nullptr;
  Result<NameInfo> info = os::look_at_name(directory.value()->fd(), filename.leaf);
  if (!info.is_ok() || info.value().kind != NameInfo::Kind::kFile) return nullptr;
  return share::find_segment({info.value().device, info.value().inode, true});
}

bool settle_name(const Ref<Directory>& directory, const std::string& leaf) noexcept {
  std::vector<Kept> settled;  // closed after the lock
  bool still_kept = false;
  {
    NamesState& all = names_state();
    const std::lock_guard<std::mutex> lock(all.mutex);
    for (size_t i = 0; i < all.kept.size();) {
      Kept& kept = all.kept[i];
      if (kept.leaf != leaf || kept.directory.get() != directory.get()) {
        ++i;
      } else if (is_awaited(kept)) {
        still_kept = true;
        ++i;
      } else {
        try {
          settled.push_back(std::move(kept));
        } catch (...) {
          return true;
        }
        all.kept.erase(all.kept.begin() + static_cast<ptrdiff_t>(i));
      }
    }
  }
  settled.clear();
  const bool is_bell = leaf.starts_with(kBellPrefix);
  if (is_bell) remove_dead_sockets(directory->fd());
  // The kernel may close a bell before it closes the sockets. So after a bell the directory is
  // checked again in any case.
  return still_kept || (remove_if_dead(directory->fd(), leaf) && !is_bell);
}

}  // namespace tenon::names

#include "names/directories.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/keyed_hash.h"
#include "base/process_state.h"
#include "names/liveness.h"
#include "names/names_thread.h"
#include "os/host.h"
#include "os/named_file.h"

namespace tenon::names {
namespace {

using os::Fd;
using os::NameInfo;

// How many idle directories stay open. Each needs an fd, and one of the user's inotify watches.
constexpr size_t kIdleDirectories = 16;

// A call checks at most kSweepSlice names, except in the first sweep of a directory, which takes at
// most kFirstSweepNs. A pass over all names begins kPassNs after the last one, or kWatchedPassNs if
// the directory is watched.
constexpr size_t kSweepSlice = 8;
constexpr int64_t kFirstSweepNs = 50'000'000;
constexpr int64_t kPassNs = 1'000'000'000;
constexpr int64_t kWatchedPassNs = 60'000'000'000;

struct KnownDirectory {
  Ref<Directory> directory;
  uint64_t last_use = 0;
};

struct DirectoriesState : ProcessState<LockRank::kDirectories> {
  std::unordered_map<std::string, KnownDirectory, KeyedHash> known;  // by path
  // Directories whose paths lead elsewhere by now.
  std::vector<Ref<Directory>> replaced;
  uint64_t uses = 0;

  void in_child() noexcept;
};

DirectoriesState& directories_state() noexcept { return process_state<DirectoriesState>(); }

}  // namespace

class Directories {
 public:
  // The child begins like a process that has just met the directories.
  static void in_child() noexcept {
    const auto forget = [](Directory* directory) {
      directory->pass_.clear();
      directory->next_pass_ns_ = 0;
      directory->swept_ = false;
      directory->swept_while_watched_ = false;
    };
    for (auto& [path, known] : directories_state().known) forget(known.directory.get());
    for (const Ref<Directory>& each : directories_state().replaced) forget(each.get());
  }

  // Whether nothing uses the directory. The caller holds the lock. New references are made only
  // from existing ones, or from here with the lock. The thread may copy the reference of its watch,
  // but it uses nothing that closing takes away.
  static bool is_idle(const Directory& directory) noexcept {
    return directory.strong_count() ==
           (directory.watched_.load(std::memory_order_relaxed) ? 2U : 1U);
  }

  static std::vector<Ref<Directory>> take_out_idle() {
    std::vector<Ref<Directory>> taken;
    DirectoriesState& all = directories_state();
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (all.known.size() <= kIdleDirectories && all.replaced.empty()) return taken;
    std::vector<decltype(all.known)::iterator> idle;
    for (auto at = all.known.begin(); at != all.known.end(); ++at) {
      if (is_idle(*at->second.directory)) idle.push_back(at);
    }
    std::sort(idle.begin(), idle.end(), [](const auto& one, const auto& other) {
      return one->second.last_use < other->second.last_use;
    });
    idle.resize(idle.size() - std::min(idle.size(), kIdleDirectories));
    taken.reserve(idle.size() + all.replaced.size());
    for (const auto& each : idle) {
      taken.push_back(std::move(each->second.directory));
      all.known.erase(each);
    }
    const auto old = std::partition(all.replaced.begin(), all.replaced.end(),
                                    [](const auto& each) { return !is_idle(*each); });
    taken.insert(taken.end(), std::make_move_iterator(old),
                 std::make_move_iterator(all.replaced.end()));
    all.replaced.erase(old, all.replaced.end());
    return taken;
  }

  // Gives the names to check in this call.
  static std::vector<std::string> next_names(Directory* directory, bool watched, int64_t now,
                                             bool* first) {
    std::vector<std::string> leaves;
    std::vector<std::string>& pass = directory->pass_;
    const std::lock_guard<std::mutex> lock(directories_state().mutex);
    // No watch reported the names that died between an earlier sweep and the start of the watch.
    *first = !directory->swept_ || (watched && !directory->swept_while_watched_);
    if (*first) pass.clear();
    if (pass.empty()) {
      if (!*first && now < directory->next_pass_ns_) return leaves;
      if (!list_names(*directory, &pass)) return leaves;
    }
    directory->swept_ = true;
    directory->swept_while_watched_ = directory->swept_while_watched_ || watched;
    if (*first || pass.size() <= kSweepSlice) {
      leaves.swap(pass);
    } else {
      leaves.assign(std::make_move_iterator(pass.end() - kSweepSlice),
                    std::make_move_iterator(pass.end()));
      pass.resize(pass.size() - kSweepSlice);
    }
    if (pass.empty()) directory->next_pass_ns_ = now + (watched ? kWatchedPassNs : kPassNs);
    return leaves;
  }

  // Makes the next calls check these names too.
  static void put_back(Directory* directory, std::vector<std::string> leaves) {
    const std::lock_guard<std::mutex> lock(directories_state().mutex);
    directory->pass_.insert(directory->pass_.end(), std::make_move_iterator(leaves.begin()),
                            std::make_move_iterator(leaves.end()));
  }

  static bool list_names(const Directory& directory, std::vector<std::string>* leaves) {
    const Status listed = os::list_names(directory.fd(), [&](const char* leaf) {
      leaves->emplace_back(leaf);
      return true;
    });
    return listed.is_ok();
  }
};

namespace {

void DirectoriesState::in_child() noexcept { Directories::in_child(); }

}  // namespace

Result<Ref<Directory>> open_names_directory(const std::string& path) {
  DirectoriesState& all = directories_state();
  const auto leads_to = [](const NameInfo& info, const Directory& directory) {
    return info.device == directory.device() && info.inode == directory.inode();
  };
  if (Result<NameInfo> now = os::look_at_path(path); now.is_ok()) {
    const std::lock_guard<std::mutex> lock(all.mutex);
    const auto found = all.known.find(path);
    if (found != all.known.end() && leads_to(now.value(), *found->second.directory)) {
      found->second.last_use = ++all.uses;
      return found->second.directory;
    }
  }
  TENON_ASSIGN(Fd fd, os::open_directory(path));
  TENON_ASSIGN(const NameInfo info, os::look_at_file(fd.get()));
  auto opened = Ref<Directory>::adopt(new Directory(std::move(fd), path, info.device, info.inode));
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    KnownDirectory& known = all.known.try_emplace(path, KnownDirectory{opened, 0}).first->second;
    known.last_use = ++all.uses;
    // The path may lead elsewhere than before, if the directory was removed and made again, or if
    // something was mounted there.
    if (!leads_to(info, *known.directory))
      all.replaced.push_back(std::exchange(known.directory, opened));
    opened = known.directory;
  }
  close_idle_directories();
  return opened;
}

void close_idle_directories() noexcept {
  try {
    for (const Ref<Directory>& each : Directories::take_out_idle()) unwatch_names(*each);
  } catch (...) {
    // No memory: the directories stay open.
  }
}

void sweep_some_names(const Ref<Directory>& directory, bool watched) noexcept {
  try {
    const int64_t now = os::real_time_ns();
    bool first = false;
    std::vector<std::string> later;
    for (std::string& leaf : Directories::next_names(directory.get(), watched, now, &first)) {
      const bool has_time = !first || os::real_time_ns() - now <= kFirstSweepNs;
      const bool is_clear = has_time && sweep_name(directory->fd(), leaf);
      // After a later call, or in a directory without a watch, another pass follows anyway.
      if (watched ? first && !is_clear : !has_time) later.push_back(std::move(leaf));
    }
    if (later.empty()) return;
    if (watched) {
      sweep_names_later(directory, std::move(later));
    } else {
      Directories::put_back(directory.get(), std::move(later));
    }
  } catch (...) {
    // No memory: the next call sweeps.
  }
}

void sweep_all_names(const Ref<Directory>& directory) noexcept {
  try {
    std::vector<std::string> leaves;
    if (Directories::list_names(*directory, &leaves))
      sweep_names_later(directory, std::move(leaves));
  } catch (...) {
    // No memory: the next call sweeps.
  }
}

}  // namespace tenon::names

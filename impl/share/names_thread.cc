#include "share/names_thread.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/fork.h"
#include "base/immortal.h"
#include "os/host.h"
#include "os/poller.h"
#include "os/service.h"
#include "share/names.h"

namespace tenon::share {
namespace {

using Clock = std::chrono::steady_clock;

// Both are shared with the thread while it uses them, and in a child of fork its share is never given back: so the child empties them.
struct Watched {
  Ref<Directory> directory;
  std::optional<os::DirectoryWatch> watch;
};

// Two that look at one name at once disturb each other, so whoever did not get a clear answer looks again, each after a time of its own;
// and for two seconds in all, since the other one may be stopped in its look, or killed, which nobody is told of.
struct Again {
  Ref<Directory> directory;
  std::string leaf;
  Clock::time_point due;
  int tries = 0;
};
constexpr int kAgain = 9;

struct NamesThreadState {
  std::mutex mutex;
  std::unordered_map<int, std::shared_ptr<Watched>> watches;  // by inotify fd
  std::unordered_map<const Directory*, int> watched;          // -> inotify fd; -1: it cannot be had
  // Only the thread changes these; the lock is for fork.
  std::map<std::pair<const Directory*, std::string>, std::shared_ptr<Again>> again;
  Clock::time_point next_look = Clock::time_point::max();
};

NamesThreadState& names_thread_state() noexcept { return immortal<NamesThreadState>(); }

void forget_names_thread_in_child() noexcept {
  NamesThreadState& all = names_thread_state();
  for (auto& [fd, watched] : all.watches) {
    if (watched == nullptr) continue;
    watched->watch.reset();
    watched->directory->set_watched(false);
    watched->directory = nullptr;
  }
  all.watches.clear();
  all.watched.clear();
  for (auto& [name, again] : all.again) again->directory = nullptr;
  all.again.clear();
  all.next_look = Clock::time_point::max();
}

const bool g_names_thread_fork_hooks = [] {
  (void)names_thread_state();
  register_fork_hooks(6, {[]() noexcept { names_thread_state().mutex.lock(); }, []() noexcept { names_thread_state().mutex.unlock(); },
                          []() noexcept {
                            names_thread_state().mutex.unlock();
                            forget_names_thread_in_child();
                          }});
  return true;
}();

Clock::time_point next_try(int tries) {
  return Clock::now() + std::chrono::milliseconds(2 + os::process_id() % 17 + (tries == 0 ? 0 : std::min(10 << tries, 480)));
}

void look_again() noexcept;

// With the lock. A look that is overdue may never come: call_later() had no memory.
void want_look(NamesThreadState* all, Clock::time_point due) noexcept {
  const Clock::time_point now = Clock::now();
  if (due >= all->next_look && all->next_look > now) return;
  all->next_look = due;
  os::call_later(&look_again, std::chrono::duration_cast<std::chrono::nanoseconds>(due - now).count());
}

void look_again() noexcept {
  NamesThreadState& all = names_thread_state();
  const Clock::time_point now = Clock::now();
  Clock::time_point next = Clock::time_point::max();
  bool shrank = false;
  for (auto at = all.again.begin(); at != all.again.end();) {
    const std::shared_ptr<Again> again = at->second;  // let go after the lock
    const bool is_due = again->due <= now;
    const bool is_over = is_due && (settle_name(again->directory, again->leaf) || again->tries + 1 >= kAgain);
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (is_over) {
      at = all.again.erase(at);
      shrank = true;
    } else {
      if (is_due) again->due = next_try(++again->tries);
      next = std::min(next, again->due);
      ++at;
    }
  }
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    all.next_look = Clock::time_point::max();
    if (!all.again.empty()) want_look(&all, next);
  }
  if (shrank) close_idle_directories();
}

void read(Watched* watched) {
  bool overflowed = false;
  std::vector<std::string> leaves;
  watched->watch->read([&](const char* leaf) { leaves.emplace_back(leaf); }, &overflowed);
  NamesThreadState& all = names_thread_state();
  for (const std::string& leaf : leaves) {
    if (settle_name(watched->directory, leaf)) continue;
    const std::lock_guard<std::mutex> lock(all.mutex);
    const Clock::time_point due = next_try(0);
    all.again.insert_or_assign({watched->directory.get(), leaf}, std::make_shared<Again>(Again{watched->directory, leaf, due, 0}));
    want_look(&all, due);
  }
  if (overflowed) sweep_some_names(watched->directory, false);
}

void on_watch(int fd, bool, bool) noexcept {
  NamesThreadState& all = names_thread_state();
  std::shared_ptr<Watched> watched;
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (const auto found = all.watches.find(fd); found != all.watches.end()) watched = found->second;
  }
  if (watched == nullptr) return;
  try {
    read(watched.get());
  } catch (...) {
    // No memory: what was to be done is left to the next sweep.
  }
}

}  // namespace

bool watch_names(const Ref<Directory>& directory) noexcept {
  try {
    NamesThreadState& all = names_thread_state();
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (const auto known = all.watched.find(directory.get()); known != all.watched.end()) return known->second >= 0;
    int& watched = all.watched[directory.get()];
    watched = -1;
    Result<os::DirectoryWatch> watch = os::DirectoryWatch::create(directory->path(), false);
    if (!watch.is_ok()) return false;
    auto record = std::make_shared<Watched>(Watched{directory, std::move(watch).value()});
    const int fd = record->watch->fd();
    std::shared_ptr<Watched>& place = all.watches[fd];
    if (!os::serve_fd(fd, &on_watch).is_ok()) {
      all.watches.erase(fd);
      return false;
    }
    place = std::move(record);
    watched = fd;
    directory->set_watched(true);
    return true;
  } catch (...) {
    return false;
  }
}

void unwatch_names(Directory& directory) noexcept {
  std::shared_ptr<Watched> ending;  // let go after the lock
  NamesThreadState& all = names_thread_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto known = all.watched.find(&directory);
  if (known == all.watched.end()) return;
  if (const auto found = all.watches.find(known->second); found != all.watches.end()) {
    os::stop_serving_fd(found->first);
    ending = std::move(found->second);
    all.watches.erase(found);
    directory.set_watched(false);
  }
  all.watched.erase(known);
}

}  // namespace tenon::share

#include "names/names_thread.h"

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

#include "base/process_state.h"
#include "names/held_files.h"
#include "names/liveness.h"
#include "os/host.h"
#include "os/poller.h"
#include "os/service.h"

namespace tenon::names {
namespace {

using Clock = std::chrono::steady_clock;

// A directory that is watched. The thread shares Watched and Again objects while it uses them. A
// forked child inherits the thread's references, which are never released there, so the child
// empties the objects.
struct Watched {
  Ref<Directory> directory;
};

// A name that must be checked again. Two processes that check one name at once disturb each other.
// So a process that got no clear answer checks again, after a delay of its own. It does so for two
// seconds in all, because the other process may be stopped or killed during its check, and nobody
// reports that.
struct Again {
  Ref<Directory> directory;
  std::string leaf;
  Clock::time_point due;
  int tries = 0;
  // The name comes from a sweep that found no clear answer, or did not reach the name. So it may be
  // a socket.
  bool is_swept = false;
};
// The most checks of a name that an event reported.
constexpr int kAgain = 9;
// The most checks of a name that comes from a sweep. Such a name is seldom dead. The second check
// comes half a second after the first.
constexpr int kAgainSwept = 2;
// The most checks in one tick, because events and other ticks wait for it. A directory can have
// many names.
constexpr int kLooksAtOnce = 64;

constexpr int kUnwatched = -1;

struct NamesThreadState : ProcessState<LockRank::kNamesThread> {
  std::shared_ptr<os::DirectoryWatch> watch;  // null while no directory is watched
  // The watched directories by the number that the watch gives to a directory. Several paths can
  // lead to one directory.
  std::unordered_map<int, std::vector<std::shared_ptr<Watched>>> watched;
  std::unordered_map<const Directory*, int> numbers;  // kUnwatched: the directory cannot be watched
  // Only the thread removes and changes entries. The lock guards against threads that add entries,
  // and against fork.
  std::map<std::pair<const Directory*, std::string>, std::shared_ptr<Again>> again;
  Clock::time_point next_look = Clock::time_point::max();

  void in_child() noexcept {
    for (auto& [number, directories] : watched) {
      for (const std::shared_ptr<Watched>& each : directories) {
        each->directory->set_watched(false);
        each->directory = nullptr;
      }
    }
    if (watch) *watch = os::DirectoryWatch();
    watch = nullptr;
    watched.clear();
    numbers.clear();
    for (auto& [name, check] : again) check->directory = nullptr;
    again.clear();
    next_look = Clock::time_point::max();
  }
};

NamesThreadState& names_thread_state() noexcept { return process_state<NamesThreadState>(); }

// The time of the next check of a name after `tries` checks. The delay depends on the pid, so that
// two processes do not check at the same time again.
Clock::time_point next_try(int tries) {
  return Clock::now() + std::chrono::milliseconds(2 + os::process_id() % 17 +
                                                  (tries == 0 ? 0 : std::min(10 << tries, 480)));
}

void look_again() noexcept;

// Makes a tick come at `due`. The caller holds the lock. If the tick that was wanted before is
// overdue, it may never come, because call_later() had no memory.
void want_look(NamesThreadState* all, Clock::time_point due) noexcept {
  const Clock::time_point now = Clock::now();
  if (due >= all->next_look && all->next_look > now) return;
  all->next_look = due;
  os::call_later(&look_again,
                 std::max<int64_t>(
                     std::chrono::duration_cast<std::chrono::nanoseconds>(due - now).count(), 0));
}

// Checks a name once. True: the answer was clear.
bool look_once(const Again& again) noexcept {
  if (!settle_name(again.directory, again.leaf)) return false;
  return !again.is_swept || sweep_name(again.directory->fd(), again.leaf);
}

void look_again() noexcept {
  NamesThreadState& all = names_thread_state();
  const Clock::time_point now = Clock::now();
  Clock::time_point next = Clock::time_point::max();
  bool shrank = false;
  int looks = 0;
  std::unique_lock<std::mutex> to_begin(all.mutex);
  auto at = all.again.begin();
  to_begin.unlock();
  while (at != all.again.end()) {
    const std::shared_ptr<Again> again = at->second;  // released after the lock
    const bool is_due = again->due <= now && looks < kLooksAtOnce;
    if (is_due) ++looks;
    const bool is_over = is_due && (look_once(*again) || again->tries + 1 >= kAgain);
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

struct Event {
  int number = os::DirectoryWatch::kAll;
  std::optional<std::string> leaf;  // nothing: anything may have happened
};

std::vector<std::shared_ptr<Watched>> directories_of(int number) {
  NamesThreadState& all = names_thread_state();
  std::vector<std::shared_ptr<Watched>> found;
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (number != os::DirectoryWatch::kAll) {
    const auto one = all.watched.find(number);
    return one == all.watched.end() ? found : one->second;
  }
  for (const auto& [each, directories] : all.watched)
    found.insert(found.end(), directories.begin(), directories.end());
  return found;
}

// Checks a name that an event reported, and again later if the answer was not clear.
void settle(const Ref<Directory>& directory, const std::string& leaf) {
  if (settle_name(directory, leaf)) return;
  NamesThreadState& all = names_thread_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const Clock::time_point due = next_try(0);
  all.again.insert_or_assign({directory.get(), leaf},
                             std::make_shared<Again>(Again{directory, leaf, due, 0}));
  want_look(&all, due);
}

void read(os::DirectoryWatch* watch) {
  std::vector<Event> events;
  watch->read([&](int number, const char* leaf) {
    events.push_back({number, leaf == nullptr ? std::nullopt : std::optional<std::string>(leaf)});
  });
  for (const Event& event : events) {
    for (const std::shared_ptr<Watched>& each : directories_of(event.number)) {
      if (event.leaf) {
        settle(each->directory, *event.leaf);
      } else {
        sweep_all_names(each->directory);
      }
    }
  }
}

void on_watch(int fd, bool, bool) noexcept {
  NamesThreadState& all = names_thread_state();
  std::shared_ptr<os::DirectoryWatch> watch;
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (!all.watch || all.watch->fd() != fd) return;
    watch = all.watch;
  }
  try {
    read(watch.get());
  } catch (...) {
    // No memory. The next sweep checks these names.
  }
}

// Call with the lock. Null means that no watch can be had.
os::DirectoryWatch* open_watch(NamesThreadState* all) {
  if (all->watch) return all->watch.get();
  Result<os::DirectoryWatch> made = os::DirectoryWatch::create();
  if (!made.is_ok()) return nullptr;
  auto watch = std::make_shared<os::DirectoryWatch>(std::move(made).value());
  if (!os::serve_fd(watch->fd(), &on_watch).is_ok()) return nullptr;
  all->watch = std::move(watch);
  return all->watch.get();
}

// Call with the lock, and release the result after the lock: closing a watch takes long.
std::shared_ptr<os::DirectoryWatch> close_unused_watch(NamesThreadState* all) noexcept {
  if (!all->watch || !all->watched.empty()) return nullptr;
  os::stop_serving_fd(all->watch->fd());
  return std::exchange(all->watch, nullptr);
}

}  // namespace

bool watch_names(const Ref<Directory>& directory) noexcept {
  std::shared_ptr<os::DirectoryWatch> unused;  // released after the lock
  try {
    NamesThreadState& all = names_thread_state();
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (const auto known = all.numbers.find(directory.get()); known != all.numbers.end())
      return known->second != kUnwatched;
    int& number = all.numbers[directory.get()];
    number = kUnwatched;
    auto record = std::make_shared<Watched>(Watched{directory});
    os::DirectoryWatch* const watch = open_watch(&all);
    if (watch == nullptr) return false;
    Result<int> added = watch->add(directory->path(), false);
    if (!added.is_ok()) {
      unused = close_unused_watch(&all);
      return false;
    }
    all.watched[added.value()].push_back(std::move(record));
    number = added.value();
    directory->set_watched(true);
    return true;
  } catch (...) {
    return false;
  }
}

void sweep_names_later(const Ref<Directory>& directory, std::vector<std::string> leaves) {
  NamesThreadState& all = names_thread_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const Clock::time_point due = next_try(0);
  want_look(&all, due);
  for (std::string& leaf : leaves) {
    auto again = std::make_shared<Again>(Again{directory, leaf, due, kAgain - kAgainSwept, true});
    // An entry that is there already comes from an event and gets more checks. It stays.
    all.again.try_emplace({directory.get(), std::move(leaf)}, std::move(again));
  }
}

void unwatch_names(Directory& directory) noexcept {
  std::shared_ptr<Watched> ending;  // these two are released after the lock
  std::shared_ptr<os::DirectoryWatch> unused;
  NamesThreadState& all = names_thread_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto known = all.numbers.find(&directory);
  if (known == all.numbers.end()) return;
  const int number = known->second;
  all.numbers.erase(known);
  const auto found = all.watched.find(number);
  if (found == all.watched.end()) return;
  std::vector<std::shared_ptr<Watched>>& directories = found->second;
  const auto own = std::ranges::find_if(
      directories, [&](const auto& each) { return each->directory.get() == &directory; });
  if (own == directories.end()) return;
  ending = std::move(*own);
  directories.erase(own);
  directory.set_watched(false);
  if (!directories.empty()) return;
  all.watched.erase(found);
  all.watch->remove(number);
  unused = close_unused_watch(&all);
}

}  // namespace tenon::names

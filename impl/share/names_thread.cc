#include "share/names_thread.h"

#include <algorithm>
#include <array>
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
#include "share/names.h"

namespace tenon::share {
namespace {

using Clock = std::chrono::steady_clock;

struct Watched {
  Ref<Directory> directory;
  std::optional<os::DirectoryWatch> watch;  // none in a child of fork, where the thread's share in this is never given back
};

// Two that look at one name at once disturb each other, so whoever did not get a clear answer looks again, each after a time of its own;
// and for two seconds in all, since the other one may be stopped in its look, or killed, which nobody is told of.
struct Again {
  Ref<Directory> directory;
  Clock::time_point due;
  int tries = 0;
};
constexpr int kAgain = 9;

struct State {
  std::mutex mutex;
  bool running = false;
  std::unique_ptr<os::Poller> poller;
  std::unordered_map<int, std::shared_ptr<Watched>> watches;  // by inotify fd; the thread shares the one that it reads
  std::unordered_map<const Directory*, int> watched;          // -> inotify fd; -1: it cannot be had
  std::unordered_map<int, FdHandler> handlers;
  std::multimap<Clock::time_point, void (*)() noexcept> ticks;
};

State& state() noexcept { return immortal<State>(); }

void forget_in_child() noexcept {
  State& all = state();
  all.running = false;
  all.poller.reset();
  for (auto& [fd, watched] : all.watches) {
    watched->watch.reset();
    watched->directory->set_watched(false);
    watched->directory = nullptr;
  }
  all.watches.clear();
  all.watched.clear();
  all.handlers.clear();
  all.ticks.clear();
}

const bool g_fork_hooks = [] {
  (void)state();
  register_fork_hooks(6, {[]() noexcept { state().mutex.lock(); }, []() noexcept { state().mutex.unlock(); },
                          []() noexcept {
                            state().mutex.unlock();
                            forget_in_child();
                          }});
  return true;
}();

class Thread {
 public:
  // Everything that can throw inside means that there is no memory: what was to be done then is left to the next sweep.
  void run() noexcept {
    while (true) {
      try {
        step();
      } catch (...) {
        // No memory: see above.
      }
    }
  }

 private:
  void step() {
    std::array<os::Poller::Event, 64> events;
    const size_t count = state().poller->wait(until_next(), events);
    for (size_t i = 0; i < count; ++i) {
      const int fd = static_cast<int>(events[i].key);
      std::shared_ptr<Watched> watched;
      FdHandler handler = nullptr;
      {
        const std::lock_guard<std::mutex> lock(state().mutex);
        if (const auto found = state().watches.find(fd); found != state().watches.end()) watched = found->second;
        if (const auto found = state().handlers.find(fd); found != state().handlers.end()) handler = found->second;
      }
      if (watched != nullptr) read(*watched);
      if (handler != nullptr) handler(fd, events[i].hung_up);
    }
    run_ticks();
    look_again();
  }

  void read(Watched& watched) {
    bool overflowed = false;
    std::vector<std::string> leaves;
    watched.watch->read([&](const char* leaf) { leaves.emplace_back(leaf); }, &overflowed);
    for (const std::string& leaf : leaves) {
      if (!settle_name(watched.directory, leaf)) again_.insert_or_assign({watched.directory.get(), leaf}, wait_for(watched.directory, 0));
    }
    if (overflowed) sweep_some_names(watched.directory, false);
  }

  Again wait_for(const Ref<Directory>& directory, int tries) const {
    const auto delay = std::chrono::milliseconds(2 + os::process_id() % 17 + (tries == 0 ? 0 : std::min(10 << tries, 480)));
    return {directory, Clock::now() + delay, tries};
  }

  void look_again() {
    const Clock::time_point now = Clock::now();
    const size_t before = again_.size();
    for (auto at = again_.begin(); at != again_.end();) {
      if (at->second.due > now) {
        ++at;
      } else if (settle_name(at->second.directory, at->first.second) || at->second.tries + 1 >= kAgain) {
        at = again_.erase(at);
      } else {
        at->second = wait_for(at->second.directory, at->second.tries + 1);
        ++at;
      }
    }
    if (again_.size() < before) close_idle_directories();
  }

  static void run_ticks() {
    std::vector<void (*)() noexcept> due;
    {
      const std::lock_guard<std::mutex> lock(state().mutex);
      auto& ticks = state().ticks;
      const auto end = ticks.upper_bound(Clock::now());
      for (auto at = ticks.begin(); at != end; ++at) due.push_back(at->second);
      ticks.erase(ticks.begin(), end);
    }
    for (auto* tick : due) tick();
  }

  int64_t until_next() const {
    Clock::time_point next = Clock::time_point::max();
    for (const auto& [name, again] : again_) next = std::min(next, again.due);
    const std::lock_guard<std::mutex> lock(state().mutex);
    if (!state().ticks.empty()) next = std::min(next, state().ticks.begin()->first);
    if (next == Clock::time_point::max()) return -1;
    return std::max<int64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(next - Clock::now()).count(), 0);
  }

  std::map<std::pair<const Directory*, std::string>, Again> again_;
};

// With the lock.
Status start() {
  State& all = state();
  if (all.running) return Status::ok();
  if (!all.poller) {
    TENON_ASSIGN(os::Poller poller, os::Poller::create());
    all.poller = std::make_unique<os::Poller>(std::move(poller));
  }
  TENON_TRY(os::start_thread("tenon-names", []() noexcept {
    Thread thread;  // on its own stack: in a child of fork there is neither
    thread.run();
  }));
  all.running = true;
  return Status::ok();
}

}  // namespace

bool watch_names(const Ref<Directory>& directory) noexcept {
  try {
    State& all = state();
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (const auto known = all.watched.find(directory.get()); known != all.watched.end()) return known->second >= 0;
    int& watched = all.watched[directory.get()];
    watched = -1;
    Result<os::DirectoryWatch> watch = os::DirectoryWatch::create(directory->path(), false);
    if (!watch.is_ok() || !start().is_ok()) return false;
    auto record = std::make_shared<Watched>(Watched{directory, std::move(watch).value()});
    const int fd = record->watch->fd();
    all.watches[fd] = std::move(record);
    if (!all.poller->add(fd, static_cast<uint64_t>(fd), true, false).is_ok()) {
      all.watches.erase(fd);
      return false;
    }
    watched = fd;
    directory->set_watched(true);
    return true;
  } catch (...) {
    return false;
  }
}

void unwatch_names(Directory& directory) noexcept {
  std::shared_ptr<Watched> ending;  // let go after the lock
  State& all = state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto known = all.watched.find(&directory);
  if (known == all.watched.end()) return;
  if (const auto found = all.watches.find(known->second); found != all.watches.end()) {
    all.poller->remove(found->first);
    ending = std::move(found->second);
    all.watches.erase(found);
    directory.set_watched(false);
  }
  all.watched.erase(known);
}

Status serve_fd(int fd, FdHandler handler) {
  State& all = state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  TENON_TRY(start());
  if (!all.handlers.emplace(fd, handler).second) return Status::ok();
  Status status = all.poller->add(fd, static_cast<uint64_t>(fd), true, false);
  if (!status.is_ok()) all.handlers.erase(fd);
  return status;
}

void stop_serving_fd(int fd) noexcept {
  State& all = state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (all.handlers.erase(fd) > 0 && all.poller) all.poller->remove(fd);
}

void call_later(void (*tick)() noexcept, int64_t after_ns) noexcept {
  try {
    State& all = state();
    const std::lock_guard<std::mutex> lock(all.mutex);
    all.ticks.emplace(Clock::now() + std::chrono::nanoseconds(after_ns), tick);
    if (all.poller) all.poller->wake();
  } catch (...) {
    // No memory: whatever waits for the tick waits for its next reason.
  }
}

}  // namespace tenon::share

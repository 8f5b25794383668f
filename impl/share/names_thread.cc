#include "share/names_thread.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/fork.h"
#include "base/immortal.h"
#include "os/host.h"
#include "os/poller.h"

namespace tenon::share {
namespace {

using Clock = std::chrono::steady_clock;

struct Watched {
  Ref<Directory> directory;
  os::DirectoryWatch watch;
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
  // The records live as long as the process: the thread uses them without the lock.
  std::unordered_map<int, Watched*> watches;  // by inotify fd
  std::unordered_map<const Directory*, bool> watched;
  std::unordered_map<int, FdHandler> handlers;
  std::multimap<Clock::time_point, void (*)() noexcept> ticks;
};

State& state() noexcept { return immortal<State>(); }

void forget_in_child() noexcept {
  State& all = state();
  all.running = false;
  all.poller.reset();
  for (auto& [fd, watched] : all.watches) delete watched;
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
      Watched* watched = nullptr;
      FdHandler handler = nullptr;
      {
        const std::lock_guard<std::mutex> lock(state().mutex);
        if (const auto found = state().watches.find(fd); found != state().watches.end()) watched = found->second;
        if (const auto found = state().handlers.find(fd); found != state().handlers.end()) handler = found->second;
      }
      if (watched != nullptr) read(watched);
      if (handler != nullptr) handler(fd, events[i].hung_up);
    }
    run_ticks();
    look_again();
  }

  void read(Watched* watched) {
    bool overflowed = false;
    std::vector<std::string> leaves;
    watched->watch.read([&](const char* leaf) { leaves.emplace_back(leaf); }, &overflowed);
    for (const std::string& leaf : leaves) {
      if (!settle_name(watched->directory, leaf))
        again_.insert_or_assign({watched->directory.get(), leaf}, wait_for(watched->directory, 0));
    }
    if (overflowed) sweep_some_names(watched->directory, false);
  }

  Again wait_for(const Ref<Directory>& directory, int tries) const {
    const auto delay = std::chrono::milliseconds(2 + os::process_id() % 17 + (tries == 0 ? 0 : std::min(10 << tries, 480)));
    return {directory, Clock::now() + delay, tries};
  }

  void look_again() {
    const Clock::time_point now = Clock::now();
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
    if (const auto known = all.watched.find(directory.get()); known != all.watched.end()) return known->second;
    bool& works = all.watched[directory.get()];
    Result<os::DirectoryWatch> watch = os::DirectoryWatch::create(directory->path(), false);
    if (!watch.is_ok() || !start().is_ok()) return false;
    auto record = std::make_unique<Watched>(Watched{directory, std::move(watch).value()});
    const int fd = record->watch.fd();
    all.watches[fd] = record.get();
    if (!all.poller->add(fd, static_cast<uint64_t>(fd), true, false).is_ok()) {
      all.watches.erase(fd);
      return false;
    }
    (void)record.release();
    works = true;
    return true;
  } catch (...) {
    return false;
  }
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

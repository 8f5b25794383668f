#include "os/service.h"

#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/process_state.h"
#include "os/fd.h"
#include "os/limits.h"
#include "os/poller.h"

namespace tenon::os {
namespace {

using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC, which the timer uses too
using Tick = void (*)() noexcept;
using Slice = bool (*)() noexcept;

constexpr auto kWorkPerPoll = std::chrono::milliseconds(1);
constexpr int64_t kMostLaterNs = INT64_MAX / 4;  // more would overflow the clock
// The timer's key. The key of a served fd has a serial number, never 0, in its high half.
constexpr uint64_t kTimerKey = 0;

struct Served {
  ServiceHandler handler = nullptr;
  uint32_t serial = 0;
};

// A function that was added with add_work(). An entry stays for ever, because there are few. So a
// slice that has more to do is queued again without memory.
struct Work {
  Slice slice = nullptr;
  bool wanted = false;
};

struct ServiceState : ProcessState<LockRank::kService> {
  bool no_thread = false;
  bool running = false;  // the thread runs
  bool polling = false;  // without a thread: a caller is in poll_service()
  // Made once in a process, under the lock, before any code uses it without the lock.
  std::unique_ptr<Poller> poller;
  Fd timer;  // without a thread only
  std::unordered_map<int, Served> served;
  uint32_t last_serial = 0;
  std::multimap<Clock::time_point, Tick> ticks;
  std::vector<Work> works;
  size_t next_work = 0;
  size_t wanted_works = 0;

  // The epoll fd is closed first. It is the parent's too, so removing an fd from it would remove
  // the fd for the parent.
  void in_child() noexcept {
    running = false;
    polling = false;
    poller.reset();
    timer.reset();
    served.clear();
    ticks.clear();
    for (Work& work : works) work.wanted = false;
    wanted_works = 0;
  }
};

ServiceState& service_state() noexcept { return process_state<ServiceState>(); }

// The key of an fd. A number that was closed and opened again is another fd with another serial
// number. So an event of the old fd is not taken for one of the new fd.
uint64_t key_of(int fd, uint32_t serial) noexcept {
  return uint64_t{serial} << 32 | static_cast<uint32_t>(fd);
}

// Call with the lock. Returns the time of the next task that no fd reports. time_point::max():
// there is none.
Clock::time_point next_due(const ServiceState& all) noexcept {
  if (all.wanted_works > 0) return Clock::time_point::min();
  return all.ticks.empty() ? Clock::time_point::max() : all.ticks.begin()->first;
}

// Call with the lock when the time of the next task has changed.
void tell_due(ServiceState* all) noexcept {
  if (!all->timer.is_open()) {
    if (all->running) all->poller->wake();
    return;
  }
  itimerspec at{};
  if (const Clock::time_point due = next_due(*all); due != Clock::time_point::max()) {
    // 0 would disarm the timer. Any time in the past makes it readable.
    const int64_t ns = std::max<int64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(due.time_since_epoch()).count(), 1);
    at.it_value = {ns / 1'000'000'000, ns % 1'000'000'000};
  }
  ::timerfd_settime(all->timer.get(), TFD_TIMER_ABSTIME, &at, nullptr);
}

void dispatch(const Poller::Event& event) noexcept {
  ServiceState& all = service_state();
  const int fd = static_cast<int>(static_cast<uint32_t>(event.key));
  ServiceHandler handler = nullptr;
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    const auto found = all.served.find(fd);
    if (found == all.served.end() || key_of(fd, found->second.serial) != event.key) return;
    handler = found->second.handler;
  }
  handler(fd, event.readable, event.hung_up);
}

// Calls the ticks that were due when this function began. So a tick that asks for itself again does
// not keep the others from their turn.
void run_ticks() noexcept {
  ServiceState& all = service_state();
  const Clock::time_point now = Clock::now();
  while (true) {
    Tick tick = nullptr;
    {
      const std::lock_guard<std::mutex> lock(all.mutex);
      const auto first = all.ticks.begin();
      if (first == all.ticks.end() || first->first > now) return;
      tick = first->second;
      all.ticks.erase(first);
    }
    tick();
  }
}

// Does one slice of the work whose turn it is. Returns false if there is none.
bool run_slice() noexcept {
  ServiceState& all = service_state();
  size_t turn = 0;
  Slice slice = nullptr;
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (all.wanted_works == 0) return false;
    turn = all.next_work;
    while (!all.works[turn % all.works.size()].wanted) ++turn;
    turn %= all.works.size();
    all.next_work = turn + 1;
    all.works[turn].wanted = false;
    --all.wanted_works;
    slice = all.works[turn].slice;
  }
  if (!slice()) return true;
  const std::lock_guard<std::mutex> lock(all.mutex);
  Work& work = all.works[turn];
  if (!work.wanted) {
    work.wanted = true;
    ++all.wanted_works;
  }
  return true;
}

// Does what is due, with at most one slice of work. Only one thread at a time calls this. It needs
// no memory, so nothing ends the thread. Returns false if there is no work.
bool step(Poller* poller, int64_t timeout_ns) noexcept {
  std::array<Poller::Event, 64> events;
  const size_t count = poller->wait(timeout_ns, events);
  for (size_t i = 0; i < count; ++i) dispatch(events[i]);
  run_ticks();
  return run_slice();
}

thread_local bool t_is_service = false;

void run_service(void* /*none*/) noexcept {
  t_is_service = true;
  ServiceState& all = service_state();
  Poller* const poller = all.poller.get();
  while (true) {
    Clock::time_point due;
    {
      const std::lock_guard<std::mutex> lock(all.mutex);
      due = next_due(all);
    }
    int64_t timeout_ns = -1;
    if (due != Clock::time_point::max()) {
      const Clock::time_point now = Clock::now();
      timeout_ns =
          due <= now ? 0 : std::chrono::duration_cast<std::chrono::nanoseconds>(due - now).count();
    }
    (void)step(poller, timeout_ns);
  }
}

// Call with the lock. Starts the service thread, or, in a process without a thread, makes the
// poller and the timer for the user's polling.
Status start(ServiceState* all) {
  if (all->running) return {};
  if (!all->poller) {
    TENON_ASSIGN(Poller poller, Poller::create());
    all->poller = std::make_unique<Poller>(std::move(poller));
  }
  if (!all->no_thread) {
    TENON_TRY(start_thread("tenon", Stack::kSmall, &run_service, nullptr));
    all->running = true;
    return {};
  }
  if (all->timer.is_open()) return {};
  Fd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer.is_open()) return with_fd_limit(errno_status(errno, "a timer fd"));
  TENON_TRY(all->poller->add(timer.get(), kTimerKey, true, false));
  all->timer = std::move(timer);
  tell_due(all);
  return {};
}

Status no_choice(const char* what) {
  return Status(Code::kInvalidArgument,
                format("%s: this process has not chosen to have no thread", what));
}

}  // namespace

bool on_service_thread() noexcept { return t_is_service; }

namespace {

Status serve(int fd, bool readable, ServiceHandler handler) {
  ServiceState& all = service_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  TENON_TRY(start(&all));
  const auto [at, is_new] = all.served.try_emplace(fd);
  if (!is_new) return {};
  if (++all.last_serial == 0) ++all.last_serial;
  at->second = {handler, all.last_serial};
  try {
    Status status = all.poller->add(fd, key_of(fd, all.last_serial), readable, false);
    if (!status.is_ok()) all.served.erase(at);
    return status;
  } catch (...) {
    all.served.erase(at);
    throw;
  }
}

}  // namespace

Status serve_fd(int fd, ServiceHandler handler) { return serve(fd, true, handler); }

Status serve_hang_up(int fd, ServiceHandler handler) { return serve(fd, false, handler); }

void stop_serving_fd(int fd) noexcept {
  ServiceState& all = service_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (all.served.erase(fd) > 0) all.poller->remove(fd);
}

bool call_later(Tick tick, int64_t after_ns) noexcept {
  ServiceState& all = service_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  try {
    const auto after = std::chrono::nanoseconds(std::clamp<int64_t>(after_ns, 0, kMostLaterNs));
    const auto added = all.ticks.emplace(Clock::now() + after, tick);
    (void)start(&all);
    if (added == all.ticks.begin()) tell_due(&all);
    return true;
  } catch (...) {
    return false;  // no memory
  }
}

Status add_work(Slice slice) {
  ServiceState& all = service_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  TENON_TRY(start(&all));
  auto found = std::find_if(all.works.begin(), all.works.end(),
                            [&](const Work& work) { return work.slice == slice; });
  if (found == all.works.end()) found = all.works.insert(found, {slice, false});
  if (found->wanted) return {};
  found->wanted = true;
  if (++all.wanted_works == 1) tell_due(&all);
  return {};
}

Status use_no_thread() {
  ServiceState& all = service_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (all.running) return Status(Code::kInvalidArgument, "the thread runs already");
  all.no_thread = true;
  return {};
}

bool has_no_thread() noexcept {
  ServiceState& all = service_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  return all.no_thread;
}

Result<int> service_fd() {
  ServiceState& all = service_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (!all.no_thread) return no_choice("service_fd");
  TENON_TRY(start(&all));
  return all.poller->fd();
}

Status poll_service() {
  ServiceState& all = service_state();
  Poller* poller = nullptr;
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (!all.no_thread) return no_choice("poll_service");
    if (all.polling) return {};
    TENON_TRY(start(&all));
    all.polling = true;
    poller = all.poller.get();
  }
  const Clock::time_point end = Clock::now() + kWorkPerPoll;
  while (step(poller, 0) && Clock::now() < end) {
  }
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.polling = false;
  tell_due(&all);
  return {};
}

}  // namespace tenon::os

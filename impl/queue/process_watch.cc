#include "queue/process_watch.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/process_state.h"
#include "os/byte_lock.h"
#include "os/fd.h"
#include "os/limits.h"
#include "os/process.h"
#include "os/service.h"
#include "os/shared_tick.h"
#include "os/small_file.h"

namespace tenon::queue {
namespace {

struct WatchedProcess {
  os::Fd pidfd;
  uint32_t pid = 0;
  std::vector<Weak<ProcessWatcher>> watchers;
};

void forget_look() noexcept;

// The file of a queue, opened for locks.
struct LockFile {
  os::Fd file;
  int watch = -1;  // the number of its watch in QueueState::closes
};

struct QueueState : ProcessState<LockRank::kQueues> {
  std::vector<ProcessWatcher*> watchers;              // each removes itself before it ends
  std::unordered_map<int, WatchedProcess> processes;  // by pidfd
  std::unordered_map<const ProcessWatcher*, LockFile> lock_files;
  os::CloseWatch closes;
  bool exit_hook = false;

  LockFile* lock_file(const ProcessWatcher* watcher) noexcept {
    const auto found = lock_files.find(watcher);
    return found == lock_files.end() ? nullptr : &found->second;
  }

  // The queues are the parent's members, and the child has no thread that serves the pidfds.
  void in_child() noexcept {
    watchers.clear();
    processes.clear();
    // With these fds the child would keep the locks of its parent.
    lock_files.clear();
    closes = os::CloseWatch();
    forget_look();
  }
};
QueueState& queue_state() noexcept { return process_state<QueueState>(); }

bool has_ended(int pidfd) noexcept {
  pollfd poll{pidfd, POLLIN, 0};
  return ::poll(&poll, 1, 0) > 0;
}

void on_pidfd(int fd, bool, bool) noexcept {
  QueueState& all = queue_state();
  WatchedProcess ended;
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    const auto found = all.processes.find(fd);
    // The event may belong to another file that had this number before.
    if (found == all.processes.end() || !has_ended(fd)) return;
    os::stop_serving_fd(fd);
    ended = std::move(found->second);
    all.processes.erase(found);
  }
  for (const Weak<ProcessWatcher>& each : ended.watchers) {
    if (const Ref<ProcessWatcher> watcher = each.lock()) watcher->process_ended(ended.pid);
  }
}

// Calls the function for each watcher, without the lock.
template <typename Call>
void for_each_watcher(Call call) noexcept {
  QueueState& all = queue_state();
  for (size_t index = 0;; ++index) {
    Ref<ProcessWatcher> watcher;
    {
      const std::lock_guard<std::mutex> lock(all.mutex);
      if (index >= all.watchers.size()) return;
      if (all.watchers[index]->try_retain())
        watcher = Ref<ProcessWatcher>::adopt(all.watchers[index]);
    }
    if (watcher) call(watcher.get());
  }
}

void on_close(int fd, bool, bool) noexcept {
  QueueState& all = queue_state();
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (fd != all.closes.fd()) return;
    all.closes.drain();
  }
  for_each_watcher([](ProcessWatcher* watcher) { watcher->file_closed(); });
}

void leave_all() noexcept {
  for_each_watcher([](ProcessWatcher* watcher) { watcher->leave(); });
}

void look_again() noexcept;
constinit os::SharedTick g_look{&look_again};
void forget_look() noexcept { g_look.forget(); }
void look_again() noexcept {
  if (g_look.begin()) for_each_watcher([](ProcessWatcher* watcher) { watcher->look_again(); });
}

}  // namespace

void look_later(int64_t after_ns) noexcept { g_look.request(after_ns); }

uint64_t process_start(uint32_t pid) noexcept {
  try {
    const std::string text = os::read_small_file(format("/proc/%u/stat", pid));
    // The second field is the name in parentheses, which may contain blanks and parentheses.
    size_t at = text.rfind(')');
    for (int field = 2; field < 22 && at != std::string::npos; ++field) at = text.find(' ', at + 1);
    return at == std::string::npos ? 0 : os::parse_number(std::string_view(text).substr(at), 0);
  } catch (...) {
    return 0;
  }
}

bool process_has_ended(uint32_t pid, uint64_t started) noexcept {
  const os::Fd pidfd = os::open_pidfd(static_cast<pid_t>(pid));
  if (!pidfd.is_open()) return errno == ESRCH || errno == EINVAL;
  if (has_ended(pidfd.get())) return true;
  const uint64_t now = started == 0 ? 0 : process_start(pid);
  return now != 0 && now != started;
}

void add_watcher(ProcessWatcher* watcher) {
  QueueState& all = queue_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.watchers.push_back(watcher);
  if (!all.exit_hook) all.exit_hook = std::atexit([]() { leave_all(); }) == 0;
}

void remove_watcher(ProcessWatcher* watcher) noexcept {
  QueueState& all = queue_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::erase(all.watchers, watcher);
  if (const LockFile* const file = all.lock_file(watcher)) {
    const int watch = file->watch;
    all.lock_files.erase(watcher);
    const bool is_used = std::any_of(all.lock_files.begin(), all.lock_files.end(),
                                     [&](const auto& each) { return each.second.watch == watch; });
    if (watch >= 0 && !is_used) all.closes.remove(watch);
  }
  for (auto at = all.processes.begin(); at != all.processes.end();) {
    const auto here = at++;
    std::erase_if(here->second.watchers, [](const auto& each) { return each.expired(); });
    if (!here->second.watchers.empty()) continue;
    os::stop_serving_fd(here->first);
    all.processes.erase(here);
  }
}

Status watch_process(ProcessWatcher* watcher, uint32_t pid, uint64_t started) {
  QueueState& all = queue_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  for (auto& [fd, process] : all.processes) {
    if (process.pid != pid || has_ended(fd)) continue;
    const bool is_known = std::any_of(process.watchers.begin(), process.watchers.end(),
                                      [&](const auto& each) { return each.is_of(watcher); });
    if (!is_known) process.watchers.emplace_back(watcher);
    return Status::ok();
  }
  const auto gone = [&] {
    return Status(Code::kPeerGone, format("process %u has ended", pid)).with("pid", int64_t{pid});
  };
  WatchedProcess process;
  process.pid = pid;
  errno = 0;
  process.pidfd = os::open_pidfd(static_cast<pid_t>(pid));
  if (!process.pidfd.is_open()) {
    // Without a free fd /proc cannot be read either, so the error of the kernel decides.
    if (errno == ESRCH || static_cast<pid_t>(pid) <= 0) return gone();
    return os::with_fd_limit(
        Status(Code::kResourceExhausted, "no fd is left to watch a member of a queue")
            .with("limit", std::string("RLIMIT_NOFILE")));
  }
  // The start is read after the pidfd was opened, so both are of one process.
  if (started != 0 && process_start(pid) != started) return gone();
  process.watchers.emplace_back(watcher);
  const int fd = process.pidfd.get();
  const auto [at, is_new] = all.processes.emplace(fd, std::move(process));
  Status served = os::serve_fd(fd, &on_pidfd);
  if (!served.is_ok()) all.processes.erase(at);
  return served;
}

void open_lock_file(ProcessWatcher* watcher, int file) noexcept {
  QueueState& all = queue_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  try {
    LockFile& own = all.lock_files[watcher];
    if (!own.file.is_open()) own.file = os::open_for_locks(file);
  } catch (...) {
    // Without memory there is no lock.
  }
}

bool hold_lock(ProcessWatcher* watcher, uint64_t at) noexcept {
  QueueState& all = queue_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const LockFile* const own = all.lock_file(watcher);
  return own != nullptr && os::lock_byte(own->file, at);
}

void drop_lock(ProcessWatcher* watcher, uint64_t at) noexcept {
  QueueState& all = queue_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (const LockFile* const own = all.lock_file(watcher)) os::unlock_byte(own->file, at);
}

bool is_unlocked(ProcessWatcher* watcher, uint64_t at) noexcept {
  QueueState& all = queue_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const LockFile* const own = all.lock_file(watcher);
  return own != nullptr && !os::has_locked_byte(own->file, at);
}

Status watch_locks(ProcessWatcher* watcher) {
  QueueState& all = queue_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  LockFile* const own = all.lock_file(watcher);
  if (own == nullptr || !own->file.is_open())
    return Status(Code::kUnsupported, "the file of a queue cannot be opened once more");
  if (own->watch >= 0) return Status::ok();
  if (!all.closes.is_open()) {
    TENON_ASSIGN(os::CloseWatch closes, os::CloseWatch::create());
    TENON_TRY(os::serve_fd(closes.fd(), &on_close));
    all.closes = std::move(closes);
  }
  own->watch = all.closes.add(own->file);
  if (own->watch >= 0) return Status::ok();
  return Status(Code::kResourceExhausted, "no inotify watch is left for a queue")
      .with("limit", std::string("fs.inotify.max_user_watches"));
}

}  // namespace tenon::queue

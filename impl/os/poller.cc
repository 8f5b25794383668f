#include "os/poller.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "os/clock.h"
#include "os/limits.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TENON_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define TENON_SANITIZED 1
#endif
#endif
#ifndef TENON_SANITIZED
#define TENON_SANITIZED 0
#endif

namespace tenon::os {
namespace {

constexpr uint64_t kWakeKey = UINT64_MAX;
constexpr int64_t kMillisecond = 1'000'000;
constexpr size_t kMostEvents = 64;
constexpr size_t kStackNbytes = size_t{256} << 10;
// The most buffers for one read of a watch. A process that makes events without end must not hold
// the reader for ever.
constexpr int kMostReads = 64;

std::optional<uint64_t> kernel_setting(const char* path) noexcept {
  const Fd fd(::open(path, O_RDONLY | O_CLOEXEC));
  char text[24];
  const ssize_t length = fd.is_open() ? ::read(fd.get(), text, sizeof text) : 0;
  if (length <= 0) return std::nullopt;
  uint64_t value = 0;
  for (ssize_t i = 0; i < length && text[i] >= '0' && text[i] <= '9'; ++i)
    value = value * 10 + static_cast<uint64_t>(text[i] - '0');
  return value;
}

// The status for a limit of the kernel that has no errno of its own. `setting` is its name, with
// dots.
Status at_setting(int error, const std::string& what, const char* setting) {
  std::string file = std::string("/proc/sys/") + setting;
  std::replace(file.begin(), file.end(), '.', '/');
  Status status =
      Status(Code::kResourceExhausted, format("%s: %s is reached", what.c_str(), setting))
          .with("errno", error)
          .with("limit", std::string(setting));
  if (const auto value = kernel_setting(file.c_str()))
    status = std::move(status).with("limit_value", *value);
  return status;
}

Status control(const Fd& epoll, int operation, int fd, uint64_t key, bool readable, bool writable) {
  if (key == kWakeKey)
    return Status(Code::kInvalidArgument, "this key is the poller's own").with("fd", fd);
  epoll_event event{};
  event.events = EPOLLRDHUP;
  if (readable) event.events |= EPOLLIN;
  if (writable) event.events |= EPOLLOUT;
  event.data.u64 = key;
  if (::epoll_ctl(epoll.get(), operation, fd, &event) == 0) return {};
  const int error = errno;
  const std::string what = format("watching fd %d", fd);
  if (error == ENOSPC) return at_setting(error, what, "fs.epoll.max_user_watches").with("fd", fd);
  if (error == EPERM)
    return Status(Code::kInvalidArgument, what + ": it is always ready")
        .with("errno", error)
        .with("fd", fd);
  return errno_status(error, what).with("fd", fd);
}

}  // namespace

Result<Poller> Poller::create() {
  Poller poller;
  poller.epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!poller.epoll_.is_open())
    return with_fd_limit(errno_status(errno, "a poller needs an epoll fd"));
  poller.wake_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!poller.wake_.is_open())
    return with_fd_limit(errno_status(errno, "a poller needs an eventfd"));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeKey;
  if (::epoll_ctl(poller.epoll_.get(), EPOLL_CTL_ADD, poller.wake_.get(), &event) != 0) {
    const int error = errno;
    if (error == ENOSPC) return at_setting(error, "a poller", "fs.epoll.max_user_watches");
    return errno_status(error, "a poller");
  }
  return poller;
}

Status Poller::add(int fd, uint64_t key, bool readable, bool writable) {
  return control(epoll_, EPOLL_CTL_ADD, fd, key, readable, writable);
}

Status Poller::change(int fd, uint64_t key, bool readable, bool writable) {
  return control(epoll_, EPOLL_CTL_MOD, fd, key, readable, writable);
}

void Poller::remove(int fd) noexcept { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

size_t Poller::wait(int64_t timeout_ns, std::span<Event> room) noexcept {
  int64_t deadline_ns = INT64_MAX;
  if (timeout_ns >= 0 && !checked_add(monotonic_ns(), timeout_ns, &deadline_ns))
    deadline_ns = INT64_MAX;
  std::array<epoll_event, kMostEvents> events;
  const auto most = static_cast<int>(std::clamp<size_t>(room.size(), 1, events.size()));
  for (;;) {
    int milliseconds = -1;
    if (timeout_ns >= 0) {
      // Rounded up, because a wait that ends a little early would make its caller spin.
      const int64_t left = timeout_ns == 0 ? 0 : std::max<int64_t>(0, deadline_ns - monotonic_ns());
      milliseconds = static_cast<int>(
          std::min<int64_t>(left / kMillisecond + (left % kMillisecond != 0 ? 1 : 0), INT_MAX));
    }
    const int ready = ::epoll_wait(epoll_.get(), events.data(), most, milliseconds);
    if (ready < 0) {
      if (errno == EINTR) continue;
      return 0;
    }
    if (ready == 0) {
      if (milliseconds == INT_MAX) continue;
      return 0;
    }
    size_t count = 0;
    for (int i = 0; i < ready; ++i) {
      const epoll_event& event = events[static_cast<size_t>(i)];
      const uint64_t key = event.data.u64;
      if (key == kWakeKey) {
        uint64_t times = 0;
        while (::read(wake_.get(), &times, sizeof times) < 0 && errno == EINTR) {
        }
      } else if (count < room.size()) {
        room[count++] = {key, (event.events & EPOLLIN) != 0, (event.events & EPOLLOUT) != 0,
                         (event.events & (EPOLLHUP | EPOLLRDHUP | EPOLLERR)) != 0};
      }
    }
    return count;
  }
}

void Poller::wake() noexcept {
  const int saved = errno;
  const uint64_t one = 1;
  while (::write(wake_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
  errno = saved;
}

Result<DirectoryWatch> DirectoryWatch::create() {
  DirectoryWatch watch;
  watch.fd_ = Fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (watch.fd_.is_open()) return watch;
  const int error = errno;
  // EMFILE has two meanings here. If an fd of another kind can be made, the inotify limit was
  // reached.
  if (error == EMFILE && Fd(::eventfd(0, EFD_CLOEXEC)).is_open())
    return at_setting(error, "watching directories", "fs.inotify.max_user_instances");
  Status status = errno_status(error, "watching directories");
  return error == EMFILE ? with_fd_limit(std::move(status)) : status;
}

Result<int> DirectoryWatch::add(const std::string& path, bool removals) {
  const uint32_t events =
      IN_CLOSE_WRITE | IN_ONLYDIR | (removals ? IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE : 0);
  const int number = ::inotify_add_watch(fd_.get(), path.c_str(), events);
  if (number >= 0) return number;
  const int error = errno;
  const std::string what = format("watching directory %s", path.c_str());
  if (error == ENOSPC)
    return at_setting(error, what, "fs.inotify.max_user_watches").with("path", path);
  if (error == ENOTDIR)
    return Status(Code::kInvalidArgument, what + ": it is none")
        .with("errno", error)
        .with("path", path);
  return errno_status(error, what).with("path", path);
}

// The number of a directory that is gone is no longer valid. Then there is nothing to remove.
void DirectoryWatch::remove(int number) noexcept { (void)::inotify_rm_watch(fd_.get(), number); }

void DirectoryWatch::read(const std::function<void(int number, const char* leaf)>& each) noexcept {
  std::array<char, 4096> buffer;
  for (int reads = 0; reads < kMostReads;) {
    const ssize_t got = ::read(fd_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    ++reads;
    const auto length = static_cast<size_t>(got);
    for (size_t at = 0; at + sizeof(inotify_event) <= length;) {
      inotify_event event{};
      std::memcpy(&event, buffer.data() + at, sizeof event);
      const char* leaf = buffer.data() + at + sizeof event;
      at += sizeof event + event.len;
      if ((event.mask & IN_Q_OVERFLOW) != 0) {
        each(kAll, nullptr);
      } else if ((event.mask & (IN_IGNORED | IN_UNMOUNT)) != 0) {
        each(event.wd, nullptr);
      } else if (event.len > 0 && at <= length) {
        each(event.wd, leaf);  // the kernel pads it with NULs
      }
    }
  }
}

namespace {

struct Start {
  void (*body)(void*) noexcept;
  void* argument;
  std::array<char, 16> name;
};

// The thread sets its own name. It is detached, so it may already have ended when another thread
// names it.
void* run_started_thread(void* argument) {
  const std::unique_ptr<Start> start(static_cast<Start*>(argument));
  ::pthread_setname_np(::pthread_self(), start->name.data());
  start->body(start->argument);
  return nullptr;
}

int create_detached(size_t stack_nbytes, Start* start) noexcept {
  pthread_attr_t attributes;
  if (const int error = ::pthread_attr_init(&attributes); error != 0) return error;
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  if (stack_nbytes != 0) ::pthread_attr_setstacksize(&attributes, stack_nbytes);
  pthread_t thread{};
  const int error = ::pthread_create(&thread, &attributes, run_started_thread, start);
  ::pthread_attr_destroy(&attributes);
  return error;
}

}  // namespace

Status start_thread(const char* name, Stack stack, void (*body)(void*) noexcept, void* argument) {
  auto start = std::make_unique<Start>();
  start->body = body;
  start->argument = argument;
  std::strncpy(start->name.data(), name, start->name.size() - 1);
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  int error =
      create_detached(TENON_SANITIZED || stack == Stack::kUsual ? 0 : kStackNbytes, start.get());
  // A small stack has no room for the thread-local memory of some programs.
  if (error == EINVAL) error = create_detached(0, start.get());
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error == 0) {
    static_cast<void>(start.release());  // the thread owns it now
    return {};
  }
  Status status = errno_status(error, format("starting thread %s", name));
  if (error != EAGAIN) return status;
  // pthread_create returns EAGAIN for the limit of threads.
  return Status(Code::kResourceExhausted, status.message())
      .with("errno", error)
      .with("limit", std::string("threads"));
}

}  // namespace tenon::os

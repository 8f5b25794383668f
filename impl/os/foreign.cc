#include "os/foreign.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "base/process_state.h"
#include "os/limits.h"
#include "os/memfd.h"
#include "os/poller.h"

#ifndef F_GET_SEALS
#define F_GET_SEALS 1034
#endif

namespace tenon::os {
namespace {

// Each file whose server is silent occupies one thread. When all threads are occupied, further fds
// wait in a queue, still open.
constexpr int kMostClosers = 16;
// The caller waits this long for the close, so that an ordinary fd is closed when close_foreign()
// returns. A close that waits for no server takes far less time, but its thread may have to wait
// for a busy machine.
constexpr auto kCloseGrace = std::chrono::milliseconds(200);
constexpr auto kOpenGrace = std::chrono::seconds(2);

struct ClosingState : ProcessState<LockRank::kForeignFds> {
  std::condition_variable changed;
  std::vector<int> waiting;
  int threads = 0;
  int busy = 0;  // threads that are in close()
  // A close took longer than the grace period. No caller waits again until no close is under way.
  bool is_stuck = false;

  // The child has the queued fds and no thread. The next close in the child starts a thread.
  void in_child() noexcept {
    // The old condition variable may count waiting threads of the parent.
    new (&changed) std::condition_variable();
    threads = 0;
    busy = 0;
    is_stuck = false;
  }
};
ClosingState& closing() noexcept { return process_state<ClosingState>(); }

void run_closer(void*) noexcept {
  ClosingState& all = closing();
  std::unique_lock<std::mutex> lock(all.mutex);
  while (!all.waiting.empty()) {
    const int number = all.waiting.back();
    all.waiting.pop_back();
    ++all.busy;
    lock.unlock();
    ::close(number);
    lock.lock();
    --all.busy;
  }
  --all.threads;
  if (all.busy == 0) all.is_stuck = false;
  all.changed.notify_all();
}

// Returns false if no thread can close the fd. The caller must close it then.
bool close_apart(int number) noexcept {
  ClosingState& all = closing();
  std::unique_lock<std::mutex> lock(all.mutex);
  bool is_queued = false;
  try {
    all.waiting.push_back(number);
    is_queued = true;
    const bool all_busy = all.busy == all.threads;
    if (all_busy && all.threads < kMostClosers &&
        start_thread("tenon-close", Stack::kSmall, &run_closer, nullptr).is_ok()) {
      ++all.threads;
    }
  } catch (...) {
    // There was no memory for the queue, or for a thread.
  }
  if (!is_queued) return false;
  if (all.threads == 0) {
    all.waiting.pop_back();
    return false;
  }
  const auto is_done = [&all] { return all.waiting.empty() && all.busy == 0; };
  if (!all.is_stuck && !all.changed.wait_for(lock, kCloseGrace, is_done)) all.is_stuck = true;
  return true;
}

bool is_local_socket(int number) noexcept {
  int domain = 0;
  socklen_t size = sizeof domain;
  return ::getsockopt(number, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

// The major number of the kernel's memory devices, such as /dev/null and /dev/zero.
constexpr uint32_t kMemoryDevices = 1;

// Whether close() of this fd waits for nobody. AT_STATX_DONT_SYNC keeps statx from asking a file
// server.
bool closes_at_once(int number) noexcept {
  if (::fcntl(number, F_GET_SEALS) >= 0) return true;  // only tmpfs and hugetlbfs have seals
  struct statx about{};
  if (::statx(number, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &about) != 0)
    return errno == EBADF;
  switch (about.stx_mode & S_IFMT) {
    case 0:  // an anonymous inode: an eventfd, a pidfd
    case S_IFIFO: return true;
    case S_IFSOCK: return is_local_socket(number);
    case S_IFCHR: return about.stx_rdev_major == kMemoryDevices;
    default: return false;
  }
}

// The device number of all memfds. 0 if no memfd can be made now.
dev_t memfd_device() noexcept {
  static constinit std::atomic<dev_t> known{0};
  if (const dev_t device = known.load(std::memory_order_relaxed); device != 0) return device;
  try {
    Result<Fd> made = create_memfd(std::string("tenon-probe"), 0);
    struct stat about{};
    if (!made.is_ok() || ::fstat(made.value().get(), &about) != 0) return 0;
    known.store(about.st_dev, std::memory_order_relaxed);
    return about.st_dev;
  } catch (...) {
    return 0;  // no memory
  }
}

// Whether a file lies on the file system of memfds or of /dev/shm, which has no server.
bool is_in_memory(int handle) noexcept {
  struct statx about{};
  if (::statx(handle, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &about) != 0)
    return false;
  const dev_t device = makedev(about.stx_dev_major, about.stx_dev_minor);
  const dev_t memfds = memfd_device();
  struct stat shared_memory{};
  return (memfds != 0 && device == memfds) ||
         (::stat("/dev/shm", &shared_memory) == 0 && device == shared_memory.st_dev);
}

struct Opening {
  std::mutex mutex;
  std::condition_variable done;
  Fd handle;
  int flags = 0;
  bool is_over = false;
  int error = 0;
  Fd opened;
};

int open_now(const Fd& handle, int flags, Fd* opened) noexcept {
  char path[40];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", handle.get());
  *opened = Fd(::open(path, flags));
  return opened->is_open() ? 0 : errno;
}

void run_opening(void* argument) noexcept {
  const std::unique_ptr<std::shared_ptr<Opening>> own(
      static_cast<std::shared_ptr<Opening>*>(argument));
  Opening& opening = **own;
  Fd opened;
  const int error = open_now(opening.handle, opening.flags, &opened);
  const std::lock_guard<std::mutex> lock(opening.mutex);
  opening.opened = std::move(opened);
  opening.error = error;
  opening.is_over = true;
  opening.done.notify_all();
}

// Returns EINPROGRESS if the open goes on in its thread.
Result<int> open_apart(const Fd& handle, int flags, Fd* opened) {
  auto opening = std::make_shared<Opening>();
  TENON_ASSIGN(opening->handle, duplicate(handle.get()));
  opening->flags = flags;
  auto argument = std::make_unique<std::shared_ptr<Opening>>(opening);
  TENON_TRY(start_thread("tenon-open", Stack::kSmall, &run_opening, argument.get()));
  (void)argument.release();  // the thread owns it now
  std::unique_lock<std::mutex> lock(opening->mutex);
  if (!opening->done.wait_for(lock, kOpenGrace, [&] { return opening->is_over; }))
    return EINPROGRESS;
  *opened = std::move(opening->opened);
  return opening->error;
}

}  // namespace

void close_foreign(int number) noexcept {
  if (closes_at_once(number) || !close_apart(number)) ::close(number);
}

Result<Fd> open_handle(const Fd& handle, bool writable, const std::string& what) {
  // Without O_NONBLOCK the kernel waits until the holder of a lease gives it back.
  const int flags = (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  Fd opened;
  int error = 0;
  if (is_in_memory(handle.get())) {
    error = open_now(handle, flags, &opened);
  } else {
    TENON_ASSIGN(error, open_apart(handle, flags, &opened));
  }
  if (error == 0) {
    opened.mark_foreign();
    return opened;
  }
  if (error == EWOULDBLOCK) {
    return Status(Code::kWouldBlock, what +
                                         ": another process holds a file lease (F_SETLEASE) on it; "
                                         "try again, or ask its owner to send an fd")
        .with("errno", error);
  }
  if (error == EINPROGRESS) {
    return Status(
        Code::kWouldBlock,
        what + ": its file system has not answered for 2 s; ask its owner to lend a memfd");
  }
  return with_fd_limit(errno_status(error, what));
}

}  // namespace tenon::os

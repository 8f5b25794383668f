#include "memory/arena_wait.h"

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "base/process_state.h"
#include "memory/ledgers.h"
#include "os/service.h"

namespace tenon::memory {
namespace {

struct ArenaWaitState : ProcessState<LockRank::kArenaWait> {
  std::vector<os::Cancel*> events;  // one for each thread that waits
  std::atomic<size_t> count{0};

  void in_child() noexcept {
    events.clear();
    count = 0;
  }
};

ArenaWaitState& arena_wait_state() noexcept { return process_state<ArenaWaitState>(); }

// While a Listening lives, signal_space() triggers the event, and borrowers ring after each
// release.
class Listening {
 public:
  explicit Listening(os::Cancel* event) : event_(event) {
    {
      const std::lock_guard<std::mutex> lock(arena_wait_state().mutex);
      arena_wait_state().events.push_back(event);
      arena_wait_state().count.fetch_add(1, std::memory_order_seq_cst);
    }
    begin_waiting();
  }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;
  ~Listening() {
    stop_waiting();
    const std::lock_guard<std::mutex> lock(arena_wait_state().mutex);
    auto& events = arena_wait_state().events;
    events.erase(std::find(events.begin(), events.end(), event_));
    arena_wait_state().count.fetch_sub(1, std::memory_order_seq_cst);
  }

 private:
  os::Cancel* event_;
};

bool is_full(const Status& status) noexcept {
  if (status.code() != Code::kResourceExhausted || !status.info()) return false;
  const auto& details = status.info()->details;
  // Without "holders" the block is larger than the arena, and no wait helps.
  return std::any_of(details.begin(), details.end(),
                     [](const Detail& each) { return each.key == "holders"; });
}

// Returns the status of a wait that got no room, with details that say who holds the memory. A
// timeout gets a message of its own, because the waiter's message names an fd that the caller never
// saw.
Status ended(const Status& why, const Status& full) {
  Status status(why.code(),
                (why.code() == Code::kTimeout ? "timed out waiting for room" : why.message()) +
                    ": " + full.message());
  status = std::move(status).with_details_of(full);
  return status;
}

}  // namespace

// A thread that frees memory holds the arenas' lock at that time, and a waiting thread takes that
// lock after it has begun to listen. So one of the two sees the other, and a relaxed load is enough
// here.
void signal_space() noexcept {
  ArenaWaitState& all = arena_wait_state();
  if (all.count.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard<std::mutex> lock(all.mutex);
  for (os::Cancel* event : all.events) event->trigger();
}

Status allocate_waiting(Arena* arena, uint64_t nbytes, uint64_t alignment, const os::Wait& wait,
                        Block* out) {
  Status status = arena->allocate(nbytes, alignment, out);
  if (status.is_ok() || wait.timeout_ns == 0 || !is_full(status)) return status;
  os::Waiter waiter(wait);
  TENON_ASSIGN(const std::unique_ptr<os::Cancel> event, os::Cancel::create());
  const Listening listening(event.get());
  while (true) {
    status = arena->allocate(nbytes, alignment, out);
    if (status.is_ok() || !is_full(status)) return status;
    // In a process without the library's thread, the waiting thread does that thread's work, too.
    // Another thread may have done the work first. Then the service's fd is not readable any more,
    // but the event is triggered.
    const bool serves = os::has_no_thread();
    int service = -1;
    if (serves) {
      TENON_ASSIGN(service, os::service_fd());
    }
    if (Status end = waiter.until_ready(event->fd(), POLLIN, "room", service); !end.is_ok())
      return ended(end, status);
    if (serves) TENON_TRY(os::poll_service());
    event->reset();
  }
}

}  // namespace tenon::memory

#include "modules/value/tree_lock.h"

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

#include "base/process_state.h"
#include "modules/value/value.h"

namespace tenon::value {

namespace {

// What one thread holds of the tree lock.
struct HeldByThread {
  int reads = 0;  // how many ReadTrees, one in another
  bool changes = false;
  Value* dead = nullptr;  // the values that are freed later

  bool any() const noexcept { return reads > 0 || changes; }
};

constinit thread_local HeldByThread t_held;

// The mutex of this state is held only for moments, and never while a tree is read or changed.
struct TreeLockState : ProcessState<LockRank::kTrees> {
  std::condition_variable moved;  // one of the members below has changed
  // Threads get the lock in the order in which they asked for it, so neither readers nor changes
  // can starve the others.
  uint64_t next_ticket = 0;
  uint64_t now_serving = 0;
  uint32_t readers = 0;
  bool is_changing = false;
  uint32_t waiting_forks = 0;  // nobody gets the lock while a fork waits

  void acquire(bool for_change) noexcept {
    std::unique_lock<std::mutex> lock(mutex);
    const uint64_t ticket = next_ticket++;
    moved.wait(lock, [&] {
      return ticket == now_serving && !is_changing && (!for_change || readers == 0) &&
             waiting_forks == 0;
    });
    ++now_serving;
    if (for_change)
      is_changing = true;
    else
      ++readers;
    moved.notify_all();
  }

  void release(bool from_change) noexcept {
    const std::lock_guard<std::mutex> lock(mutex);
    if (from_change)
      is_changing = false;
    else
      --readers;
    moved.notify_all();
  }

  // A thread that holds the lock itself does not wait for it.
  void before_fork() noexcept {
    if (t_held.changes) return;
    std::unique_lock<std::mutex> lock(mutex, std::adopt_lock);
    ++waiting_forks;
    moved.wait(lock, [&] { return !is_changing; });
    --waiting_forks;
    moved.notify_all();
    (void)lock.release();  // fork holds the mutex until it is done
  }

  // Only the forking thread goes on in the child.
  void in_child() noexcept {
    new (&moved) std::condition_variable();  // the old one may count waiting threads of the parent
    now_serving = next_ticket;
    readers = t_held.reads > 0 ? 1 : 0;
    is_changing = t_held.changes;
    waiting_forks = 0;
  }
};

TreeLockState& trees() noexcept { return process_state<TreeLockState>(); }

void give_back(bool from_change) noexcept {
  Value* const dead = std::exchange(t_held.dead, nullptr);
  trees().release(from_change);
  Value::free_dead(dead);
}

}  // namespace

ReadTrees::ReadTrees() noexcept {
  if (!t_held.any()) trees().acquire(false);
  ++t_held.reads;
}

ReadTrees::~ReadTrees() {
  --t_held.reads;
  if (!t_held.any()) give_back(false);
}

Result<ChangeTrees> ChangeTrees::begin() {
  if (t_held.any()) {
    return Status(Code::kPermission,
                  "this thread is inside a call that reads or changes modules: change a module "
                  "after that call has returned");
  }
  trees().acquire(true);
  t_held.changes = true;
  return ChangeTrees();
}

ChangeTrees::ChangeTrees(ChangeTrees&& other) noexcept
    : holds_(std::exchange(other.holds_, false)) {}

ChangeTrees::~ChangeTrees() {
  if (!holds_) return;
  t_held.changes = false;
  give_back(true);
}

PauseReading::PauseReading() noexcept : depth_(std::exchange(t_held.reads, 0)) {
  if (depth_ > 0) give_back(false);
}

PauseReading::~PauseReading() {
  if (depth_ > 0) trees().acquire(false);
  t_held.reads = depth_;
}

Value** values_to_free_later() noexcept { return t_held.any() ? &t_held.dead : nullptr; }

}  // namespace tenon::value

// Gives a part of the library its one object of state: the data, the mutex that guards the data,
// and what happens to both at fork.
//
//   struct CacheState : ProcessState<LockRank::kIdentityCache> {
//     ObjectTable storages;
//     void in_child() noexcept { ... }  // optional
//   };
//   CacheState& cache_state() noexcept { return process_state<CacheState>(); }
#pragma once

#include <mutex>

#include "base/fork.h"
#include "base/immortal.h"
#include "base/lock_rank.h"

namespace tenon {

// The base of a state. fork holds `mutex` while it copies the process, so that in parent and child
// the mutex is free and the data is consistent.
template <LockRank kRank>
struct ProcessState {
  static constexpr LockRank kLockRank = kRank;
  std::mutex mutex;
  // Called before fork, when `mutex` and all locks of lower ranks are held. A state that is not
  // always consistent under `mutex` hides this function, and waits until it is. The function may
  // release `mutex` while it waits, and holds it again when it returns.
  void before_fork() noexcept {}
  // Called in a forked child, which has one thread, when `mutex` is free. Locks of a lower rank may
  // still be held. A state that has fds, threads or records of the parent hides this function with
  // its own.
  void in_child() noexcept {}
  // Called in the child afterwards, when every lock is free. A state hides this function if it
  // drops objects whose end takes locks of a lower rank.
  void in_child_unlocked() noexcept {}
};

namespace detail {

template <typename State>
class ForkedState {
 public:
  static State& get() noexcept {
    (void)registered_;  // makes the compiler define it
    return immortal<State>();
  }

 private:
  static inline const bool registered_ = [] {
    register_fork_hooks(State::kLockRank,
                        {[]() noexcept {
                           immortal<State>().mutex.lock();
                           immortal<State>().before_fork();
                         },
                         []() noexcept { immortal<State>().mutex.unlock(); },
                         []() noexcept {
                           immortal<State>().mutex.unlock();
                           immortal<State>().in_child();
                         },
                         []() noexcept { immortal<State>().in_child_unlocked(); }});
    return true;
  }();
};

}  // namespace detail

// Returns the object of type State, which is made when the library is loaded and is never destroyed
// (base/immortal.h, which has rules for the constructor of State).
template <typename State>
State& process_state() noexcept {
  return detail::ForkedState<State>::get();
}

}  // namespace tenon

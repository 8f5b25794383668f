// The library's behaviour at fork. Every lock that a forked child may need is registered here. The
// fork hooks hold these locks while fork copies the process, so that in parent and child each lock
// is free and the data under it is consistent. The hooks are pthread_atfork handlers. fork() calls
// them, and vfork(), posix_spawn() and clone() do not.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/lock_rank.h"

namespace tenon {

struct ForkHooks {
  void (*prepare)() noexcept;  // in the parent, before fork: takes the lock
  void (*parent)() noexcept;   // in the parent, after fork: releases the lock
  void (*child)() noexcept;    // in the child: releases the lock, drops the parent's objects
  // Called in the child when every lock is free. It drops objects whose end takes other locks. May
  // be null.
  void (*child_unlocked)() noexcept = nullptr;
};

// Registers hooks for the life of the process. The prepare functions run from the lowest rank to
// the highest, the others from the highest to the lowest. There is room for 32 registrations. One
// more ends the process when the library is loaded. Call this from a static initialiser, because
// the list of hooks has no lock. A state with a lock registers its hooks by deriving from
// ProcessState (base/process_state.h).
void register_fork_hooks(LockRank rank, ForkHooks hooks) noexcept;

namespace detail {
// These two are in the header because each block and lease that comes or goes reads them inline.
extern std::atomic<uint64_t> g_fork_generation;
// The forks that this process and its ancestors have begun. Several threads may fork at the same
// time.
extern std::atomic<uint32_t> g_forks_begun;
}  // namespace detail
// Counts the forks between the first process and this one. An object keeps the number that holds
// when it is made. If that number is no longer equal to fork_generation(), a forked child has
// inherited the object. The comparison is cheaper than getpid. Two children of one parent have the
// same number, so processes cannot compare their numbers with each other.
inline uint64_t fork_generation() noexcept {
  return detail::g_fork_generation.load(std::memory_order_relaxed);
}

// Marks a moment among this process's forks. If an object existed at one mark and still exists at a
// later, different mark, a child may have a copy of it. kForking: a fork is under way, and nobody
// can tell whether its child has an object that is made now. So kForking equals no mark, not even
// itself.
inline constexpr uint32_t kForking = UINT32_MAX;
uint32_t fork_mark() noexcept;
// Whether a child may have a copy of an object that has existed since `mark`.
inline bool forked_since(uint32_t mark) noexcept {
  return mark == kForking || detail::g_forks_begun.load(std::memory_order_seq_cst) != mark;
}

// Whether this process has forked or was forked since the library was loaded. Then other processes
// may have inherited what it holds.
bool has_forked() noexcept;

}  // namespace tenon

// What happens to the library at fork. Every lock that outlives a call is registered here, is held
// while fork copies the process, and so is free and whole in parent and child.
#pragma once

#include <atomic>
#include <cstdint>

namespace tenon {

struct ForkHooks {
  void (*prepare)() noexcept;  // in the parent, before: take the lock
  void (*parent)() noexcept;   // in the parent, after: give it back
  void (*child)() noexcept;    // in the child: give it back, drop what belongs to the parent
  // In the child, when every lock is free: drop what takes locks of others as it goes. May be left
  // out.
  void (*child_unlocked)() noexcept = nullptr;
};

// Register hooks for the life of the process. `rank` orders locks: prepare runs from low to high,
// the rest from high to low, so ranks must be the order in which the code itself takes the locks.
// At most 32; call from a static initialiser.
void register_fork_hooks(int rank, ForkHooks hooks) noexcept;

namespace detail {
// Here, for every block and every lease that comes or goes asks.
extern std::atomic<uint64_t> g_fork_generation;
// Of this process; others may begin one before the last has ended.
extern std::atomic<uint32_t> g_forks_begun;
}  // namespace detail
// Counts forks in this line of descent: two equal numbers mean the same process. Cheaper than
// getpid.
inline uint64_t fork_generation() noexcept {
  return detail::g_fork_generation.load(std::memory_order_relaxed);
}

// Marks a moment among this process's forks: of what it held at one mark and still holds at
// another, a child may have a copy. kForking: a fork is under way, and nobody can tell whether a
// child has what comes now. So it equals no mark, itself included.
inline constexpr uint32_t kForking = UINT32_MAX;
uint32_t fork_mark() noexcept;
inline bool forked_since(uint32_t mark) noexcept {
  return mark == kForking || detail::g_forks_begun.load(std::memory_order_seq_cst) != mark;
}

// Whether this process has forked or was forked since the library was loaded: others may hold what
// it holds by inheritance.
bool has_forked() noexcept;

}  // namespace tenon

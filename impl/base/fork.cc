#include "base/fork.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstddef>

namespace tenon {

constinit std::atomic<uint64_t> detail::g_fork_generation{1};
constinit std::atomic<uint32_t> detail::g_forks_begun{0};

namespace {

constexpr size_t kMaxHooks = 32;

struct Registry {
  std::array<ForkHooks, kMaxHooks> hooks{};
  std::array<LockRank, kMaxHooks> ranks{};
  size_t count = 0;
  std::atomic<bool> has_forked{false};
  std::atomic<uint32_t> forks_ended{0};
  bool installed = false;
};

Registry& registry() noexcept {
  static constinit Registry instance;
  return instance;
}

void on_prepare() noexcept {
  Registry& all = registry();
  all.has_forked.store(true, std::memory_order_relaxed);
  // The fork is counted before the kernel copies anything. So code that releases an object and
  // reads this count afterwards knows that a child may have a copy.
  detail::g_forks_begun.fetch_add(1, std::memory_order_seq_cst);
  for (size_t i = 0; i < all.count; ++i) all.hooks[i].prepare();
}

void on_parent() noexcept {
  Registry& all = registry();
  for (size_t i = all.count; i > 0; --i) all.hooks[i - 1].parent();
  all.forks_ended.fetch_add(1, std::memory_order_seq_cst);
}

void on_child() noexcept {
  Registry& all = registry();
  detail::g_fork_generation.fetch_add(1, std::memory_order_relaxed);
  // The forks of the parent's other threads do not continue in the child.
  all.forks_ended.store(detail::g_forks_begun.load());
  for (size_t i = all.count; i > 0; --i) all.hooks[i - 1].child();
  for (size_t i = all.count; i > 0; --i) {
    if (all.hooks[i - 1].child_unlocked != nullptr) all.hooks[i - 1].child_unlocked();
  }
}

}  // namespace

void register_fork_hooks(LockRank rank, ForkHooks hooks) noexcept {
  Registry& all = registry();
  if (all.count == kMaxHooks) __builtin_trap();  // a bug of this library, found at load
  size_t at = all.count++;
  for (; at > 0 && all.ranks[at - 1] > rank; --at) {
    all.hooks[at] = all.hooks[at - 1];
    all.ranks[at] = all.ranks[at - 1];
  }
  all.hooks[at] = hooks;
  all.ranks[at] = rank;
  if (!all.installed) {
    all.installed = true;
    pthread_atfork([]() { on_prepare(); }, []() { on_parent(); }, []() { on_child(); });
  }
}

// Reads the forks that have begun before the forks that have ended. A fork that begins between the
// two reads either makes the numbers differ, or makes this mark an old one.
uint32_t fork_mark() noexcept {
  const uint32_t begun = detail::g_forks_begun.load(std::memory_order_seq_cst);
  return begun == registry().forks_ended.load(std::memory_order_seq_cst) && begun != kForking
             ? begun
             : kForking;
}

bool has_forked() noexcept { return registry().has_forked.load(std::memory_order_relaxed); }

}  // namespace tenon

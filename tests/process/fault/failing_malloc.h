// Replaces malloc, for the program and for the library, with one that fails on request. One source
// file of a program may include it. Sanitizers replace malloc too, so under a sanitizer this header
// is empty.
#pragma once

#include <atomic>

#include "process/fault/kit.h"

#if !TENON_TEST_SANITIZED
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);
}

namespace {

// How many more allocations of this thread succeed, whether one was refused since the flag was
// cleared, and how many blocks the process has.
thread_local long t_allowed = -1;  // < 0: any number
thread_local bool t_refused = false;
std::atomic<long> g_blocks{0};

bool refuse() {
  if (t_allowed < 0) return false;
  if (t_allowed > 0) {
    --t_allowed;
    return false;
  }
  t_refused = true;
  errno = ENOMEM;
  return true;
}

void* counted(void* block) {
  if (block != nullptr) g_blocks.fetch_add(1, std::memory_order_relaxed);
  return block;
}

}  // namespace

extern "C" {
void* malloc(size_t nbytes) { return refuse() ? nullptr : counted(__libc_malloc(nbytes)); }
void* calloc(size_t count, size_t nbytes) {
  return refuse() ? nullptr : counted(__libc_calloc(count, nbytes));
}
void* realloc(void* block, size_t nbytes) {
  if (refuse()) return nullptr;
  void* moved = __libc_realloc(block, nbytes);
  if (block == nullptr) return counted(moved);
  if (nbytes == 0) g_blocks.fetch_sub(1, std::memory_order_relaxed);
  return moved;
}
void* memalign(size_t alignment, size_t nbytes) {
  return refuse() ? nullptr : counted(__libc_memalign(alignment, nbytes));
}
void* aligned_alloc(size_t alignment, size_t nbytes) { return memalign(alignment, nbytes); }
int posix_memalign(void** out, size_t alignment, size_t nbytes) {
  void* block = memalign(alignment, nbytes);
  if (block == nullptr) return ENOMEM;
  *out = block;
  return 0;
}
void free(void* block) {
  if (block != nullptr) g_blocks.fetch_sub(1, std::memory_order_relaxed);
  __libc_free(block);
}
}

namespace fault {
namespace {

// The number of fds that belong to no segment. A segment makes its lending fd when it first needs
// it, and keeps it.
long stray_fds() { return count_open_fds() - static_cast<long>(stats().segment_fds); }

// Calls `step` with 0, 1, 2, … allocations allowed, until it needs no more. `step` takes err and
// returns a status, and must leave nothing behind when it fails. After each call `after` checks
// that the objects of the step are still whole.
template <typename Step, typename After>
void fail_at_every_allocation(const char* what, Step step, After after) {
  int failures = 0;
  for (long allowed = 0;; ++allowed) {
    REQUIRE(allowed < 5000);
    // Tokens of earlier steps may be closed although the service thread has not handled that yet.
    size_t holders = 0;
    REQUIRE(tenon_lease_holders(nullptr, 0, &holders, nullptr) == TENON_OK);
    const long fds = stray_fds();
    tenon_error* error = nullptr;
    t_refused = false;
    t_allowed = allowed;
    const tenon_status status = step(&error);
    t_allowed = -1;
    const bool refused = t_refused;
    const Outcome outcome = read_error(status, error);
    const std::string where =
        std::string(what) + " with " + std::to_string(allowed) + " allocations: " + outcome.text();
    if (!outcome.ok()) {
      ++failures;
      CHECK_SAYING(
          refused && outcome.status == TENON_RESOURCE_EXHAUSTED && !outcome.detail("limit").empty(),
          where);
      // Fewer fds are no leak: the service thread has handled earlier steps. It may also have one
      // more fd for a moment.
      const bool none_left = wait_until([&] { return stray_fds() <= fds; });
      CHECK_SAYING(none_left,
                   where + ": fds " + std::to_string(fds) + " -> " + std::to_string(stray_fds()));
    }
    after(outcome.ok(), where);
    if (!refused) break;
  }
  std::printf("  %s: failed %d times\n", what, failures);
}

// Runs `body` twice to fill caches that last as long as the process. A further run must leave no
// block behind.
template <typename Body>
void run_without_leaks(Body body) {
  IN_CHILD([&] {
    warm_up();
    body();
    long before = 0;
    for (int run = 0; run < 2; ++run) {
      const Held held = hold();
      before = g_blocks.load();
      body();
      CHECK_HELD(held);
    }
    tenon_storage_trim();
    // The service thread may still hold blocks that it is about to free. The message of a check is
    // a block too.
    const bool gone = wait_until([&] { return g_blocks.load() <= before; });
    if (!gone)
      CHECK_SAYING(gone, std::to_string(before) + " blocks -> " + std::to_string(g_blocks.load()));
  });
}

// A step that makes one object. A failure must not touch the output, and a success is undone.
#define AT_EVERY_ALLOCATION(type, release, out, expression)                             \
  do {                                                                                  \
    type* out = reinterpret_cast<type*>(uintptr_t{0x5a5a5a58});                         \
    fail_at_every_allocation(                                                           \
        #expression, [&](tenon_error** err) { return (expression); },                   \
        [&](bool fault_made, const std::string& where) {                                \
          if (!fault_made)                                                              \
            CHECK_SAYING(out == reinterpret_cast<type*>(uintptr_t{0x5a5a5a58}), where); \
          if (fault_made) release(out);                                                 \
          out = reinterpret_cast<type*>(uintptr_t{0x5a5a5a58});                         \
        });                                                                             \
    REQUIRE_OK(expression);                                                             \
    release(out);                                                                       \
  } while (false)

}  // namespace
}  // namespace fault
#endif

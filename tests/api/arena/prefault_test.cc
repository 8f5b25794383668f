// These tests make memory ready in advance. They check what happens when the arena ends first, when
// the process forks, and when no thread can be started.
#include "process/lease/agent.h"

namespace leases {
namespace {

tenon_arena_options ready_options() {
  tenon_arena_options options = arena_options(64 * kMiB);
  options.prefault_nbytes = 32 * kMiB;
  return options;
}

tenon_arena* new_ready_arena() {
  const tenon_arena_options options = ready_options();
  tenon_arena* arena = nullptr;
  REQUIRE_OK(tenon_arena_new(&options, &arena, err));
  return arena;
}

// Returns whether the child ends with status 0. The parent watches the time, because a child that
// hangs in fork's own work hangs before it can set an alarm.
bool ends_well(pid_t child) {
  int status = 0;
  if (wait_until([&] { return waitpid(child, &status, WNOHANG) == child; })) return status == 0;
  kill(child, SIGKILL);
  (void)fault::wait_for_child(child);
  return false;
}

// The list of arenas to make ready holds the last reference to this arena. A segment that had a
// name reads directories when it ends.
TEST(Prefault, AForkAfterANamedArenaHasGone) {
  for (const bool named : {false, true}) {
    IN_CHILD([named] {
      REQUIRE_OK(tenon_lease_use_no_thread(err));
      const names::Folder folder;
      tenon_arena* arena = new_ready_arena();
      tenon_storage* storage = new_in(arena, 4096);
      if (named) (void)names::share(storage, {.directory = folder.path()});
      tenon_storage_release(storage);
      tenon_arena_release(arena);
      CHECK(ends_well(fault::spawn([] {
        CHECK_EQ(fault::stats().segments, 0);
        tenon_arena* own = new_ready_arena();
        CHECK_OK(tenon_lease_poll(err));
        CHECK(stats(own).bytes_reserved > 0);
        tenon_arena_release(own);
      })));
      CHECK_EQ(fault::stats().segments, 1);
      CHECK(wait_until([] {
        CHECK_OK(tenon_lease_poll(err));
        return fault::stats().segments == 0;
      }));
      CHECK_EQ(count_memfd_mappings(), 0);
    });
  }
}

// If no thread can be started, the call fails and leaves nothing of the arena.
TEST(Prefault, WithoutAThread) {
  SKIP_UNDER_SANITIZERS("they start threads of their own");
  IN_CHILD([] {
    fault::leave_root();
    const tenon_arena_options options = ready_options();
    tenon_arena* arena = nullptr;
    long fds = 0;
    for (const bool first : {true, false}) {
      {
        const fault::Limit limit(RLIMIT_NPROC, 0);
        const Outcome outcome =
            CHECK_STATUS(TENON_RESOURCE_EXHAUSTED, tenon_arena_new(&options, &arena, err));
        CHECK_SAYING(outcome.detail("limit") == "threads", outcome.text());
        CHECK(arena == nullptr);
      }
      CHECK_EQ(fault::stats().segments, 0);
      CHECK_EQ(count_memfd_mappings(), 0);
      // The fds on which the thread waits are kept for the next try.
      if (first) fds = fault::count_open_fds();
    }
    CHECK_EQ(fault::count_open_fds(), fds);
    arena = new_ready_arena();
    CHECK(wait_until([&] { return stats(arena).bytes_reserved >= 32 * kMiB; }));
    tenon_arena_release(arena);
    CHECK(wait_until([] { return fault::stats().segments == 0; }));
  });
}

}  // namespace
}  // namespace leases

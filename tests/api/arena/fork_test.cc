// A forked child keeps the storages of its parent, and gets none from its parent's arenas. The
// parent is not affected.
#include <atomic>

#include "process/lease/agent.h"

namespace leases {
namespace {

TEST(Fork, TheChildIsRefusedAndTheParentUnharmed) {
  IN_CHILD([] {
    tenon_arena* arena = new_arena(kMiB);
    tenon_storage* storage = new_in(arena, kMiB / 2, 5);
    const uint64_t reserved = stats(arena).bytes_reserved;
    const pid_t child = fault::spawn([&] {
      tenon_storage* made = nullptr;
      for (const int64_t wait : {int64_t{0}, int64_t{-1}})
        CHECK_EQ(try_new(arena, 100, &made, wait).status, TENON_UNSUPPORTED);
      CHECK_STATUS(TENON_UNSUPPORTED, tenon_arena_reserve(arena, kMiB, err));
      CHECK(made == nullptr);
      CHECK(names::shows_pattern(storage, 5));
      // A release in the child concerns the child alone. The parent's block stays.
      tenon_storage_release(storage);
      tenon_arena_release(arena);
      // An arena of the child's own works.
      const Arena own(kMiB);
      made = new_in(own, kMiB, 6);
      CHECK(names::shows_pattern(made, 6));
      tenon_storage_release(made);
    });
    CHECK_EQ(fault::wait_for_child(child), 0);
    CHECK(names::shows_pattern(storage, 5));
    CHECK_EQ(stats(arena).bytes_live, kMiB / 2);
    CHECK_EQ(stats(arena).bytes_reserved, reserved);
    tenon_storage* rest = new_in(arena, kMiB / 2, 6);
    CHECK(names::shows_pattern(storage, 5) && names::shows_pattern(rest, 6));
    tenon_storage_release(storage);
    tenon_storage_release(rest);
    CHECK_COMES_BACK(arena, kMiB);
    tenon_arena_release(arena);
  });
}

// The process forks while other threads allocate, wait, and end leases.
TEST(Fork, AtAnyMoment) {
  if (TENON_TEST_SANITIZED)
    GTEST_SKIP() << "skipped: a sanitizer's allocator is not free in a child forked beside busy "
                    "threads; and ThreadSanitizer sees no order "
                    "between two mappings";
  IN_CHILD([] {
    const Arena arena(4 * kMiB);
    std::atomic<bool> over{false};
    std::vector<std::thread> threads;
    for (uint64_t id = 0; id < 3; ++id) {
      threads.emplace_back([&, id] {
        fault::Pair pair(SOCK_SEQPACKET);
        // The borrower has a thread of its own. A lease that was held at a fork ends only after the
        // borrower has got a new token, which it gets at the next check of its connection.
        std::thread borrower([&] {
          tenon_message* message = nullptr;
          while (CALL(tenon_recv(pair.right, nullptr, &message, err)).ok()) {
            CHECK(shows(message, id));
            tenon_message_release(message);
          }
        });
        while (!over) {
          lend_new(pair.left, arena, kMiB, id, kPatienceNs);
        }
        tenon_connection_release(std::exchange(pair.left, nullptr));
        borrower.join();
      });
    }
    for (int i = 0; i < 50; ++i) {
      const pid_t child = fault::spawn([&] {
        alarm(10);
        tenon_storage* made = nullptr;
        CHECK_EQ(try_new(arena, 100, &made).status, TENON_UNSUPPORTED);
        (void)stats(arena);
        (void)leases_standing();
        const Arena own(kMiB);
        fault::Pair pair(SOCK_SEQPACKET);
        lend_new(pair.left, own, kMiB, 1);
        tenon_message_release(receive(pair.right));
        CHECK_COMES_BACK(own, kMiB);
      });
      const int how = fault::wait_for_child(child);
      CHECK_SAYING(how == 0, fault::describe_status(how));
    }
    over = true;
    for (std::thread& each : threads) each.join();
    CHECK_COMES_BACK(arena, 4 * kMiB);
  });
}

}  // namespace
}  // namespace leases

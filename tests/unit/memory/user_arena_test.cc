// These tests destroy and use an arena beside other threads and forks. They check the order of
// locks when an arena ends, and what an arena finds after another thread has changed it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "base/fork.h"
#include "memory/arena.h"
#include "memory/arena_segment.h"
#include "os/service.h"
#include "unit/memory/arena_kit.h"
#include "unit/memory/standing.h"

namespace tenon::memory {
namespace {

using test::kMiB;

// A lock that comes before the lock of the arenas, as the lock of the directories of names does.
std::mutex& early_lock() {
  static std::mutex mutex;
  return mutex;
}

// Takes early_lock() after the segment is unmapped, as the names of a segment's sockets do.
class EarlyTail final : public SegmentTail {
 public:
  void before_unmap(Segment* /*segment*/) noexcept override {}
  void after_unmap() noexcept override { const std::lock_guard<std::mutex> lock(early_lock()); }
};

void register_early_lock() {
  register_fork_hooks(LockRank::kDirectories, {[]() noexcept { early_lock().lock(); },
                                               []() noexcept { early_lock().unlock(); },
                                               []() noexcept { early_lock().unlock(); }});
}

// Leaves an arena that its user has released. Only the list of arenas to make ready still refers to
// it.
void leave_one_to_make_ready() {
  const Ref<Arena> arena = new_arena(4 * kMiB, 2 * kMiB);
  arena->segment()->attach_tail(std::make_unique<EarlyTail>());
}

TEST(UserArena, AChildOfForkDropsWhatItsParentWasToMakeReady) {
  test::in_child([] {
    register_early_lock();
    ASSERT_TRUE(os::use_no_thread().is_ok());
    leave_one_to_make_ready();
    const uint64_t segments = segment_totals().segments.load();
    EXPECT_TRUE(test::forks_well());
    EXPECT_EQ(segment_totals().segments.load(), segments) << "the parent's is the parent's";
    EXPECT_TRUE(os::poll_service().is_ok());
    EXPECT_EQ(segment_totals().segments.load(), segments - 1);
  });
}

// The work on the list ends an arena only after it has released the list's lock. The end takes
// locks that a fork may hold, while that fork waits for the list's lock.
TEST(UserArena, ASliceThatEndsOneDoesNotMeetAFork) {
  test::in_child([] {
    register_early_lock();
    test::ForkGate gate(LockRank::kNameCheck);
    ASSERT_TRUE(os::use_no_thread().is_ok());
    leave_one_to_make_ready();
    const uint64_t segments = segment_totals().segments.load();
    std::thread forks([] { EXPECT_TRUE(test::forks_well()); });
    gate.await();
    test::Told told;
    std::thread serves([&] {
      told.tell();
      EXPECT_TRUE(os::poll_service().is_ok());
    });
    EXPECT_TRUE(told.falls_asleep()) << "in front of the early lock, which fork has";
    gate.open();
    forks.join();
    serves.join();
    EXPECT_EQ(segment_totals().segments.load(), segments - 1);
  });
}

// Between two checks of the arena, another thread drains the leases that were given back, and joins
// the free pieces.
TEST(UserArena, RoomThatAnotherThreadJoinedIsFound) {
  test::in_child([] {
    test::ForkGate gate(LockRank::kLedgers);  // behind the ledgers' lock
    const Ref<Arena> arena = new_arena(kMiB);
    Block first;
    Block second;
    Block third;
    ASSERT_TRUE(arena->allocate(kMiB / 2, 64, &first).is_ok());
    ASSERT_TRUE(arena->allocate(kMiB / 2, 64, &second).is_ok());
    ArenaSegment* const home = first.home;
    std::thread forks([] { EXPECT_TRUE(test::forks_well()); });
    gate.await();
    test::Told told;
    Status status;
    std::thread asks([&] {
      told.tell();
      status = arena->allocate(kMiB / 2, 64, &third);
    });
    EXPECT_TRUE(told.falls_asleep()) << "in front of the ledgers' lock, which fork has";
    free_block(std::move(first), Lent::kNever);
    {
      const std::lock_guard<std::mutex> lock(arena_state().mutex);
      EXPECT_TRUE(home->space.consolidate());
    }
    gate.open();
    forks.join();
    asks.join();
    EXPECT_TRUE(status.is_ok()) << status.message();
    if (status.is_ok()) free_block(std::move(third), Lent::kNever);
    free_block(std::move(second), Lent::kNever);
  });
}

}  // namespace
}  // namespace tenon::memory

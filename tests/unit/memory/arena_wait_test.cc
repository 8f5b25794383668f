// These tests wait for room in a process that has no service thread. An event loop beside the
// waiter serves the events for which the waiter waits.
#include "memory/arena_wait.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstdlib>
#include <thread>
#include <utility>

#include "os/fd.h"
#include "os/service.h"
#include "unit/memory/arena_kit.h"
#include "unit/memory/standing.h"

namespace tenon::memory {
namespace {

using test::kMiB;

constexpr int64_t kPatienceNs = 10'000'000'000;

// A handler gets no context pointer, so it uses these variables.
Block held_block;
const test::Told* waiter = nullptr;
thread_local bool t_waits = false;

// The handler of the event loop makes room while the waiter sleeps again. The waiter woke for the
// same event, but found that the event loop was already serving it.
void free_the_block(int fd, bool /*readable*/, bool /*hung_up*/) noexcept {
  char byte = 0;
  (void)::recv(fd, &byte, 1, 0);
  if (!t_waits) EXPECT_TRUE(waiter->falls_asleep());
  free_block(std::move(held_block), Lent::kNever);
}

TEST(ArenaWait, RoomThatTheLoopMadeIsNotMissed) {
  test::in_child([] {
    ASSERT_TRUE(os::use_no_thread().is_ok());
    const Ref<Arena> arena = new_arena(kMiB);
    int ends[2] = {-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    const os::Fd near(ends[0]);
    const os::Fd far(ends[1]);
    ASSERT_TRUE(os::serve_fd(near.get(), &free_the_block).is_ok());
    for (int round = 0; round < 20 && !::testing::Test::HasFailure(); ++round) {
      ASSERT_TRUE(arena->allocate(kMiB, 64, &held_block).is_ok());
      test::Told told;
      waiter = &told;
      std::thread waits([&] {
        t_waits = true;
        told.tell();
        Block block;
        const Status status =
            allocate_waiting(arena.get(), kMiB, 64, os::Wait{kPatienceNs, nullptr, false}, &block);
        EXPECT_TRUE(status.is_ok()) << round << ": " << status.message();
        if (status.is_ok()) free_block(std::move(block), Lent::kNever);
      });
      EXPECT_TRUE(told.falls_asleep());
      EXPECT_EQ(::send(far.get(), "x", 1, MSG_NOSIGNAL), 1);
      EXPECT_TRUE(os::poll_service().is_ok());
      waits.join();
    }
    os::stop_serving_fd(near.get());
  });
}

// Two threads wait, and one of them serves the events for both.
TEST(ArenaWait, RoomThatAnotherWaiterMadeIsNotMissed) {
  test::in_child([] {
    ASSERT_TRUE(os::use_no_thread().is_ok());
    const Ref<Arena> arena = new_arena(kMiB);
    for (int round = 0; round < 200 && !::testing::Test::HasFailure(); ++round) {
      ASSERT_TRUE(arena->allocate(kMiB, 64, &held_block).is_ok());
      const auto wait = [&arena, round] {
        Block block;
        const Status status =
            allocate_waiting(arena.get(), kMiB, 64, os::Wait{kPatienceNs, nullptr, false}, &block);
        EXPECT_TRUE(status.is_ok()) << round << ": " << status.message();
        if (status.is_ok()) free_block(std::move(block), Lent::kNever);
      };
      std::thread one(wait);
      std::thread other(wait);
      std::thread loop([] { EXPECT_TRUE(os::poll_service().is_ok()); });
      free_block(std::move(held_block), Lent::kNever);
      one.join();
      other.join();
      loop.join();
    }
  });
}

}  // namespace
}  // namespace tenon::memory

// These tests wait for room in a full arena. They check who frees the room, what ends a wait
// without room, and what the error says.
#include <atomic>

#include "process/lease/agent.h"

namespace leases {
namespace {

Outcome wait_for_room(tenon_arena* arena, const tenon_wait& wait) {
  const tenon_storage_options options = born_in(arena, &wait);
  tenon_storage* storage = nullptr;
  const Outcome outcome = CALL(tenon_storage_new(&options, kMiB, &storage, err));
  CHECK(outcome.ok() == (storage != nullptr));
  tenon_storage_release(storage);
  return outcome;
}

// Checks that the error has this status, and the same details as the error of a call that does not
// wait.
void check_details(const Outcome& outcome, tenon_status status, uint64_t live, uint64_t lent) {
  CHECK_SAYING(outcome.status == status, outcome.text());
  CHECK_SAYING(outcome.detail("limit") == "arena", outcome.text());
  CHECK_SAYING(outcome.detail("live") == std::to_string(live), outcome.text());
  CHECK_SAYING(outcome.detail("lent") == std::to_string(lent), outcome.text());
  CHECK_SAYING(!outcome.detail("holders").empty(), outcome.text());
}

struct Full {
  tenon_arena* arena = new_arena(kMiB);
  tenon_storage* storage = new_in(arena, kMiB, 1);
  Full() = default;
  Full(const Full&) = delete;
  Full& operator=(const Full&) = delete;
  ~Full() {
    tenon_storage_release(storage);
    tenon_arena_release(arena);
  }
  void let_go() { tenon_storage_release(std::exchange(storage, nullptr)); }
};

// Waits for room. `other` runs in another thread about 50 ms later, when the wait has begun.
template <typename Other>
Outcome wait_beside(tenon_arena* arena, const tenon_wait& wait, Other&& other) {
  std::thread thread([&] {
    usleep(50'000);
    other();
  });
  Outcome outcome = wait_for_room(arena, wait);
  thread.join();
  return outcome;
}

TEST(Wait, AnotherThreadFrees) {
  IN_CHILD([] {
    Full full;
    const Outcome outcome =
        wait_beside(full.arena, fault::wait_ns(kPatienceNs), [&] { full.let_go(); });
    CHECK_SAYING(outcome.ok(), outcome.text());
  });
}

TEST(Wait, ForEver) {
  IN_CHILD([] {
    Full full;
    const Outcome outcome = wait_beside(full.arena, fault::wait_ns(-1), [&] { full.let_go(); });
    CHECK_SAYING(outcome.ok(), outcome.text());
  });
}

TEST(Wait, ALeaseEnds) {
  IN_CHILD([] {
    Full full;
    Agent borrower;
    const Link link(&borrower);
    lend(link.here, {full.storage});
    full.let_go();
    const int message = borrower.receive(link.there).object;
    const Outcome outcome =
        wait_beside(full.arena, fault::wait_ns(kPatienceNs), [&] { borrower.release(message); });
    CHECK_SAYING(outcome.ok(), outcome.text());
  });
}

TEST(Wait, ABorrowerDies) {
  IN_CHILD([] {
    Full full;
    Agent borrower;
    const Link link(&borrower);
    lend(link.here, {full.storage});
    full.let_go();
    REQUIRE(borrower.receive(link.there).ok());
    const Outcome outcome = wait_beside(full.arena, fault::wait_ns(-1), [&] { borrower.kill(); });
    CHECK_SAYING(outcome.ok(), outcome.text());
  });
}

// A piece that is too short does not end the wait. The waiter checks again until a piece is long
// enough.
TEST(Wait, ForALongerPieceThanIsFreed) {
  IN_CHILD([] {
    const Arena arena(kMiB);
    std::vector<tenon_storage*> all;
    for (uint64_t i = 0; i < 16; ++i) all.push_back(new_in(arena, kMiB / 16, i));
    const Outcome outcome = wait_beside(arena, fault::wait_ns(kPatienceNs), [&] {
      for (tenon_storage* each : all) {
        tenon_storage_release(each);
        usleep(1000);
      }
    });
    CHECK_SAYING(outcome.ok(), outcome.text());
  });
}

TEST(Wait, Timeout) {
  IN_CHILD([] {
    Full full;
    const int64_t begin = names::now_ns();
    Outcome outcome = wait_for_room(full.arena, fault::wait_ns(100 * kMs));
    check_details(outcome, TENON_TIMEOUT, kMiB, 0);
    CHECK_SAYING(outcome.detail("holders") == "nobody", outcome.text());
    CHECK(names::now_ns() - begin >= 100 * kMs);
    CHECK_SAYING(
        outcome.message.starts_with("timed out waiting for room: the arena of 1048576 bytes is "
                                    "full: 1048576 bytes are needed in one piece,"),
        outcome.text());
    Agent borrower;
    const Link link(&borrower);
    lend(link.here, {full.storage});
    full.let_go();
    REQUIRE(borrower.receive(link.there).ok());
    CHECK(wait_until([&] { return holders()[0].pid == borrower.pid(); }));
    outcome = wait_for_room(full.arena, fault::wait_ns(100 * kMs));
    check_details(outcome, TENON_TIMEOUT, 0, kMiB);
    CHECK_SAYING(outcome.detail("holders").find("pid " + std::to_string(borrower.pid())) !=
                     std::string::npos,
                 outcome.text());
    CHECK_SAYING(outcome.detail("holders").find("1 leases of 1048576 bytes") != std::string::npos,
                 outcome.text());
    // A wait of 0 gives the error of a full arena, and not WOULD_BLOCK.
    outcome = wait_for_room(full.arena, fault::wait_ns(0));
    check_details(outcome, TENON_RESOURCE_EXHAUSTED, 0, kMiB);
  });
}

TEST(Wait, Cancelled) {
  IN_CHILD([] {
    Full full;
    tenon_cancel* cancel = nullptr;
    REQUIRE_OK(tenon_cancel_new(&cancel, err));
    tenon_wait wait = fault::wait_ns(-1);
    wait.cancel = cancel;
    Outcome outcome = wait_beside(full.arena, wait, [&] { tenon_cancel_trigger(cancel); });
    check_details(outcome, TENON_CANCELLED, kMiB, 0);
    // The cancel was already triggered before this wait began.
    outcome = wait_for_room(full.arena, wait);
    check_details(outcome, TENON_CANCELLED, kMiB, 0);
    tenon_cancel_reset(cancel);
    outcome = wait_beside(full.arena, wait, [&] { full.let_go(); });
    CHECK_SAYING(outcome.ok(), outcome.text());
    tenon_cancel_release(cancel);
  });
}

TEST(Wait, Interrupted) {
  IN_CHILD([] {
    Full full;
    struct sigaction action{};
    action.sa_handler = [](int) {};
    REQUIRE(sigaction(SIGUSR1, &action, nullptr) == 0);
    tenon_wait wait = fault::wait_ns(-1);
    wait.flags = TENON_WAIT_INTERRUPTIBLE;
    const pthread_t self = pthread_self();
    std::atomic<bool> over{false};
    // The signals repeat until one comes during the wait.
    std::thread signals([&] {
      while (!over) {
        pthread_kill(self, SIGUSR1);
        usleep(10'000);
      }
    });
    const Outcome outcome = wait_for_room(full.arena, wait);
    over = true;
    signals.join();
    check_details(outcome, TENON_INTERRUPTED, kMiB, 0);
    // Without the flag, signals do not end the wait.
    const Outcome calm = wait_beside(full.arena, fault::wait_ns(kPatienceNs), [&] {
      pthread_kill(self, SIGUSR1);
      usleep(20'000);
      full.let_go();
    });
    CHECK_SAYING(calm.ok(), calm.text());
  });
}

// Only one storage fits at a time. All threads get the room, one after another.
TEST(Wait, ManyThreads) {
  IN_CHILD([] {
    Full full;
    std::atomic<int> got{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        const Outcome outcome = wait_for_room(full.arena, fault::wait_ns(kPatienceNs));
        CHECK_SAYING(outcome.ok(), outcome.text());
        ++got;
      });
    }
    usleep(50'000);
    CHECK_EQ(got, 0);
    full.let_go();
    for (std::thread& each : threads) each.join();
    CHECK_EQ(got, 8);
  });
}

// A borrower gives back as fast as the lender waits. No wake may be lost.
TEST(Wait, PingPong) {
  IN_CHILD([] {
    const Arena arena(kMiB);
    Agent borrower;
    const Link link(&borrower);
    std::thread releaser;
    for (uint64_t round = 0; round < (kSanitized ? 50U : 200U); ++round) {
      lend_new(link.here, arena, kMiB, round, kPatienceNs);
      if (releaser.joinable()) releaser.join();
      releaser = std::thread([&borrower, there = link.there, round] {
        const Done got = borrower.receive(there);
        CHECK(got.ok() && borrower.shows(got.object, round));
        borrower.release(got.object);
      });
    }
    releaser.join();
    CHECK_COMES_BACK(arena, kMiB);
  });
}

}  // namespace
}  // namespace leases

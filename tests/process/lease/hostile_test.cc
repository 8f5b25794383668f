// These tests run a borrower that writes random bytes wherever it can. The lender and the other
// borrowers stay correct. The hostile borrower may lose its own memory.
#include "process/lease/agent.h"

namespace leases {
namespace {

constexpr uint64_t kBlock = 64 * 1024;
constexpr uint64_t kRoom = 64 * kBlock;

// A hostile borrower, and beside it an honest one, which checks the bytes of its blocks again and
// again. The mode is LENDER_WRITES, because otherwise the hostile one could write the bytes
// themselves.
struct Two {
  tenon_arena* arena = new_arena(kRoom, TENON_MODE_LENDER_WRITES);
  Agent hostile;
  Agent honest;
  Link to_hostile{&hostile};
  Link to_honest{&honest};
  std::vector<std::pair<int, uint64_t>> held;
  uint64_t seed = 0;

  Two() { rounds(4); }
  Two(const Two&) = delete;
  Two& operator=(const Two&) = delete;
  ~Two() {
    hostile.kill();
    for (const auto& [message, each] : held) CHECK(honest.shows(message, each));
    for (const auto& [message, each] : held) honest.release(message);
    CHECK_COMES_BACK(arena, kRoom);
    CHECK_EQ(leases_standing(), 0);
    tenon_arena_release(arena);
  }

  // Lends one block to each. The hostile borrower receives its block too, but may lose it at once.
  void rounds(int count) {
    for (int i = 0; i < count; ++i) {
      ++seed;
      tenon_storage* one = new_in(arena, kBlock, seed, kPatienceNs);
      tenon_storage* other = new_in(arena, kBlock, ~seed, kPatienceNs);
      lend(to_honest.here, {one});
      lend(to_hostile.here, {other});
      tenon_storage_release(one);
      tenon_storage_release(other);
      const Done got = honest.receive(to_honest.there);
      REQUIRE(got.ok());
      held.emplace_back(got.object, seed);
      REQUIRE(hostile.receive(to_hostile.there).ok());
      if (held.size() > 8) {
        CHECK(honest.shows(held.front().first, held.front().second));
        honest.release(held.front().first);
        held.erase(held.begin());
      }
    }
  }
};

TEST(Hostile, WritesRandomBytesOverTheLeasePage) {
  IN_CHILD([] {
    Two two;
    for (uint64_t round = 0; round < 20; ++round) {
      CHECK(two.hostile.scribble(round, 1) >= 1);  // more pages, as its noise asks for tokens
      (void)stats(two.arena);
      two.rounds(2);
      for (const auto& [message, seed] : two.held) CHECK(two.honest.shows(message, seed));
      // The honest borrower's leases are held, whatever the hostile one does.
      CHECK(leases_standing() >= two.held.size());
    }
  });
}

TEST(Hostile, RingsWithoutEnd) {
  IN_CHILD([] {
    Two two;
    for (int round = 0; round < 5; ++round) {
      CHECK_EQ(two.hostile.ring(20), 1);
      two.rounds(1);
    }
  });
}

TEST(Hostile, ClosesItsBell) {
  IN_CHILD([] {
    Two two;
    two.hostile.close_bell();
    two.rounds(3);
    // The hostile borrower can no longer ring. Its leases are held until it dies.
    CHECK(leases_standing() > two.held.size());
    usleep(50'000);
    CHECK(leases_standing() > two.held.size());
  });
}

TEST(Hostile, AsksForTokensAllTheTime) {
  IN_CHILD([] {
    Two two;
    for (int round = 0; round < 25; ++round) {
      two.hostile.ask_renewal();
      two.rounds(1);
    }
    CHECK_SAYING(fault::count_open_fds() < 100, std::to_string(fault::count_open_fds()));
  });
}

TEST(Hostile, AllAtOnceWhileOthersWait) {
  IN_CHILD([] {
    Two two;
    two.hostile.flood();
    for (int round = 0; round < 10; ++round) two.rounds(2);
    // A waiter must be woken by the honest borrower's release in spite of the noise. The hostile
    // borrower may still hold its blocks or not.
    std::vector<tenon_storage*> rest;
    for (tenon_storage* one = nullptr; try_new(two.arena, kBlock, &one).ok();) rest.push_back(one);
    std::thread waiter([&] { CHECK_COMES_BACK(two.arena, kBlock); });
    CHECK(two.honest.shows(two.held.front().first, two.held.front().second));
    two.honest.release(two.held.front().first);
    two.held.erase(two.held.begin());
    waiter.join();
    for (tenon_storage* each : rest) tenon_storage_release(each);
    for (const auto& [message, seed] : two.held) CHECK(two.honest.shows(message, seed));
  });
}

// The kernel closes fds that come with a ring.
TEST(Hostile, FdsOnTheBellAreNotTaken) {
  IN_CHILD([] {
    Two two;
    const long before = fault::count_open_fds();
    CHECK_EQ(two.hostile.ring(50, true), 1);
    two.rounds(1);
    CHECK(wait_until([&] { return fault::count_open_fds() <= before; }));
  });
}

}  // namespace
}  // namespace leases

// These tests put a forwarder in the middle: A lends to B, and B lends on to C. As long as C holds
// A's memory, A keeps its block, whether B lives or not.
#include "process/lease/agent.h"

namespace leases {
namespace {

struct Chain {
  tenon_arena* arena;
  Agent b;
  Agent c;
  Link link{&b};
  Between between{&b, &c};
  int in_b = -1;
  int in_c = -1;

  explicit Chain(tenon_mode mode = TENON_MODE_SHARED) : arena(new_arena(kMiB, mode)) {
    lend_new(link.here, arena, kMiB, 5);
    in_b = b.receive(link.there).object;
    const Done passed = b.pass(between.left, in_b);
    CHECK_SAYING(passed.ok(), passed.outcome.text());
    in_c = c.receive(between.right).object;
    CHECK(in_c >= 0);
  }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;
  ~Chain() { tenon_arena_release(arena); }
};

TEST(Forward, ForwarderIsKilled) {
  for (const tenon_mode mode : {TENON_MODE_SHARED, TENON_MODE_LENDER_WRITES}) {
    IN_CHILD([mode] {
      Chain chain(mode);
      chain.b.kill();
      CHECK_FULL(chain.arena, kMiB);
      CHECK(chain.c.shows(chain.in_c, 5));
      chain.c.release(chain.in_c);
      chain.c.release(chain.between.right);
      CHECK_COMES_BACK(chain.arena, kMiB);
    });
  }
}

TEST(Forward, AllAreKilled) {
  IN_CHILD([] {
    Chain chain;
    chain.b.kill();
    CHECK_FULL(chain.arena, kMiB);
    chain.c.kill();
    CHECK_COMES_BACK(chain.arena, kMiB);
  });
}

TEST(Forward, LastBorrowerIsKilled) {
  IN_CHILD([] {
    Chain chain;
    chain.b.release(chain.in_b);
    CHECK_FULL(chain.arena, kMiB);
    chain.c.kill();
    // B is alive. When C's leases end at B, B's own leases from A end too.
    CHECK_COMES_BACK(chain.arena, kMiB);
  });
}

TEST(Forward, ForwarderReleasesFirst) {
  IN_CHILD([] {
    Chain chain;
    chain.b.release(chain.in_b);
    CHECK_FULL(chain.arena, kMiB);
    CHECK(chain.c.shows(chain.in_c, 5));
    // A waits for free space, and the release of C, two processes away, wakes it.
    std::thread waiter([&] { CHECK_COMES_BACK(chain.arena, kMiB); });
    CHECK(chain.c.shows(chain.in_c, 5));
    chain.c.release(chain.in_c);
    waiter.join();
    CHECK_EQ(leases_standing(), 0);
  });
}

TEST(Forward, LastBorrowerReleasesFirst) {
  IN_CHILD([] {
    Chain chain;
    chain.c.release(chain.in_c);
    CHECK_FULL(chain.arena, kMiB);
    CHECK(chain.b.shows(chain.in_b, 5));
    chain.b.release(chain.in_b);
    CHECK_COMES_BACK(chain.arena, kMiB);
  });
}

TEST(Forward, LenderIsKilled) {
  IN_CHILD([] {
    Agent a;
    Agent b;
    Agent c;
    const Between first(&a, &b);
    const Between second(&b, &c);
    a.send(first.left, a.make(a.arena(kMiB), 100'000, 5).object);
    const int in_b = b.receive(first.right).object;
    REQUIRE(b.pass(second.left, in_b).ok());
    const int in_c = c.receive(second.right).object;
    a.kill();
    CHECK(b.shows(in_b, 5) && c.shows(in_c, 5));
    CHECK_EQ(b.receive(first.right).outcome.status, TENON_PEER_GONE);
    b.release(in_b);
    CHECK(c.shows(in_c, 5));
    c.release(in_c);
  });
}

// The memory is lent on and never read: B dies while its message is in C's socket.
TEST(Forward, MessageToTheLastBorrowerIsUnread) {
  IN_CHILD([] {
    const Arena arena(kMiB);
    Agent b;
    Agent c;
    const Link link(&b);
    const Between between(&b, &c);
    lend_new(link.here, arena, kMiB, 5);
    REQUIRE(b.pass(between.left, b.receive(link.there).object).ok());
    b.kill();
    CHECK_FULL(arena, kMiB);  // the token is in the socket's queue
    const Done got = c.receive(between.right);
    CHECK_SAYING(got.ok(), got.outcome.text());
    CHECK(c.shows(got.object, 5));
    CHECK_FULL(arena, kMiB);
    c.kill();
    CHECK_COMES_BACK(arena, kMiB);
  });
}

// Many blocks go through a forwarder that lives. Nothing may pile up anywhere.
TEST(Forward, AStreamOfMessages) {
  IN_CHILD([] {
    const Arena arena(kMiB);
    Agent b;
    Agent c;
    const Link link(&b);
    const Between between(&b, &c);
    for (uint64_t round = 0; round < (kSanitized ? 50 : 200); ++round) {
      lend_new(link.here, arena, kMiB, round, kPatienceNs);
      const int in_b = b.receive(link.there).object;
      REQUIRE(b.pass(between.left, in_b).ok());
      const int in_c = c.receive(between.right).object;
      if (round % 2 == 0) b.release(in_b);
      CHECK(c.shows(in_c, round));
      c.release(in_c);
      if (round % 2 != 0) b.release(in_b);
    }
    CHECK_COMES_BACK(arena, kMiB);
  });
}

// The memory comes home: C sends A its own storage.
TEST(Forward, BackToTheLender) {
  IN_CHILD([] {
    const Arena arena(kMiB);
    Agent b;
    const Link link(&b);
    tenon_storage* storage = new_in(arena, kMiB, 5);
    lend(link.here, {storage});
    const int in_b = b.receive(link.there).object;
    REQUIRE(b.pass(link.there, in_b).ok());
    tenon_message* back = receive(link.here);
    CHECK(tenon_tensor_storage(tenon_message_tensor(back, 0)) == storage);
    tenon_storage_release(storage);
    b.release(in_b);
    CHECK_FULL(arena, kMiB);
    CHECK(shows(back, 5));
    tenon_message_release(back);
    CHECK_COMES_BACK(arena, kMiB);
  });
}

}  // namespace
}  // namespace leases

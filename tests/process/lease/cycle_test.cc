// A lender's own memory comes home: A lends to B, and B lends the same memory on to A. Then A keeps
// its block without a lease on itself, which would never end if B died.
#include <array>

#include "process/lease/agent.h"

namespace leases {
namespace {

const char* name_of_mode(tenon_mode mode) {
  return mode == TENON_MODE_SHARED ? "SHARED" : "LENDER_WRITES";
}

// A has lent a block, which fills the arena, to B and released it. B has sent it back, and A has
// not received it yet.
struct Cycle {
  tenon_arena* arena;
  Agent b;
  Link link{&b};
  int in_b = -1;

  explicit Cycle(tenon_mode mode = TENON_MODE_SHARED) : arena(new_arena(kMiB, mode)) {
    lend_new(link.here, arena, kMiB, 5);
    in_b = b.receive(link.there).object;
    CHECK(b.pass(link.there, in_b).ok());
  }
  Cycle(const Cycle&) = delete;
  Cycle& operator=(const Cycle&) = delete;
  ~Cycle() { tenon_arena_release(arena); }

  void check_still_lent(const tenon_message* back) const {
    CHECK_FULL(arena, kMiB);
    CHECK(shows(back, 5));
  }
};

// Runs `body` in both modes. LENDER_WRITES comes back through a mapping of its own, which cannot be
// written.
template <typename Body>
void in_both_modes(Body body) {
  for (const tenon_mode mode : {TENON_MODE_SHARED, TENON_MODE_LENDER_WRITES}) {
    SCOPED_TRACE(name_of_mode(mode));
    IN_CHILD([&] { body(mode); });
  }
}

TEST(Cycle, BackAndForthAndBorrowerDies) {
  in_both_modes([](tenon_mode mode) {
    Cycle cycle(mode);
    tenon_message* back = receive(cycle.link.here);
    CHECK(shows(back, 5));
    lend(cycle.link.here, {tenon_tensor_storage(tenon_message_tensor(back, 0))});
    CHECK(cycle.b.receive(cycle.link.there).ok());
    tenon_message_release(back);
    CHECK_FULL(cycle.arena, kMiB);
    cycle.b.kill();
    CHECK_COMES_BACK(cycle.arena, kMiB);
    CHECK_EQ(leases_standing(), 0);
  });
}

TEST(Cycle, WhatCameBackOutlivesTheBorrower) {
  in_both_modes([](tenon_mode mode) {
    Cycle cycle(mode);
    tenon_message* back = receive(cycle.link.here);
    cycle.b.kill();
    CHECK(wait_until([] { return leases_standing() == 0; }));
    cycle.check_still_lent(back);
    tenon_message_release(back);
    CHECK_COMES_BACK(cycle.arena, kMiB);
  });
}

// Only the message still holds the block. The block must be intact when the message is read.
TEST(Cycle, BorrowerDiesBeforeItIsRead) {
  in_both_modes([](tenon_mode mode) {
    Cycle cycle(mode);
    cycle.b.kill();
    CHECK_FULL(cycle.arena, kMiB);
    tenon_message* back = receive(cycle.link.here);
    cycle.check_still_lent(back);
    tenon_message_release(back);
    CHECK_EQ(try_receive(cycle.link.here, &back).status, TENON_PEER_GONE);
    CHECK_COMES_BACK(cycle.arena, kMiB);
    CHECK_EQ(leases_standing(), 0);
  });
}

// The token crossed with the first message. The second message must be as safe.
TEST(Cycle, BorrowerDiesBeforeTheNextIsRead) {
  IN_CHILD([] {
    const Arena arena(2 * kMiB);
    Agent b;
    Link link(&b);
    for (const uint64_t seed : {5U, 6U}) {
      lend_new(link.here, arena, kMiB, seed);
      CHECK(b.pass(link.there, b.receive(link.there).object).ok());
    }
    tenon_message* first = receive(link.here);
    CHECK(shows(first, 5));
    tenon_message_release(first);
    b.kill();
    CHECK_FULL(arena, 2 * kMiB);
    tenon_message* second = receive(link.here);
    CHECK(shows(second, 6));
    tenon_storage* other = new_in(arena, kMiB, 7, kPatienceNs);
    CHECK(shows(second, 6));
    tenon_message_release(second);
    tenon_storage_release(other);
    CHECK_EQ(try_receive(link.here, &second).status, TENON_PEER_GONE);
    CHECK_COMES_BACK(arena, 2 * kMiB);
  });
}

// Bytes that are no message end the connection. Nobody will ever read the message behind them.
TEST(Cycle, BorrowerDiesBehindGarbage) {
  // The bytes are no frame at all, or they are a frame of no known kind.
  for (const uint16_t kind : {uint16_t{0}, uint16_t{99}}) {
    IN_CHILD([kind] {
      const Arena arena(kMiB);
      Agent b;
      const auto ends = fault::socket_ends();
      tenon_connection* here = fault::new_connection(ends[0]);
      const int there = b.connect(fcntl(ends[1], F_DUPFD_CLOEXEC, 0));
      lend_new(here, arena, kMiB, 5);
      CHECK(b.pass(there, b.receive(there).object).ok());
      tenon_message_release(receive(here));
      std::array<unsigned char, 32> frame{'T', 'N', 'N', 'F', 1};
      frame[6] = static_cast<unsigned char>(kind);
      frame[24] = kind == 0 ? 0 : 1;  // its sequence number: the message before had 0
      for (int i = 0; i < 2; ++i) REQUIRE(write(ends[1], frame.data(), frame.size()) == 32);
      b.kill();
      usleep(50'000);
      CHECK_FULL(arena, kMiB);  // a message waits to be read
      tenon_message* none = nullptr;
      CHECK_EQ(try_receive(here, &none).status, TENON_CORRUPT);
      CHECK_COMES_BACK(arena, kMiB);
      CHECK_EQ(leases_standing(), 0);
      tenon_connection_release(here);
      close(ends[1]);
    });
  }
}

TEST(Cycle, BorrowerGivesBackAndLives) {
  in_both_modes([](tenon_mode mode) {
    Cycle cycle(mode);
    tenon_message* back = receive(cycle.link.here);
    cycle.b.release(cycle.in_b);
    CHECK(wait_until([] { return leases_standing() == 0; }));
    cycle.check_still_lent(back);
    tenon_message_release(back);
    CHECK_COMES_BACK(cycle.arena, kMiB);
  });
}

// A lends to B, B to C, C to A.
TEST(Cycle, OfThree) {
  for (const bool kill_forwarder : {false, true}) {
    IN_CHILD([kill_forwarder] {
      const Arena arena(kMiB);
      Agent b;
      Agent c;
      Link to_b(&b);
      Between between(&b, &c);
      Link to_c(&c);
      lend_new(to_b.here, arena, kMiB, 5);
      const int in_b = b.receive(to_b.there).object;
      CHECK(b.pass(between.left, in_b).ok());
      const int in_c = c.receive(between.right).object;
      CHECK(c.pass(to_c.there, in_c).ok());
      tenon_message* back = receive(to_c.here);
      c.release(in_c);
      if (kill_forwarder) {
        b.kill();
      } else {
        c.kill();
      }
      CHECK_FULL(arena, kMiB);
      CHECK(shows(back, 5));
      tenon_message_release(back);
      if (kill_forwarder) {
        // C keeps B's tokens until it notices that B is gone. Then it tells A, for which that is
        // one more unread message.
        CHECK_EQ(c.receive(between.right).outcome.status, TENON_PEER_GONE);
        pollfd polled{tenon_connection_fd(to_c.here), POLLIN, 0};
        REQUIRE(poll(&polled, 1, kPatienceMs) == 1);
        const tenon_wait now = fault::wait_ns(0);
        CHECK_EQ(CALL(tenon_recv(to_c.here, &now, &back, err)).status, TENON_WOULD_BLOCK);
      } else {
        // A likewise keeps B's tokens until it notices that C is gone, if C died before it could
        // say that it had released them.
        CHECK_EQ(try_receive(to_c.here, &back).status, TENON_PEER_GONE);
        b.release(in_b);
      }
      CHECK_COMES_BACK(arena, kMiB);
    });
  }
}

}  // namespace
}  // namespace leases

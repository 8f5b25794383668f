// These tests fork the borrower and the lender. A lease that the borrower held when it forked
// belongs to its whole family: it ends only when the last process has released it.
#include "process/lease/agent.h"

namespace leases {
namespace {

struct Family {
  tenon_arena* arena = new_arena(kMiB);
  Agent parent;
  Link link{&parent};
  int message;
  Agent child;

  Family() : message(lend_one()), child(parent.fork_child()) {}
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;
  ~Family() { tenon_arena_release(arena); }
  int lend_one() {
    lend_new(link.here, arena, kMiB, 5);
    return parent.receive(link.there).object;
  }
};

TEST(Fork, ParentReleasesAndDies) {
  IN_CHILD([] {
    Family family;
    family.parent.release(family.message);
    CHECK_FULL(family.arena, kMiB);
    CHECK(family.child.shows(family.message, 5));
    family.parent.kill();
    CHECK_FULL(family.arena, kMiB);
    CHECK(family.child.shows(family.message, 5));
    // An orderly release by one process of a family does not end the lease, because another one may
    // still read.
    family.child.kill();
    CHECK_COMES_BACK(family.arena, kMiB);
    CHECK_EQ(leases_standing(), 0);
  });
}

TEST(Fork, ParentEndsInOrder) {
  IN_CHILD([] {
    Family family;
    family.parent.release(family.message);
    family.parent.release(family.link.there);
    family.parent.quit();
    CHECK_FULL(family.arena, kMiB);
    CHECK(family.child.shows(family.message, 5));
    family.child.quit();
    CHECK_COMES_BACK(family.arena, kMiB);
  });
}

TEST(Fork, ChildReleasesAndDies) {
  IN_CHILD([] {
    Family family;
    family.child.release(family.message);
    CHECK_FULL(family.arena, kMiB);
    family.child.kill();
    CHECK_FULL(family.arena, kMiB);
    CHECK(family.parent.shows(family.message, 5));
    family.parent.kill();
    CHECK_COMES_BACK(family.arena, kMiB);
  });
}

TEST(Fork, GrandchildHoldsToo) {
  IN_CHILD([] {
    Family family;
    Agent grandchild = family.child.fork_child();
    family.parent.kill();
    family.child.kill();
    CHECK_FULL(family.arena, kMiB);
    CHECK(grandchild.shows(family.message, 5));
    grandchild.kill();
    CHECK_COMES_BACK(family.arena, kMiB);
  });
}

// New leases belong to the parent alone again, whatever the child does.
TEST(Fork, ParentGetsANewToken) {
  IN_CHILD([] {
    const Arena arena(4 * kMiB);
    Agent parent;
    const Link link(&parent);
    lend_new(link.here, arena, kMiB, 1);
    const int family_message = parent.receive(link.there).object;
    Agent child = parent.fork_child();
    for (uint64_t round = 0; round < 10; ++round) {
      lend_new(link.here, arena, kMiB, round);
      const Done got = parent.receive(link.there);
      REQUIRE(got.ok());
      CHECK(parent.shows(got.object, round));
      CHECK_EQ(leases_standing(), 2);
      parent.release(got.object);
      CHECK_EQ(leases_standing(), 1);
    }
    CHECK_EQ(holders().size(), 1);
    // The child does not have the renewed token. When the parent dies, the parent's own leases end,
    // and those of the family stay.
    lend_new(link.here, arena, kMiB, 77);
    REQUIRE(parent.receive(link.there).ok());
    CHECK_EQ(leases_standing(), 2);
    parent.kill();
    CHECK(wait_until([] { return leases_standing() == 1; }));
    CHECK(child.shows(family_message, 1));
    child.kill();
    CHECK_COMES_BACK(arena, 4 * kMiB);
  });
}

// A borrower that claims to fork all the time gets a few tokens, and then no more.
TEST(Fork, AskingForTokensWithoutEnd) {
  IN_CHILD([] {
    const Arena arena(kMiB);
    Agent borrower;
    const Link link(&borrower);
    std::vector<int> held;
    tenon_storage* storage = new_in(arena, 4096, 4);
    for (int round = 0; round < 60; ++round) {
      lend(link.here, {storage});
      const Done got = borrower.receive(link.there);
      REQUIRE(got.ok());
      held.push_back(got.object);
      borrower.ask_renewal();
    }
    const long fds = fault::count_open_fds();
    CHECK_SAYING(fds < 120, std::to_string(fds));
    CHECK(borrower.shows(held.back(), 4));
    tenon_storage_release(storage);
    borrower.kill();
    CHECK_COMES_BACK(arena, kMiB);
    CHECK(wait_until([&] { return fault::count_open_fds() < 30; }));
  });
}

// The service thread may be making the new token when the connection ends. The end waits for it,
// and it never touches the destroyed connection.
TEST(Fork, TheConnectionEndsWhileATokenIsMade) {
  IN_CHILD([] {
    const Arena arena(kMiB);
    Agent borrower;
    tenon_storage* storage = new_in(arena, kMiB, 4);
    for (int round = 0; round < 200; ++round) {
      Link link(&borrower);
      lend(link.here, {storage});
      const Done got = borrower.receive(link.there);
      REQUIRE(got.ok());
      borrower.ask_renewal();
      borrower.ring(1);
      usleep(static_cast<useconds_t>(round % 20 * 10));
      link.close_here();
      borrower.release(got.object);
      borrower.release(link.there);
    }
    tenon_storage_release(storage);
    CHECK_COMES_BACK(arena, kMiB);
    CHECK_EQ(leases_standing(), 0);
  });
}

// All fds are close-on-exec.
TEST(Fork, AProgramThatTheBorrowerStartedHoldsNothing) {
  IN_CHILD([] {
    const Arena arena(kMiB);
    Agent borrower;
    const Link link(&borrower);
    lend_new(link.here, arena, kMiB, 5);
    REQUIRE(borrower.receive(link.there).ok());
    const pid_t sleeper = borrower.spawn_sleep();
    borrower.kill();
    CHECK_COMES_BACK(arena, kMiB);
    CHECK(::kill(sleeper, 0) == 0);
    ::kill(sleeper, SIGKILL);
  });
}

// The child of a lender has none of the lender's ends, so it hides no hang-up. Its calls do not
// affect the parent.
TEST(Fork, LenderForks) {
  IN_CHILD([] {
    const Arena arena(2 * kMiB);
    Agent borrower;
    const Link link(&borrower);
    tenon_storage* storage = new_in(arena, kMiB, 5);
    tenon_storage* kept = new_in(arena, kMiB, 6);
    lend(link.here, {storage});
    tenon_storage_release(storage);
    const int message = borrower.receive(link.there).object;
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    const pid_t child = fault::spawn([&] {
      close(ends[1]);
      tenon_storage* refused = nullptr;
      CHECK_EQ(try_new(arena, 1, &refused).status, TENON_UNSUPPORTED);
      CHECK_EQ(leases_standing(), 0);
      CHECK(names::shows_pattern(kept, 6));
      tenon_storage_release(kept);
      char unused = 0;
      CHECK_EQ(read(ends[0], &unused, 1), 0);  // until the parent is done
    });
    close(ends[0]);
    CHECK(borrower.shows(message, 5));
    CHECK_FULL(arena, kMiB);
    borrower.kill();
    CHECK_COMES_BACK(arena, kMiB);
    CHECK(names::shows_pattern(kept, 6));
    close(ends[1]);
    CHECK_EQ(fault::wait_for_child(child), 0);
    tenon_storage_release(kept);
    CHECK_COMES_BACK(arena, 2 * kMiB);
  });
}

// Memory that a child inherited takes no lease in its parent. Memory that it is lent does.
TEST(Fork, LenderLendsToItsOwnChild) {
  IN_CHILD([] {
    const Arena arena(kMiB);
    tenon_storage* storage = new_in(arena, kMiB, 5);
    {
      fault::Pair pair(SOCK_STREAM);  // so that the library knows the storage as lent
      lend(pair.left, {storage});
      tenon_message_release(receive(pair.right));
    }
    const auto ends = fault::socket_ends();
    const auto steps = fault::socket_ends();
    const pid_t child = fault::spawn([&] {
      close(ends[0]);
      close(steps[0]);
      tenon_connection* there = fault::new_connection(ends[1]);
      tenon_message* message = receive(there);
      char byte = 0;
      REQUIRE(write(steps[1], "x", 1) == 1 && read(steps[1], &byte, 1) == 1);
      CHECK(shows(message, 5));
      tenon_message_release(message);
      REQUIRE(write(steps[1], "x", 1) == 1 && read(steps[1], &byte, 1) == 1);
      tenon_connection_release(there);
    });
    close(ends[1]);
    close(steps[1]);
    tenon_connection* here = fault::new_connection(ends[0]);
    lend(here, {storage});
    char byte = 0;
    REQUIRE(read(steps[0], &byte, 1) == 1);
    tenon_storage_release(storage);
    CHECK_FULL(arena, kMiB);
    REQUIRE(write(steps[0], "x", 1) == 1 && read(steps[0], &byte, 1) == 1);
    CHECK_COMES_BACK(arena, kMiB);
    REQUIRE(write(steps[0], "x", 1) == 1);
    CHECK_EQ(fault::wait_for_child(child), 0);
    tenon_connection_release(here);
  });
}

// A message in the lender's own queue has its token there. A child must not keep that token.
TEST(Fork, LenderForksWithAMessageHalfSent) {
  IN_CHILD([] {
    const Arena arena(kMiB);
    const auto ends = fault::socket_ends();
    // Fill the socket, so that the arena's message, with the token, stays in the queue.
    const std::string noise(1000, 'x');
    while (send(ends[0], noise.data(), noise.size(), MSG_DONTWAIT) > 0) {
    }
    tenon_connection* here = fault::new_connection(ends[0]);
    tenon_storage* storage = new_in(arena, kMiB, 5);
    tenon_message* message = message_of({storage});
    const tenon_wait now = fault::wait_ns(0);
    CHECK_STATUS(TENON_WOULD_BLOCK, tenon_send(here, message, &now, err));
    tenon_message_release(message);
    tenon_storage_release(storage);
    CHECK_EQ(leases_standing(), 1);
    int stay[2];
    REQUIRE(pipe2(stay, O_CLOEXEC) == 0);
    const pid_t child = fault::spawn([&] {
      close(stay[1]);
      char unused = 0;
      CHECK_EQ(read(stay[0], &unused, 1), 0);
    });
    close(stay[0]);
    close(ends[1]);
    tenon_connection_release(here);
    CHECK_COMES_BACK(arena, kMiB);
    close(stay[1]);
    CHECK_EQ(fault::wait_for_child(child), 0);
  });
}

}  // namespace
}  // namespace leases

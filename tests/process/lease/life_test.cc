// These tests end a lease in each way: by the borrower's release, by its death at any point, and by
// a message that nobody read. The block fills the arena, so free space means that the lease has
// ended.
#include "process/lease/agent.h"

namespace leases {
namespace {

constexpr tenon_mode kBoth[] = {TENON_MODE_SHARED, TENON_MODE_LENDER_WRITES};

// A lender that has released its storage, and a borrower that keeps the block.
struct Lent {
  tenon_arena* arena;
  Agent borrower;
  Link link;
  explicit Lent(tenon_mode mode = TENON_MODE_SHARED, const Accepts& accepts = {},
                uint64_t nbytes = kMiB)
      : arena(new_arena(kMiB, mode)), link(&borrower, accepts) {
    lend_new(link.here, arena, nbytes, 5);
  }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
  ~Lent() { tenon_arena_release(arena); }
};

TEST(Life, BorrowerReleases) {
  for (const tenon_mode mode : kBoth) {
    IN_CHILD([mode] {
      Lent lent(mode);
      const int message = lent.borrower.receive(lent.link.there).object;
      CHECK_FULL(lent.arena, kMiB);
      CHECK_EQ(stats(lent.arena).bytes_live, 0);
      CHECK_EQ(stats(lent.arena).bytes_lent, kMiB);
      CHECK_EQ(stats(lent.arena).blocks_lent, 1);
      CHECK(lent.borrower.shows(message, 5));
      lent.borrower.release(message);
      CHECK_EQ(stats(lent.arena).bytes_lent, 0);
      CHECK_COMES_BACK(lent.arena, kMiB);
    });
  }
}

TEST(Life, BorrowerIsKilled) {
  for (const tenon_mode mode : kBoth) {
    IN_CHILD([mode] {
      Lent lent(mode);
      const int message = lent.borrower.receive(lent.link.there).object;
      CHECK(lent.borrower.shows(message, 5));
      CHECK_FULL(lent.arena, kMiB);
      lent.borrower.kill();
      CHECK_COMES_BACK(lent.arena, kMiB);
      CHECK_EQ(leases_standing(), 0);
    });
  }
}

TEST(Life, BorrowerIsKilledWithTheMessageUnread) {
  IN_CHILD([] {
    Lent lent;
    CHECK_FULL(lent.arena, kMiB);
    lent.borrower.kill();
    CHECK_COMES_BACK(lent.arena, kMiB);
  });
}

TEST(Life, BorrowerClosesTheSocketWithTheMessageUnread) {
  IN_CHILD([] {
    Lent lent;
    CHECK_FULL(lent.arena, kMiB);
    lent.borrower.release(lent.link.there);
    CHECK_COMES_BACK(lent.arena, kMiB);
  });
}

// The token crossed with the first message. The second message is in the queue of a socket that
// closes.
TEST(Life, BorrowerClosesTheSocketWithALaterMessageUnread) {
  IN_CHILD([] {
    Lent lent(TENON_MODE_SHARED, {}, 4096);
    const int message = lent.borrower.receive(lent.link.there).object;
    lend_new(lent.link.here, lent.arena, 4096, 6);
    CHECK_EQ(leases_standing(), 2);
    lent.borrower.release(lent.link.there);
    CHECK(lent.borrower.shows(message, 5));
    lent.borrower.release(message);
    CHECK(wait_until([] { return leases_standing() == 0; }));
    CHECK_COMES_BACK(lent.arena, kMiB);
  });
}

// The kernel keeps sent messages, so the borrower still reads one after the lender has closed.
TEST(Life, LenderClosesWithTheMessageUnread) {
  IN_CHILD([] {
    Lent lent;
    lent.link.close_here();
    CHECK_FULL(lent.arena, kMiB);
    const int message = lent.borrower.receive(lent.link.there).object;
    CHECK(lent.borrower.shows(message, 5));
    CHECK_FULL(lent.arena, kMiB);
    lent.borrower.release(message);
    lent.borrower.release(lent.link.there);
    CHECK_COMES_BACK(lent.arena, kMiB);
  });
}

void refuse_too_many_tensors(bool refused_first) {
  IN_CHILD([refused_first] {
    const Arena arena(kMiB);
    Agent borrower;
    const Link link(&borrower, {.max_tensors = 1});
    tenon_storage* one = new_in(arena, 4096, 1);
    tenon_storage* other = new_in(arena, 4096, 2);
    if (!refused_first) {
      lend(link.here, {one});
      borrower.release(borrower.receive(link.there).object);
    }
    // The refused message is the first of the connection, or comes when the token and the segment
    // are known.
    for (int round = 0; round < 3; ++round) {
      lend(link.here, {one, other});
      CHECK_EQ(borrower.receive(link.there).outcome.status, TENON_RESOURCE_EXHAUSTED);
      CHECK(wait_until([] { return leases_standing() == 0; }));
      lend(link.here, {one});
      const Done good = borrower.receive(link.there);
      if (refused_first) {
        // The segment crossed with the refused message. If the first message was refused, this one
        // fails with it, and the connection goes on.
        CHECK_SAYING(good.outcome.status == TENON_RESOURCE_EXHAUSTED, good.outcome.text());
      } else {
        CHECK_SAYING(good.ok(), good.outcome.text());
        CHECK_EQ(leases_standing(), 1);
        borrower.release(good.object);
      }
      CHECK(wait_until([] { return leases_standing() == 0; }));
    }
    tenon_storage_release(one);
    tenon_storage_release(other);
    CHECK_COMES_BACK(arena, kMiB);
  });
}

TEST(Life, MessageOfTooManyTensorsIsRefused) { refuse_too_many_tensors(false); }
TEST(Life, FirstMessageOfTooManyTensorsIsRefused) { refuse_too_many_tensors(true); }

// The message is too large even to be read. Its leases still end, and the borrower goes on.
TEST(Life, MessageOfTooManyBytesIsRefused) {
  IN_CHILD([] {
    constexpr size_t kMany = 20'000;
    const Arena arena(4 * kMiB);
    Agent borrower;
    const Link link(&borrower, {.max_message_nbytes = 256 * 1024});
    tenon_storage* first = new_in(arena, 64, 1);
    lend(link.here, {first});
    const int kept = borrower.receive(link.there).object;
    std::vector<tenon_storage*> many;
    for (size_t i = 0; i < kMany; ++i) many.push_back(new_in(arena, 64, i));
    lend(link.here, many);
    CHECK_EQ(borrower.receive(link.there).outcome.status, TENON_RESOURCE_EXHAUSTED);
    CHECK_SAYING(wait_until([] { return leases_standing() <= 1; }),
                 std::to_string(leases_standing()) + " leases of a message that was refused");
    CHECK(borrower.shows(kept, 1));
    lend(link.here, {first});
    const Done good = borrower.receive(link.there);
    CHECK_SAYING(good.ok(), good.outcome.text());
    for (tenon_storage* each : many) tenon_storage_release(each);
    tenon_storage_release(first);
    borrower.kill();
    CHECK_COMES_BACK(arena, 4 * kMiB);
  });
}

TEST(Life, MessageOfTooManySegmentsIsRefused) {
  IN_CHILD([] {
    const Arena arena(kMiB);
    const Arena second(kMiB);
    Agent borrower;
    const Link link(&borrower, {.max_segments = 1});
    tenon_storage* one = new_in(arena, 4096, 1);
    tenon_storage* other = new_in(second, 4096, 2);
    lend(link.here, {one, other});
    CHECK_EQ(borrower.receive(link.there).outcome.status, TENON_RESOURCE_EXHAUSTED);
    CHECK(wait_until([] { return leases_standing() == 0; }));
    tenon_storage_release(one);
    tenon_storage_release(other);
    CHECK_COMES_BACK(arena, kMiB);
    CHECK_COMES_BACK(second, kMiB);
  });
}

// The tokens of the leases and the memfd of a large message do not count as segments.
TEST(Life, MessageOfAsManySegmentsAsAreAcceptedIsTaken) {
  IN_CHILD([] {
    const Arena arena(4 * kMiB);
    Agent borrower;
    const Link link(&borrower, {.max_segments = 1});
    std::vector<tenon_storage*> many;
    for (size_t i = 0; i < 2000; ++i) many.push_back(new_in(arena, 64, i));
    for (const size_t count : {size_t{1}, many.size()}) {
      lend(link.here, {many.begin(), many.begin() + static_cast<std::ptrdiff_t>(count)});
      const Done got = borrower.receive(link.there);
      CHECK_SAYING(got.ok(), got.outcome.text());
      borrower.release(got.object);
    }
    for (tenon_storage* each : many) tenon_storage_release(each);
    CHECK_COMES_BACK(arena, 4 * kMiB);
  });
}

TEST(Life, LenderIsKilled) {
  for (const tenon_mode mode : kBoth) {
    IN_CHILD([mode] {
      Agent lender;
      Agent borrower;
      const Between between(&lender, &borrower);
      const int arena = lender.arena(kMiB, mode);
      const int storage = lender.make(arena, 100'000, 5).object;
      lender.send(between.left, storage);
      const int message = borrower.receive(between.right).object;
      lender.kill();
      CHECK(borrower.shows(message, 5));
      CHECK_EQ(borrower.receive(between.right).outcome.status, TENON_PEER_GONE);
      CHECK_EQ(borrower.pass(between.right, message).outcome.status, TENON_PEER_GONE);
      CHECK(borrower.shows(message, 5));
      borrower.release(message);

      // The lender comes back as another process, with other segments and other tokens.
      Agent again;
      const Between anew(&again, &borrower);
      const int other = again.arena(kMiB, mode);
      const int second = again.make(other, kMiB, 6).object;
      again.send(anew.left, second);
      again.release(second);
      const int fresh = borrower.receive(anew.right).object;
      CHECK(borrower.shows(fresh, 6));
      borrower.release(fresh);
      CHECK(again.make(other, kMiB, 7, kPatienceNs).ok());
    });
  }
}

// Nobody reads the bits that the borrower sets, and the borrower goes on.
TEST(Life, LenderIsKilledBeforeTheBorrowerReleases) {
  IN_CHILD([] {
    const fault::Held before = fault::hold();
    Agent lender;
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    const int connection = lender.connect(ends[1]);
    tenon_connection* here = fault::new_connection(ends[0]);
    const int storage = lender.make(lender.arena(kMiB), 1000, 3).object;
    lender.send(connection, storage);
    tenon_message* message = receive(here);
    lender.kill();
    CHECK(shows(message, 3));
    tenon_message_release(message);
    CHECK_STATUS(TENON_PEER_GONE, tenon_recv(here, nullptr, &message, err));
    tenon_connection_release(here);
    CHECK_HELD(before);
  });
}

TEST(Life, BorrowerIsStopped) {
  IN_CHILD([] {
    Lent lent;
    const int message = lent.borrower.receive(lent.link.there).object;
    // The holder has the borrower's own pid, not that of the process that made the socket: ringing
    // the bell has told the lender.
    CHECK(wait_until([&] { return holders()[0].pid == lent.borrower.pid(); }));
    lent.borrower.stop();
    tenon_storage* storage = nullptr;
    const Outcome outcome = try_new(lent.arena, kMiB, &storage, 300 * kMs);
    CHECK_SAYING(outcome.status == TENON_TIMEOUT, outcome.text());
    const std::string pid = "pid " + std::to_string(lent.borrower.pid());
    CHECK_SAYING(outcome.detail("holders").find(pid) != std::string::npos,
                 outcome.text() + " lacks " + pid);
    CHECK_SAYING(outcome.detail("holders").find("1 leases of 1048576 bytes") != std::string::npos,
                 outcome.text());
    CHECK_EQ(stats(lent.arena).bytes_lent, kMiB);
    lent.borrower.go_on();
    CHECK(lent.borrower.shows(message, 5));
    lent.borrower.release(message);
    CHECK_COMES_BACK(lent.arena, kMiB);
  });
}

TEST(Life, TwoConnectionsToOneBorrower) {
  IN_CHILD([] {
    const Arena arena(2 * kMiB);
    Agent borrower;
    const Link first(&borrower);
    const Link second(&borrower);
    tenon_storage* one = new_in(arena, kMiB, 1);
    tenon_storage* other = new_in(arena, kMiB, 2);
    lend(first.here, {one});
    lend(second.here, {other});
    const int a = borrower.receive(first.there).object;
    const int b = borrower.receive(second.there).object;
    // The same storage comes over both connections. It is open already, under the lease of the
    // first.
    lend(second.here, {one});
    const int again = borrower.receive(second.there).object;
    CHECK_EQ(leases_standing(), 2);
    tenon_storage_release(one);
    tenon_storage_release(other);
    borrower.release(a);
    CHECK(borrower.shows(again, 1) && borrower.shows(b, 2));
    CHECK_FULL(arena, kMiB);
    borrower.release(again);
    CHECK_COMES_BACK(arena, kMiB);
    CHECK_EQ(leases_standing(), 1);
    CHECK(borrower.shows(b, 2));
    // Releasing a connection ends no lease of the other connection. It also ends none of its own
    // whose memory is still held.
    borrower.release(second.there);
    CHECK(borrower.shows(b, 2));
    CHECK_FULL(arena, 2 * kMiB);
    borrower.release(b);
    CHECK_COMES_BACK(arena, 2 * kMiB);
  });
}

TEST(Life, SentOftenAndToMany) {
  IN_CHILD([] {
    const Arena arena(kMiB);
    Agent borrowers[3];
    tenon_storage* storage = new_in(arena, kMiB, 9);
    std::vector<std::unique_ptr<Link>> links;
    std::vector<int> messages;
    for (Agent& each : borrowers) links.push_back(std::make_unique<Link>(&each));
    constexpr int kTimes = 1000;
    for (int i = 0; i < kTimes; ++i) {
      for (size_t to = 0; to < 3; ++to) {
        lend(links[to]->here, {storage});
        const Done got = borrowers[to].receive(links[to]->there);
        REQUIRE(got.ok());
        if (i % 2 == 0) borrowers[to].release(got.object);
        if (i == kTimes - 1) messages.push_back(got.object);
      }
    }
    CHECK_EQ(leases_standing(), 3);
    CHECK_EQ(stats(arena).blocks_lent, 1);
    CHECK_EQ(stats(arena).bytes_lent, kMiB);
    tenon_storage_release(storage);
    for (size_t i = 0; i < 3; ++i) CHECK(borrowers[i].shows(messages[i], 9));
    borrowers[0].kill();
    CHECK_FULL(arena, kMiB);
    borrowers[1].quit();
    CHECK(wait_until([] { return leases_standing() == 1; }));
    CHECK_FULL(arena, kMiB);
    CHECK(borrowers[2].shows(messages[2], 9));
    borrowers[2].kill();
    CHECK_COMES_BACK(arena, kMiB);
  });
}

TEST(Life, ManyLeasesOfAKilledBorrower) {
  IN_CHILD([] {
    constexpr size_t kMany = kSanitized ? 20'000 : 100'000;
    const Arena arena(16 * kMiB);
    Agent borrower;
    const Link link(&borrower);
    std::vector<tenon_storage*> many(kMany);
    for (tenon_storage*& each : many) REQUIRE(try_new(arena, 64, &each).ok());
    lend(link.here, many);
    for (tenon_storage* each : many) tenon_storage_release(each);
    const Done got = borrower.receive(link.there);
    CHECK_SAYING(got.ok(), got.outcome.text());
    CHECK_EQ(got.value, kMany);
    CHECK_EQ(leases_standing(), kMany);
    CHECK_EQ(stats(arena).blocks_lent, kMany);
    CHECK_EQ(stats(arena).blocks_live, 0);
    borrower.kill();
    const int64_t begin = names::now_ns();
    CHECK(wait_until([&] { return stats(arena).blocks_lent == 0; }));
    std::printf("%zu leases of a killed borrower came back %.2f ms after it was gone\n", kMany,
                static_cast<double>(names::now_ns() - begin) / 1e6);
    CHECK_EQ(leases_standing(), 0);
    CHECK_COMES_BACK(arena, 16 * kMiB);
  });
}

// The same holds for the library's own arenas.
TEST(Life, WithoutAnArenaOfOnesOwn) {
  IN_CHILD([] {
    {
      // The service thread has fds of its own from the first lend on.
      fault::Pair first(SOCK_STREAM);
      tenon_storage* storage = fault::new_storage(1, 1);
      lend(first.left, {storage});
      tenon_storage_release(storage);
    }
    CHECK(wait_until([] { return fault::hold().mappings == 0; }));
    const fault::Held before = fault::hold();
    {
      Agent borrower;
      const Link link(&borrower);
      for (int round = 0; round < 200; ++round) {
        tenon_storage* storage = fault::new_storage(kMiB, static_cast<uint64_t>(round));
        lend(link.here, {storage});
        tenon_storage_release(storage);
        const Done got = borrower.receive(link.there);
        REQUIRE(got.ok());
        CHECK(borrower.shows(got.object, static_cast<uint64_t>(round)));
        borrower.release(got.object);
      }
      CHECK_EQ(leases_standing(), 0);
      const uint64_t taken = fault::stats().bytes_reserved - before.figures.bytes_reserved;
      CHECK_SAYING(taken <= 4 * kMiB, "a loop of lend and release took " + std::to_string(taken));
      CHECK_EQ(fault::stats().bytes_live, before.figures.bytes_live);
    }
    CHECK_HELD(before);
  });
}

}  // namespace
}  // namespace leases

// Lender, borrower and forwarder are in containers of their own, which share only one directory
// with a socket in it. Blocks come back when they are released and when their borrowers are killed.
// Borrowers keep their blocks when the lender dies.
#include "process/lease/kit.h"
#include "process/namespaces/talk.h"

namespace sides {
namespace {

using fault::Outcome;
using leases::kMiB;

constexpr uint64_t kSeed = 5;

tenon_connection* connect_on(int socket) {
  const tenon_connection_options options = admitting(TENON_CONNECTION_SAME_USER);
  return fault::new_connection(socket, &options);
}

// Makes a door, signals that it is there, and connects to the process that enters.
tenon_connection* let_one_in(const std::string& place, const Line& line, int type = SOCK_SEQPACKET,
                             const char* leaf = "talk") {
  const Door door(place, type, leaf);
  line.signal(1);
  return connect_on(door.let_in());
}

// Waits for the signal that the door is there, and enters.
tenon_connection* go_in(const std::string& place, const Line& line, int type = SOCK_SEQPACKET,
                        const char* leaf = "talk") {
  line.await(1);
  return connect_on(enter(place, type, leaf));
}

// Lends a block as large as the arena, so that the arena is full until the lease ends.
void lend_all(tenon_arena* arena, tenon_connection* connection) {
  tenon_storage* storage = leases::new_in(arena, kMiB, kSeed);
  leases::lend(connection, {storage});
  tenon_storage_release(storage);
}

void check_holder(tenon_arena* arena, pid_t pid) {
  const std::vector<tenon_lease_holder> all = leases::holders();
  if (CHECK_SAYING(all.size() == 1, std::to_string(all.size()) + " holders")) {
    CHECK_EQ(all[0].pid, pid);
    CHECK_EQ(all[0].uid, geteuid());
    CHECK_EQ(all[0].leases, 1);
    CHECK_EQ(all[0].nbytes, kMiB);
  }
  const Outcome full = CHECK_FULL(arena, kMiB);
  const std::string named = pid == 0 ? "a process of uid " + std::to_string(geteuid())
                                     : "pid " + std::to_string(pid) + " (";
  CHECK_SAYING(full.detail("holders").starts_with(named), full.text());
}

void check_bytes(const tenon_message* message) { CHECK(leases::shows(message, kSeed)); }

// Signals a side to do its next step, and waits until the step is done.
void step(const Line& line) {
  line.signal(0);
  line.await(0);
}

void release_it(int type, bool lender_is_contained) {
  IN_CHILD([=] {
    const Meeting meeting;
    Line to_lender;
    Line to_borrower;
    Who who;
    who.contained = lender_is_contained;
    Side lender(meeting, who, [&](const std::string& place) {
      tenon_arena* arena = leases::new_arena(kMiB);
      tenon_connection* connection = let_one_in(place, to_lender, type);
      const auto pid = to_lender.take<pid_t>(1);
      const tenon_peer peer = peer_of(connection);
      CHECK_EQ(peer.pid, pid);
      CHECK_EQ(peer.uid, geteuid());
      CHECK_EQ(peer.gid, getegid());
      lend_all(arena, connection);
      check_holder(arena, pid);
      to_lender.signal(1);
      to_lender.await(1);  // the borrower has the block
      check_holder(arena, pid);
      to_lender.signal(1);
      CHECK_COMES_BACK(arena, kMiB);
      CHECK_EQ(leases::leases_standing(), 0);
      tenon_connection_release(connection);
      tenon_arena_release(arena);
    });
    Side borrower(meeting, {}, [&](const std::string& place) {
      tenon_connection* connection = go_in(place, to_borrower, type);
      // The borrower's container lies beside the lender's or inside it, and never around it.
      CHECK_EQ(peer_of(connection).pid, 0);
      tenon_message* message = leases::receive(connection);
      check_bytes(message);
      to_borrower.signal(1);
      to_borrower.await(1);
      tenon_message_release(message);
      CHECK_STATUS(TENON_PEER_GONE, tenon_recv(connection, nullptr, &message, err));
      tenon_connection_release(connection);
    });
    to_lender.await(0);
    to_borrower.signal(0);
    to_lender.give(0, lender_is_contained ? pid_t{0} : borrower.pid());
    to_lender.await(0);
    to_borrower.await(0);
    step(to_lender);
    to_borrower.signal(0);
    CHECK_EQ(lender.finish(), 0);
    CHECK_EQ(borrower.finish(), 0);
    CHECK(meeting.names().empty());
  });
}

TEST(LeasesAcrossContainers, ABorrowerReleases) {
  for (const int type : fault::kSocketTypes) release_it(type, true);
}

TEST(LeasesAcrossContainers, ABorrowerInAContainerReleases) { release_it(SOCK_SEQPACKET, false); }

// Kills the borrower after it has read the message, or before.
void kill_borrower(bool has_read) {
  IN_CHILD([=] {
    const Meeting meeting;
    Line to_lender;
    Line to_borrower;
    Side lender(meeting, {}, [&](const std::string& place) {
      tenon_arena* arena = leases::new_arena(kMiB);
      tenon_connection* connection = let_one_in(place, to_lender);
      lend_all(arena, connection);
      to_lender.signal(1);
      to_lender.await(1);
      check_holder(arena, 0);
      to_lender.signal(1);
      CHECK_COMES_BACK(arena, kMiB);
      CHECK_EQ(leases::leases_standing(), 0);
      tenon_message* message = nullptr;
      CHECK_STATUS(TENON_PEER_GONE, tenon_recv(connection, nullptr, &message, err));
    });
    Side borrower(meeting, {}, [&](const std::string& place) {
      tenon_connection* connection = go_in(place, to_borrower);
      if (has_read) check_bytes(leases::receive(connection));
      to_borrower.signal(1);
      pause();
    });
    to_lender.await(0);
    to_borrower.signal(0);
    to_lender.await(0);
    to_borrower.await(0);
    step(to_lender);
    borrower.kill();
    CHECK_EQ(lender.finish(), 0);
  });
}

TEST(LeasesAcrossContainers, ABorrowerIsKilled) { kill_borrower(true); }

TEST(LeasesAcrossContainers, ABorrowerIsKilledBeforeItReads) { kill_borrower(false); }

// Runs three containers: A lends to B. B lends on to C, and then dies or releases the memory.
void forward(bool kill) {
  IN_CHILD([=] {
    const Meeting meeting;
    Line to_a;
    Line to_b;
    Line to_c;
    Side a(meeting, {}, [&](const std::string& place) {
      tenon_arena* arena = leases::new_arena(kMiB);
      tenon_connection* connection = let_one_in(place, to_a);
      lend_all(arena, connection);
      to_a.await(1);  // B is dead, or has released the memory
      check_holder(arena, 0);
      to_a.signal(1);
      CHECK_COMES_BACK(arena, kMiB);
      CHECK_EQ(leases::leases_standing(), 0);
      tenon_connection_release(connection);
    });
    Side b(meeting, {}, [&](const std::string& place) {
      tenon_connection* from = go_in(place, to_b);
      tenon_message* message = leases::receive(from);
      check_bytes(message);
      tenon_connection* to = let_one_in(place, to_b, SOCK_SEQPACKET, "on");
      leases::lend(to, {tenon_tensor_storage(tenon_message_tensor(message, 0))});
      to_b.await(1);
      tenon_message_release(message);
      to_b.signal(1);
      pause();
    });
    Side c(meeting, {}, [&](const std::string& place) {
      tenon_connection* connection = go_in(place, to_c, SOCK_SEQPACKET, "on");
      tenon_message* message = leases::receive(connection);
      to_c.signal(1);
      to_c.await(1);
      check_bytes(message);
      if (kill) CHECK_STATUS(TENON_PEER_GONE, tenon_recv(connection, nullptr, &message, err));
      tenon_message_release(message);
      tenon_connection_release(connection);
    });
    to_a.await(0);
    step(to_b);
    to_c.signal(0);
    to_c.await(0);
    if (kill) {
      b.kill();
    } else {
      step(to_b);
    }
    step(to_a);
    to_c.signal(0);
    CHECK_EQ(c.finish(), 0);
    CHECK_EQ(a.finish(), 0);
    if (!kill) b.kill();
    CHECK(meeting.names().empty());
  });
}

TEST(LeasesAcrossContainers, AForwarderIsKilled) { forward(true); }

TEST(LeasesAcrossContainers, AForwarderReleasesFirst) { forward(false); }

// The borrower keeps the messages that it has read. Sent messages still arrive. After them the
// borrower learns of the lender's end.
TEST(LeasesAcrossContainers, ALenderIsKilled) {
  for (const tenon_mode mode : {TENON_MODE_SHARED, TENON_MODE_LENDER_WRITES}) {
    IN_CHILD([mode] {
      const Meeting meeting;
      Line to_lender;
      Line to_borrower;
      Side lender(meeting, {}, [&](const std::string& place) {
        tenon_arena* arena = leases::new_arena(2 * kMiB, mode);
        tenon_connection* connection = let_one_in(place, to_lender);
        lend_all(arena, connection);
        lend_all(arena, connection);
        to_lender.signal(1);
        pause();
      });
      Side borrower(meeting, {}, [&](const std::string& place) {
        tenon_connection* connection = go_in(place, to_borrower);
        tenon_message* first = leases::receive(connection);
        to_borrower.signal(1);
        to_borrower.await(1);
        check_bytes(first);
        tenon_message* second = leases::receive(connection);
        check_bytes(second);
        tenon_message* none = nullptr;
        CHECK_STATUS(TENON_PEER_GONE, tenon_recv(connection, nullptr, &none, err));
        CHECK_STATUS(TENON_PEER_GONE, tenon_send(connection, first, nullptr, err));
        tenon_connection_release(connection);
        check_bytes(first);
        check_bytes(second);
        tenon_message_release(first);
        tenon_message_release(second);
      });
      to_lender.await(0);
      to_borrower.signal(0);
      to_lender.await(0);
      to_borrower.await(0);
      lender.kill();
      to_borrower.signal(0);
      CHECK_EQ(borrower.finish(), 0);
      CHECK(meeting.names().empty());
    });
  }
}

}  // namespace
}  // namespace sides

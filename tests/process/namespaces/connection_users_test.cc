// These tests check which user is at the other end of a connection, and which users are admitted:
// this user, root, and members of a group. The ends are on one machine or in containers.
#include "process/lease/kit.h"
#include "process/namespaces/talk.h"

namespace sides {
namespace {

using fault::Outcome;

const Who kOwner{210'001, 210'001, {kGroup}, true, kMeeting};
const Who kAgain{210'001, 310'001, {}, true, kMeeting};
const Who kRoot{};

// A refused socket still belongs to the caller, and is unchanged.
void check_refused(int socket, const tenon_connection_options& options, const tenon_peer& peer) {
  tenon_connection_options adopting = options;
  adopting.flags |= TENON_CONNECTION_ADOPT_SOCKET;
  tenon_connection* connection = nullptr;
  const Outcome outcome =
      CHECK_STATUS(TENON_PERMISSION, tenon_connection_new(socket, &adopting, &connection, err));
  CHECK(connection == nullptr && fcntl(socket, F_GETFD) >= 0);
  CHECK_SAYING(outcome.detail("uid") == std::to_string(peer.uid), outcome.text());
  CHECK_SAYING(outcome.detail("pid") == std::to_string(peer.pid), outcome.text());
  CHECK_SAYING(outcome.message.find("user " + std::to_string(peer.uid)) != std::string::npos,
               outcome.text());
}

void check_admits(int socket, const tenon_connection_options& options, bool admitted,
                  const tenon_peer& peer) {
  if (!admitted) {
    check_refused(socket, options, peer);
    return;
  }
  tenon_connection* connection = nullptr;
  REQUIRE_OK(tenon_connection_new(socket, &options, &connection, err));
  const tenon_peer told = peer_of(connection);
  CHECK(told.pid == peer.pid && told.uid == peer.uid && told.gid == peer.gid);
  tenon_connection_release(connection);
}

struct Admitted {
  bool by_user;
  bool by_group;
};

// Tries each option on one end in turn. By default everybody is admitted.
void try_each(int socket, Admitted admitted, const tenon_peer& peer) {
  check_admits(socket, admitting(0), true, peer);
  check_admits(socket, admitting(TENON_CONNECTION_SAME_USER), admitted.by_user, peer);
  check_admits(socket, admitting(TENON_CONNECTION_GROUP, kGroup), admitted.by_group, peer);
  check_admits(socket, admitting(TENON_CONNECTION_SAME_USER | TENON_CONNECTION_GROUP, kGroup),
               admitted.by_group, peer);
  // No process here is in that group.
  check_admits(socket, admitting(TENON_CONNECTION_GROUP, kGroup + 1), admitted.by_user, peer);
}

tenon_peer expected(const Who& who, pid_t pid) {
  tenon_peer peer{};
  peer.pid = pid;
  peer.uid = who.uid;
  peer.gid = who.gid;
  return peer;
}

// `owner` listens and `visitor` connects. Each end then admits or refuses the other.
void meet_as_users(const Who& owner, const Who& visitor, Admitted by_owner, Admitted by_visitor) {
  for (const int type : fault::kSocketTypes) {
    const Meeting meeting(01777);
    Line line;
    Line to_owner;
    Line to_visitor;
    Side one(meeting, owner, [&](const std::string& place) {
      const Door door(place, type);
      line.signal(0);
      const int socket = door.let_in();
      try_each(socket, by_owner, expected(visitor, to_owner.take<pid_t>(1)));
      line.await(0);
      close(socket);
    });
    Side other(meeting, visitor, [&](const std::string& place) {
      line.await(1);
      const int socket = enter(place, type);
      try_each(socket, by_visitor, expected(owner, to_visitor.take<pid_t>(1)));
      line.signal(1);
      close(socket);
    });
    // A process sees the pids of its own container and of containers inside of it. The pid of any
    // other process is 0.
    to_owner.give(0, owner.contained ? pid_t{0} : other.pid());
    to_visitor.give(0, visitor.contained ? pid_t{0} : one.pid());
    CHECK_EQ(other.finish(), 0);
    CHECK_EQ(one.finish(), 0);
  }
}

void meet_each_way(const Who& owner, const Who& visitor, Admitted by_owner, Admitted by_visitor) {
  IN_CHILD([&] {
    if (geteuid() != 0) fault::skip("only root can be two users");
    for (const bool owner_contained : {false, true}) {
      for (const bool visitor_contained : {false, true})
        meet_as_users(placed(owner, owner_contained), placed(visitor, visitor_contained), by_owner,
                      by_visitor);
    }
  });
}

constexpr Admitted kBoth{true, true};
constexpr Admitted kByGroup{false, true};
constexpr Admitted kNeither{false, false};

TEST(ConnectionUsers, TheSameUser) { meet_each_way(kOwner, kAgain, kBoth, kBoth); }

// Everybody admits root. Root admits only itself and the group.
TEST(ConnectionUsers, Root) { meet_each_way(kOwner, kRoot, kBoth, kByGroup); }

TEST(ConnectionUsers, AMember) { meet_each_way(kOwner, kMember, kByGroup, kByGroup); }

TEST(ConnectionUsers, AMemberByItsFirstGroup) {
  meet_each_way(kOwner, kMemberByItsFirst, kByGroup, kByGroup);
}

TEST(ConnectionUsers, AStranger) { meet_each_way(kOwner, kStranger, kNeither, kByGroup); }

// The user that made a user namespace is root in it, and itself everywhere else.
TEST(ConnectionUsers, RootOfAUserNamespace) {
  IN_CHILD([] {
    if (geteuid() != 0) fault::skip("only root can be two users");
    const Meeting meeting(01777);
    Line line;
    Side owner(meeting, placed(kOwner, false), [&](const std::string& place) {
      const Door door(place, SOCK_STREAM);
      line.signal(0);
      const int socket = door.let_in();
      line.await(0);
      try_each(socket, kNeither, expected(kStranger, line.take<pid_t>(0)));
      close(socket);
    });
    Side stranger(meeting, placed(kStranger, false), [&](const std::string& place) {
      line.await(1);
      // A process that was root is not dumpable, so its files in /proc would belong to root.
      REQUIRE(prctl(PR_SET_DUMPABLE, 1) == 0);
      if (!tenon::test::enter_namespaces(CLONE_NEWUSER, tenon::test::NamespaceUser::kRoot))
        fault::skip(std::string("no user namespace can be made: ") + std::strerror(errno));
      CHECK(geteuid() == 0 && getegid() == 0);
      const int socket = enter(place, SOCK_STREAM);
      line.signal(1);
      line.give(1, getpid());
      // In this namespace the owner has no uid.
      tenon_connection* connection = nullptr;
      const tenon_connection_options options = admitting(TENON_CONNECTION_SAME_USER);
      CHECK_STATUS(TENON_PERMISSION, tenon_connection_new(socket, &options, &connection, err));
      close(socket);
    });
    if (stranger.finish() != 0) {
      CHECK(false);
      owner.kill();
      return;
    }
    CHECK_EQ(owner.finish(), 0);
  });
}

// A lends to a member of the group in another container, and the member is killed.
TEST(ConnectionUsers, AMemberBorrowsUnderALease) {
  IN_CHILD([] {
    if (geteuid() != 0) fault::skip("only root can be two users");
    const tenon_connection_options options = admitting(TENON_CONNECTION_GROUP, kGroup);
    const Meeting meeting(01777);
    Line line;
    Line to_lender;
    Side lender(meeting, kOwner, [&](const std::string& place) {
      tenon_arena* arena = leases::new_arena(leases::kMiB);
      const Door door(place, SOCK_SEQPACKET);
      line.signal(0);
      tenon_connection* connection = fault::new_connection(door.let_in(), &options);
      tenon_storage* storage = leases::new_in(arena, leases::kMiB, 5);
      leases::lend(connection, {storage});
      tenon_storage_release(storage);
      line.await(0);
      const std::vector<tenon_lease_holder> all = leases::holders();
      CHECK(all.size() == 1 && all[0].pid == 0 && all[0].uid == kMember.uid && all[0].leases == 1);
      CHECK_FULL(arena, leases::kMiB);
      to_lender.signal(1);
      CHECK_COMES_BACK(arena, leases::kMiB);
      tenon_connection_release(connection);
    });
    Side member(meeting, kMember, [&](const std::string& place) {
      line.await(1);
      tenon_connection* connection = fault::new_connection(enter(place, SOCK_SEQPACKET), &options);
      tenon_message* message = leases::receive(connection);
      CHECK(leases::shows(message, 5));
      if (fault::g_failures > 0) _exit(1);
      line.signal(1);
      pause();
    });
    to_lender.await(0);
    member.kill();
    CHECK_EQ(lender.finish(), 0);
  });
}

}  // namespace
}  // namespace sides

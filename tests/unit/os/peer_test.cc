// These tests check which process the kernel names at the other end of a socket, and which peers
// are admitted.
#include "os/peer.h"

#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "os/local_socket.h"
#include "unit/os/guards.h"
#include "unit/os/surroundings.h"

namespace tenon::os {
namespace {

class PeerTest : public test::Guarded {};

TEST_F(PeerTest, IsWhoConnected) {
  const test::ScratchFolder folder;
  const std::string path = folder / "socket";
  auto listener = listen_local(SocketKind::kPackets, path, 0666, static_cast<gid_t>(-1));
  ASSERT_TRUE(listener.is_ok());
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  const bool root = ::geteuid() == 0;
  // The peer has more groups than the first buffer can hold.
  std::vector<gid_t> groups;
  for (gid_t group = 60000; root && group < 60100; ++group) groups.push_back(group);
  test::ForkChild child([&](int ready) {
    if (root && (::setgroups(groups.size(), groups.data()) != 0 || ::setgid(54322) != 0 ||
                 ::setuid(54321) != 0))
      ::_exit(70);
    Waiter waiter(Wait{0, nullptr, false});
    auto socket = connect_local(SocketKind::kPackets, path, &waiter);
    if (!socket.is_ok()) ::_exit(71);
    test::say_ready(ready);
    ::pause();
  });
  child.await_ready();
  auto server = accept_local(listener.value().get());
  ASSERT_TRUE(server.is_ok() && server.value().is_open());
  auto peer = peer_of(server.value().get());
  ASSERT_TRUE(peer.is_ok());
  EXPECT_EQ(peer.value().pid, child.pid());
  EXPECT_EQ(peer.value().uid, root ? 54321 : ::geteuid());
  EXPECT_EQ(peer.value().gid, root ? 54322 : ::getegid());
  if (!root) {
    groups.resize(1000);
    const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
    ASSERT_GE(count, 0);
    groups.resize(static_cast<size_t>(count));
  }
  if (std::find(groups.begin(), groups.end(), peer.value().gid) == groups.end())
    groups.push_back(peer.value().gid);
  auto told = peer_groups(server.value().get());
  ASSERT_TRUE(told.is_ok()) << told.status().message();
  std::sort(told.value().begin(), told.value().end());
  std::sort(groups.begin(), groups.end());
  EXPECT_EQ(told.value(), groups);

  const auto admitted = [&](std::optional<gid_t> group) {
    Result<bool> answer = is_admitted(server.value().get(), peer.value(), group);
    return answer.is_ok() && answer.value();
  };
  EXPECT_EQ(is_own_or_root(peer.value()), !root);
  EXPECT_EQ(admitted(std::nullopt), !root);
  EXPECT_EQ(admitted(70000), !root);  // the peer is not in this group
  for (const gid_t group : groups) EXPECT_TRUE(admitted(group)) << group;
}

TEST_F(PeerTest, OwnOrRoot) {
  const uid_t me = ::geteuid();
  EXPECT_TRUE(is_own_or_root({1, me, 1}));
  EXPECT_TRUE(is_own_or_root({1, 0, 1}));
  EXPECT_FALSE(is_own_or_root({1, me + 1, ::getegid()}));
}

TEST_F(PeerTest, OfNothing) {
  const Fd alone(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(peer_of(alone.get()).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(peer_groups(alone.get()).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(is_admitted(alone.get(), {1, ::geteuid() + 1, 1}, gid_t{2}).status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(peer_of(-1).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace tenon::os

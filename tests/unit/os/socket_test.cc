// These tests send bytes and fds over sockets, and receive them.
#include "os/socket.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "os/limits.h"
#include "unit/os/guards.h"

namespace tenon::os {
namespace {

#ifndef SO_PASSPIDFD
#define SO_PASSPIDFD 76
#endif

class SocketTest : public test::Guarded {};

std::pair<Fd, Fd> make_sockets(int type) {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

std::span<const std::byte> bytes(const char* text) {
  return {reinterpret_cast<const std::byte*>(text), std::char_traits<char>::length(text)};
}

bool same_file(int one, int other) {
  struct stat a{}, b{};
  return ::fstat(one, &a) == 0 && ::fstat(other, &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

TEST_F(SocketTest, FactsOfASocket) {
  auto [a, b] = make_sockets(SOCK_SEQPACKET);
  auto facts = socket_facts(a.get());
  ASSERT_TRUE(facts.is_ok());
  EXPECT_EQ(facts.value().domain, AF_UNIX);
  EXPECT_EQ(facts.value().type, SOCK_SEQPACKET);
  EXPECT_TRUE(facts.value().connected);
  EXPECT_FALSE(facts.value().listening);
  b.reset();
  EXPECT_TRUE(socket_facts(a.get()).value().connected) << "what a dead peer sent can still be read";
  const Fd alone(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_FALSE(socket_facts(alone.get()).value().connected);
  EXPECT_GT(send_buffer_size(alone.get()).value_or(0), 0U);
}

TEST_F(SocketTest, WhatIsNoSocketIsRefused) {
  EXPECT_EQ(socket_facts(-1).status().code(), Code::kInvalidArgument);
  const Fd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(socket_facts(file.get()).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(socket_facts(file.get()).status().detail("fd"), std::to_string(file.get()));
}

TEST_F(SocketTest, BytesAndFdsInOneCall) {
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    auto [a, b] = make_sockets(type);
    const Fd one(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const Fd two(::open("/dev/zero", O_RDONLY));
    const int fds[] = {one.get(), two.get(), one.get()};
    const Transfer sent = send_message(a.get(), bytes("head"), bytes("body"), fds);
    EXPECT_EQ(sent.error, 0);
    EXPECT_EQ(sent.nbytes, 8U);
    std::byte room[64];
    ReceivedFds got;
    const Transfer received = receive_message(b.get(), room, false, &got);
    ASSERT_EQ(received.nbytes, 8U);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(room), 8), "headbody");
    EXPECT_FALSE(received.data_cut);
    EXPECT_FALSE(got.cut());
    std::vector<Fd> out;
    got.move_to(out);
    ASSERT_EQ(out.size(), 3U);
    EXPECT_EQ(got.size(), 0U);
    EXPECT_TRUE(same_file(out[0].get(), one.get()));
    EXPECT_TRUE(same_file(out[1].get(), two.get()));
    EXPECT_TRUE(same_file(out[2].get(), one.get()));
    for (const Fd& fd : out) EXPECT_EQ(::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  }
}

TEST_F(SocketTest, EmptyAndFullAreEAGAIN) {
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    auto [a, b] = make_sockets(type);
    std::byte room[64];
    ReceivedFds got;
    EXPECT_EQ(receive_message(b.get(), room, false, &got).error, EAGAIN);
    const std::vector<std::byte> block(4096);
    Transfer sent;
    while (sent.error == 0) sent = send_message(a.get(), block, {}, {});
    EXPECT_EQ(sent.error, EAGAIN);
  }
}

TEST_F(SocketTest, ClosedPeerRaisesNoSignal) {
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    auto [a, b] = make_sockets(type);
    EXPECT_FALSE(peer_hung_up(a.get()));
    b.reset();
    EXPECT_TRUE(peer_hung_up(a.get()));
    EXPECT_EQ(send_message(a.get(), bytes("x"), {}, {}).error, EPIPE);
    std::byte room[8];
    ReceivedFds got;
    const Transfer end = receive_message(a.get(), room, true, &got);
    EXPECT_EQ(end.error, 0);
    EXPECT_EQ(end.nbytes, 0U);
  }
}

TEST_F(SocketTest, TooMuchIsReported) {
  auto [a, b] = make_sockets(SOCK_SEQPACKET);
  EXPECT_EQ(send_message(a.get(), bytes("a long packet"), {}, {}).error, 0);
  std::byte room[4];
  ReceivedFds got;
  EXPECT_TRUE(receive_message(b.get(), room, false, &got).data_cut);
  const std::vector<int> many(kMaxFdsPerMessage + 1, a.get());
  EXPECT_EQ(send_message(a.get(), bytes("x"), {}, many).error, EINVAL);
}

// The user may have switched on options that send more control messages. Those messages must
// neither displace fds nor leave an fd open.
TEST_F(SocketTest, OtherControlMessagesDoNotDisturb) {
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    auto [a, b] = make_sockets(type);
    const int on = 1;
    ASSERT_EQ(::setsockopt(b.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
    ASSERT_EQ(::setsockopt(b.get(), SOL_SOCKET, SO_PASSSEC, &on, sizeof on), 0);
    const int pidfds = ::setsockopt(b.get(), SOL_SOCKET, SO_PASSPIDFD, &on, sizeof on);
    EXPECT_TRUE(pidfds == 0 || errno == ENOPROTOOPT);  // Linux 6.5
    const std::vector<int> most(kMaxFdsPerMessage, a.get());
    ASSERT_EQ(send_message(a.get(), bytes("x"), {}, most).error, 0);
    std::byte room[8];
    ReceivedFds got;
    const long before = test::count_open_fds();
    EXPECT_EQ(receive_message(b.get(), room, false, &got).nbytes, 1U);
    EXPECT_EQ(got.size(), kMaxFdsPerMessage);
    EXPECT_FALSE(got.cut());
    EXPECT_EQ(test::count_open_fds(), before + static_cast<long>(kMaxFdsPerMessage));
  }
}

TEST_F(SocketTest, ReceivedFdsCloseWhatFindsNoPlace) {
  ReceivedFds got;
  for (size_t i = 0; i < kMaxFdsPerMessage + 5; ++i) got.add(::dup(0));
  EXPECT_EQ(got.size(), kMaxFdsPerMessage);
  ReceivedFds other;
  other.add(::dup(0));
  other = std::move(got);
  EXPECT_EQ(other.size(), kMaxFdsPerMessage);
}

TEST_F(SocketTest, CountsOpenFds) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(fd_limit(), limit.rlim_cur);
  const auto before = open_fd_count();
  ASSERT_TRUE(before.has_value());
  EXPECT_EQ(*before, static_cast<uint64_t>(test::count_open_fds()));
  const Fd more(::dup(0));
  EXPECT_EQ(open_fd_count(), *before + 1);
}

}  // namespace
}  // namespace tenon::os

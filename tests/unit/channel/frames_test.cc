// These tests send good frames through a FrameSocket, and close or kill one end.
#include "channel/frames.h"

#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <csignal>
#include <thread>

#include "os/limits.h"
#include "unit/channel/frames_kit.h"

namespace tenon::channel::frametest {
namespace {

class Frames : public OneSocket {};
class FramesOverBoth : public BothSockets {};
INSTANTIATE_TEST_SUITE_P(Sockets, FramesOverBoth,
                         ::testing::Values(SocketType::kStream, SocketType::kSeqpacket),
                         socket_name);

TEST_F(Frames, FitSockets) {
  for (const SocketType type : {SocketType::kStream, SocketType::kSeqpacket}) {
    Link link(type);
    auto checked = check_socket(link.left_fd.get());
    ASSERT_TRUE(checked.is_ok());
    EXPECT_EQ(checked.value(), type);
    link.right_fd.reset();
    EXPECT_TRUE(check_socket(link.left_fd.get()).is_ok())
        << "a dead peer shows later, as PEER_GONE";
  }
  const Fd internet(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Fd alone(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Fd listening(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un autobind{};
  autobind.sun_family = AF_UNIX;
  ASSERT_EQ(
      ::bind(listening.get(), reinterpret_cast<const sockaddr*>(&autobind), sizeof(sa_family_t)),
      0);
  ASSERT_EQ(::listen(listening.get(), 1), 0);
  int datagrams[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, datagrams), 0);
  const Fd datagram(datagrams[0]), other_datagram(datagrams[1]);
  const Fd folder(::open("/", O_RDONLY | O_CLOEXEC));
  int pipe_ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(pipe_ends, O_CLOEXEC), 0);
  const Fd reader(pipe_ends[0]), writer(pipe_ends[1]);
  for (const int fd : {-1, internet.get(), alone.get(), listening.get(), datagram.get(),
                       folder.get(), reader.get()}) {
    const Status status = check_socket(fd).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << fd;
    EXPECT_EQ(status.detail("fd"), std::to_string(fd)) << status.message();
  }
}

// ---- good frames

TEST_P(FramesOverBoth, EverySizeArrives) {
  Link link(GetParam());
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{31}, size_t{32}, size_t{33}, size_t{64}, size_t{4095},
        size_t{4096}, size_t{40000}, kMaxFramePayload - 1, kMaxFramePayload}) {
    const auto kind = static_cast<uint16_t>(size * 7 + 3);
    link.left->enqueue(make_frame(kind, size));
    EXPECT_FALSE(link.left->idle());
    ASSERT_TRUE(flush_all(*link.left).is_ok());
    EXPECT_TRUE(link.left->idle());
    expect_frame(recv_one(*link.right), kind, size);
  }
  EXPECT_EQ(code_of(recv_now(*link.right)), Code::kWouldBlock);
}

TEST_P(FramesOverBoth, EveryNumberOfFdsArrives) {
  Link link(GetParam());
  for (const size_t count : {size_t{1}, size_t{2}, size_t{252}, size_t{253}, size_t{254},
                             size_t{505}, size_t{506}, size_t{507}, size_t{1000}}) {
    if (count + 100 > os::fd_limit()) GTEST_SKIP() << "RLIMIT_NOFILE is " << os::fd_limit();
    const Files files(count);
    for (const size_t size : {size_t{0}, size_t{100}, kMaxFramePayload}) {
      link.left->enqueue(make_frame(9, size, files.fds));
      ASSERT_TRUE(flush_all(*link.left).is_ok());
      auto got = recv_one(*link.right);
      ASSERT_TRUE(got.is_ok()) << got.status().message();
      expect_same_files(got.value().fds, files.fds, count);
      expect_frame(std::move(got), 9, size, count);
    }
  }
}

TEST_P(FramesOverBoth, ManyFramesInARow) {
  Link link(GetParam());
  const Files files(300);
  std::thread sender([&] {
    for (unsigned i = 0; i < 3000; ++i) {
      const size_t count = i % 7 == 0 ? i % 5 : i % 1000 == 1 ? 300 : 0;
      link.left->enqueue(
          make_frame(static_cast<uint16_t>(i), (i * 37) % 3000,
                     {files.fds.begin(), files.fds.begin() + static_cast<long>(count)}));
      if (i % 3 == 0 && !flush_all(*link.left).is_ok()) break;
    }
    EXPECT_TRUE(flush_all(*link.left).is_ok());
  });
  for (unsigned i = 0; i < 3000; ++i) {
    const size_t count = i % 7 == 0 ? i % 5 : i % 1000 == 1 ? 300 : 0;
    auto got = recv_one(*link.right);
    if (got.is_ok()) expect_same_files(got.value().fds, files.fds, count);
    expect_frame(std::move(got), static_cast<uint16_t>(i), (i * 37) % 3000, count);
    if (HasFailure()) break;
  }
  if (HasFailure()) link.right_fd.reset();  // so that the sender ends
  sender.join();
}

TEST_P(FramesOverBoth, BothWaysAtOnce) {
  Link link(GetParam());
  const auto send_some = [](FrameSocket& socket) {
    for (uint16_t i = 0; i < 1000; ++i) {
      socket.enqueue(make_frame(i, i * 11U));
      EXPECT_TRUE(flush_all(socket).is_ok());
    }
  };
  const auto receive_some = [](FrameSocket& socket) {
    for (uint16_t i = 0; i < 1000; ++i) expect_frame(recv_one(socket), i, i * 11U);
  };
  std::thread one([&] { send_some(*link.left); });
  std::thread two([&] { send_some(*link.right); });
  std::thread three([&] { receive_some(*link.left); });
  receive_some(*link.right);
  one.join();
  two.join();
  three.join();
}

TEST_F(Frames, StreamIsReadAhead) {
  Link link(SocketType::kStream);
  for (uint16_t i = 0; i < 20; ++i) link.left->enqueue(make_frame(i, 64));
  ASSERT_TRUE(flush_all(*link.left).is_ok());
  expect_frame(recv_one(*link.right), 0, 64);
  int unread = -1;
  ASSERT_EQ(::ioctl(link.right_fd.get(), FIONREAD, &unread), 0);
  EXPECT_EQ(unread, 0);
  link.left_fd.reset();
  for (uint16_t i = 1; i < 20; ++i) expect_frame(recv_now(*link.right), i, 64);
  EXPECT_EQ(code_of(recv_now(*link.right)), Code::kPeerGone);
}

TEST_P(FramesOverBoth, NonBlockingSocketsWork) {
  Link link(GetParam());
  ASSERT_EQ(::fcntl(link.right_fd.get(), F_SETFL, O_NONBLOCK), 0);
  std::thread receiver([&] { expect_frame(recv_one(*link.right), 5, 64); });
  link.left->enqueue(make_frame(5, 64));
  EXPECT_TRUE(flush_all(*link.left).is_ok());
  receiver.join();
}

TEST_P(FramesOverBoth, FrameIsKeptUntilItsLastByteIsGone) {
  Link link(GetParam());
  link.set_send_buffer(100'000);
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> seen = held;
  link.left->enqueue(make_frame(1, 60'000));
  // This loop fills the socket.
  while (flush_now(*link.left).is_ok()) link.left->enqueue(make_frame(1, 60'000));
  OutFrame last = make_frame(2, 10);
  last.keep_alive = std::move(held);
  link.left->enqueue(std::move(last));
  EXPECT_EQ(flush_now(*link.left).code(), Code::kWouldBlock);
  EXPECT_FALSE(seen.expired());
  while (!link.left->idle()) {
    expect_frame(recv_one(*link.right), 1, 60'000);
    const Status status = flush_now(*link.left);
    ASSERT_TRUE(status.is_ok() || status.code() == Code::kWouldBlock) << status.message();
  }
  EXPECT_TRUE(seen.expired());
}

// ---- the peer ends

TEST_P(FramesOverBoth, PeerClosedBefore) {
  Link link(GetParam());
  link.right_fd.reset();
  const auto gone = recv_one(*link.left);
  EXPECT_EQ(code_of(gone), Code::kPeerGone);
  EXPECT_EQ(gone.status().message().find("middle"), std::string::npos);
  link.left->enqueue(make_frame(1, 10));
  EXPECT_EQ(flush_all(*link.left).code(), Code::kPeerGone);
  EXPECT_EQ(flush_all(*link.left).code(), Code::kPeerGone);
  EXPECT_FALSE(link.left->idle());
  EXPECT_EQ(code_of(recv_one(*link.left)), Code::kPeerGone);
}

TEST_P(FramesOverBoth, WhatWasSentBeforeTheEndIsDelivered) {
  for (const bool leaves_bytes_unread : {false, true}) {
    Link link(GetParam());
    const Files files(3);
    if (leaves_bytes_unread) {
      link.right->enqueue(make_frame(1, 10));
      ASSERT_TRUE(flush_all(*link.right).is_ok());
    }
    link.left->enqueue(make_frame(1, 10));
    link.left->enqueue(make_frame(2, 20, files.fds));
    ASSERT_TRUE(flush_all(*link.left).is_ok());
    link.left_fd.reset();
    expect_frame(recv_one(*link.right), 1, 10);
    expect_frame(recv_one(*link.right), 2, 20, 3);
    EXPECT_EQ(code_of(recv_one(*link.right)), Code::kPeerGone);
  }
}

TEST_F(Frames, PeerGoneAtEveryByteOfAStream) {
  const Files files(254);
  std::vector<OutFrame> frames;
  frames.push_back(make_frame(4, 9, files.fds));
  const auto packets = packets_of(std::move(frames));
  ASSERT_EQ(packets.size(), 2U);
  for (size_t cut = 0; cut < packets[0].bytes.size() + packets[1].bytes.size(); ++cut) {
    Link link(SocketType::kStream);
    const size_t first = std::min(cut, packets[0].bytes.size());
    if (first > 0)
      send_raw(link.left_fd, std::span(packets[0].bytes).first(first), numbers(packets[0].fds));
    if (cut > first)
      send_raw(link.left_fd, std::span(packets[1].bytes).first(cut - first),
               numbers(packets[1].fds));
    link.left_fd.reset();
    const auto got = recv_one(*link.right);
    ASSERT_EQ(code_of(got), Code::kPeerGone) << cut;
    EXPECT_EQ(got.status().message().find("in the middle of a frame") != std::string::npos, cut > 0)
        << cut;
  }
}

TEST_P(FramesOverBoth, KilledPeerIsAResult) {
  Link link(GetParam());
  const Files files(5);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    link.left->enqueue(make_frame(6, 100, files.fds));
    if (!flush_all(*link.left).is_ok()) ::_exit(1);
    const auto half = RawHeader{.payload = 100, .sequence = 1}.bytes(30);
    if (stream()) os::send_message(link.left_fd.get(), half, {}, {});
    ::kill(::getpid(), SIGKILL);
  }
  link.left_fd.reset();
  expect_frame(recv_one(*link.right), 6, 100, 5);
  EXPECT_EQ(code_of(recv_one(*link.right)), Code::kPeerGone);
  int how = 0;
  ASSERT_EQ(::waitpid(child, &how, 0), child);
  EXPECT_TRUE(WIFSIGNALED(how));
}

TEST_P(FramesOverBoth, SenderBlockedOnADyingPeerEnds) {
  Link link(GetParam());
  link.set_send_buffer(8192);
  for (uint16_t i = 0; i < 100; ++i) link.left->enqueue(make_frame(i, 3000));
  std::thread sender([&] { EXPECT_EQ(flush_all(*link.left).code(), Code::kPeerGone); });
  expect_frame(recv_one(*link.right), 0, 3000);
  link.right_fd.reset();
  sender.join();
}

}  // namespace
}  // namespace tenon::channel::frametest

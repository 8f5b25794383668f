// These tests send and receive frames at the limits: of fds, of fds in flight, of the send buffer,
// and of the fds in one frame.
#include <sys/wait.h>

#include <string>

#include "os/limits.h"
#include "support/become_user.h"
#include "unit/channel/frames_kit.h"

namespace tenon::channel::frametest {
namespace {

class FramesAtLimits : public OneSocket {};
class FramesAtLimitsOverBoth : public BothSockets {};
INSTANTIATE_TEST_SUITE_P(Sockets, FramesAtLimitsOverBoth,
                         ::testing::Values(SocketType::kStream, SocketType::kSeqpacket),
                         socket_name);

TEST_P(FramesAtLimitsOverBoth, DroppedFdsAreReportedAndTheNextFramesAreRight) {
  for (const size_t room : {size_t{0}, size_t{1}, size_t{10}, size_t{49}}) {
    Link link(GetParam());
    const Files files(600);
    const auto first = [&](size_t count) {
      return std::vector<int>(files.fds.begin(), files.fds.begin() + static_cast<long>(count));
    };
    const size_t small = std::min<size_t>(room, 3);
    link.left->enqueue(make_frame(0, 10));
    link.left->enqueue(make_frame(1, 20, first(50)));
    link.left->enqueue(make_frame(2, 30));
    link.left->enqueue(make_frame(3, 40, first(small)));
    link.left->enqueue(make_frame(4, 50, first(600)));
    link.left->enqueue(make_frame(5, 60, first(50)));
    link.left->enqueue(make_frame(6, 70, first(small)));
    ASSERT_TRUE(flush_all(*link.left).is_ok());

    const auto expect_loss = [&](uint16_t kind, size_t size, size_t announced) {
      auto got = recv_one(*link.right);
      ASSERT_TRUE(got.is_ok()) << got.status().message();
      const InFrame& frame = got.value();
      EXPECT_EQ(frame.kind, kind);
      EXPECT_EQ(frame.payload, pattern(size, kind));
      EXPECT_EQ(frame.fds_announced, announced);
      expect_same_files(frame.fds, files.fds, room);
      EXPECT_EQ(frame.fds_status.code(), Code::kResourceExhausted);
      EXPECT_EQ(frame.fds_status.detail("limit"), "RLIMIT_NOFILE");
      EXPECT_EQ(frame.fds_status.detail("limit_value"), std::to_string(os::fd_limit()));
      EXPECT_EQ(frame.fds_status.detail("wanted"), std::to_string(announced));
      if (const auto open = os::open_fd_count()) {
        EXPECT_EQ(frame.fds_status.detail("in_use"), std::to_string(*open));
      }
    };
    const RoomForFds limit(room);
    expect_frame(recv_one(*link.right), 0, 10);
    expect_loss(1, 20, 50);
    expect_frame(recv_one(*link.right), 2, 30);
    {
      auto got = recv_one(*link.right);
      ASSERT_TRUE(got.is_ok());
      expect_same_files(got.value().fds, files.fds, small);
      expect_frame(std::move(got), 3, 40, small);
    }
    expect_loss(4, 50, 600);
    expect_loss(5, 60, 50);
    expect_frame(recv_one(*link.right), 6, 70, small);
    EXPECT_EQ(code_of(recv_now(*link.right)), Code::kWouldBlock);
  }
}

// The header that announces the fds comes in single bytes, and the process is at its limit of fds.
TEST_F(FramesAtLimits, DroppedFdsOfAHeaderInPieces) {
  Link link(SocketType::kStream);
  const Files files(5);
  const RoomForFds limit(2);
  const auto packet = RawHeader{.packet_fds = 5, .frame_fds = 5}.bytes();
  for (size_t i = 0; i < packet.size(); ++i) {
    send_raw(link.left_fd, std::span(packet).subspan(i, 1),
             i == 0 ? files.fds : std::vector<int>());
    auto got = recv_now(*link.right);
    ASSERT_EQ(got.is_ok(), i + 1 == packet.size());
    if (!got.is_ok()) continue;
    expect_same_files(got.value().fds, files.fds, 2);
    EXPECT_EQ(got.value().fds_status.code(), Code::kResourceExhausted);
  }
}

// Root may have any number of fds in flight, so a child that is not root runs this test. Its exit
// status tells the result.
TEST_P(FramesAtLimitsOverBoth, TooManyFdsInFlightIsReportedAndGoesOn) {
  Link link(GetParam());
  const Files files(253, 1);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    constexpr uid_t kNobodyElse = 54321;
    if (::geteuid() == 0 && !become_user(kNobodyElse, kNobodyElse)) ::_exit(2);
    const rlimit limit{300, 300};
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) ::_exit(3);
    constexpr uint16_t kFrames = 6;
    for (uint16_t i = 0; i < kFrames; ++i) link.left->enqueue(make_frame(i, 100, files.fds));
    int refused = 0;
    for (uint16_t i = 0; i < kFrames;) {
      const Status status = flush_now(*link.left);
      if (!status.is_ok()) {
        const bool as_it_should = status.code() == Code::kResourceExhausted &&
                                  status.detail("limit") == "RLIMIT_NOFILE" &&
                                  status.detail("errno") == std::to_string(ETOOMANYREFS) &&
                                  status.detail("limit_value") == "300";
        if (!as_it_should || link.left->idle()) ::_exit(4);
        ++refused;
      }
      auto got = recv_one(*link.right);
      if (!got.is_ok() || got.value().kind != i++ || got.value().payload.size() != 100 ||
          got.value().fds_announced != 253)
        ::_exit(5);
    }
    ::_exit(refused > 0 && link.left->idle() ? 0 : 6);
  }
  int how = 0;
  ASSERT_EQ(::waitpid(child, &how, 0), child);
  ASSERT_TRUE(WIFEXITED(how));
  EXPECT_EQ(WEXITSTATUS(how), 0);
}

TEST_F(FramesAtLimits, PacketThatTheSendBufferCannotHold) {
  Link link(SocketType::kSeqpacket);
  link.set_send_buffer(8192);
  link.left->enqueue(make_frame(1, kMaxFramePayload));
  const Status status = flush_all(*link.left);
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_EQ(status.detail("limit"), "SO_SNDBUF");
  EXPECT_EQ(status.detail("limit_value"), "16384");
  EXPECT_EQ(status.detail("wanted"), std::to_string(kHeader + kMaxFramePayload));
  EXPECT_FALSE(link.left->idle());
  link.set_send_buffer(200'000);
  EXPECT_TRUE(flush_all(*link.left).is_ok());
  expect_frame(recv_one(*link.right), 1, kMaxFramePayload);
}

TEST_P(FramesAtLimitsOverBoth, ReceiverMayBoundTheFdsOfAFrame) {
  Link link(GetParam());
  link.right->set_max_fds(4);
  const Files files(5);
  link.left->enqueue(make_frame(1, 1, {files.fds.begin(), files.fds.begin() + 4}));
  link.left->enqueue(make_frame(2, 1, files.fds));
  ASSERT_TRUE(flush_all(*link.left).is_ok());
  expect_frame(recv_one(*link.right), 1, 1, 4);
  EXPECT_EQ(code_of(recv_one(*link.right)), Code::kCorrupt);
}

}  // namespace
}  // namespace tenon::channel::frametest

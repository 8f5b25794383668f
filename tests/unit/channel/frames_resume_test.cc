// These tests stop sends and receives in the middle of a frame, by full sockets, signals and
// cancels. The next call resumes the frame, and no byte is lost.
#include <sys/socket.h>

#include <chrono>
#include <random>
#include <thread>

#include "unit/channel/frames_kit.h"

namespace tenon::channel::frametest {
namespace {

class FramesResumed : public OneSocket {};
class FramesResumedOverBoth : public BothSockets {};
INSTANTIATE_TEST_SUITE_P(Sockets, FramesResumedOverBoth,
                         ::testing::Values(SocketType::kStream, SocketType::kSeqpacket),
                         socket_name);

TEST_F(FramesResumed, SendStoppedInTheMiddleGoesOn) {
  Link link(SocketType::kStream);
  link.set_send_buffer(4608);
  const Files files(300);
  link.left->enqueue(make_frame(1, kMaxFramePayload, files.fds));
  link.left->enqueue(make_frame(2, 0, {files.fds[7]}));
  link.left->enqueue(make_frame(3, 5000));
  int stops = 0;
  std::vector<InFrame> got;
  while (got.size() < 3) {
    Waiter waiter(Wait{stops % 2 == 0 ? 0 : 1'000'000, nullptr, false});
    if (const Status status = link.left->flush(waiter); !status.is_ok()) {
      ASSERT_EQ(status.code(), stops % 2 == 0 ? Code::kWouldBlock : Code::kTimeout);
      ++stops;
    }
    auto frame = recv_now(*link.right);
    if (frame.is_ok()) {
      got.push_back(std::move(frame).value());
    } else {
      ASSERT_EQ(code_of(frame), Code::kWouldBlock);
    }
  }
  EXPECT_GT(stops, 5);
  EXPECT_TRUE(link.left->idle());
  expect_same_files(got[0].fds, files.fds, 300);
  EXPECT_EQ(identity(got[1].fds.at(0).get()), identity(files.fds[7]));
  expect_frame(std::move(got[0]), 1, kMaxFramePayload, 300);
  expect_frame(std::move(got[1]), 2, 0, 1);
  expect_frame(std::move(got[2]), 3, 5000);
}

TEST_P(FramesResumedOverBoth, FullSocketKeepsTheOrder) {
  Link link(GetParam());
  link.set_send_buffer(8192);
  uint16_t sent = 0;
  do {
    link.left->enqueue(make_frame(sent++, 2000));
  } while (flush_now(*link.left).is_ok());
  for (int i = 0; i < 10; ++i) link.left->enqueue(make_frame(sent++, 2000));
  for (uint16_t i = 0; i < sent; ++i) {
    expect_frame(recv_one(*link.right), i, 2000);
    const Status status = flush_now(*link.left);
    ASSERT_TRUE(status.is_ok() || status.code() == Code::kWouldBlock) << status.message();
  }
  EXPECT_EQ(code_of(recv_now(*link.right)), Code::kWouldBlock);
}

TEST_F(FramesResumed, StreamByteByByte) {
  Link link(SocketType::kStream);
  const Files files(260);
  std::vector<OutFrame> frames;
  frames.push_back(make_frame(1, 300));
  frames.push_back(make_frame(2, 77, files.fds));
  frames.push_back(make_frame(3, 0, {files.fds[1]}));
  frames.push_back(make_frame(4, 0));
  const auto packets = packets_of(std::move(frames));
  ASSERT_EQ(packets.size(), 5U);
  std::vector<InFrame> got;
  for (const Packet& packet : packets) {
    for (size_t i = 0; i < packet.bytes.size(); ++i) {
      send_raw(link.left_fd, std::span(packet.bytes).subspan(i, 1),
               i == 0 ? numbers(packet.fds) : std::vector<int>());
      auto frame = recv_now(*link.right);
      if (frame.is_ok()) {
        EXPECT_EQ(i + 1, packet.bytes.size());
        got.push_back(std::move(frame).value());
      } else {
        ASSERT_EQ(code_of(frame), Code::kWouldBlock);
      }
    }
  }
  ASSERT_EQ(got.size(), 4U);
  expect_same_files(got[1].fds, files.fds, 260);
  EXPECT_EQ(identity(got[2].fds.at(0).get()), identity(files.fds[1]));
  expect_frame(std::move(got[0]), 1, 300);
  expect_frame(std::move(got[1]), 2, 77, 260);
  expect_frame(std::move(got[2]), 3, 0, 1);
  expect_frame(std::move(got[3]), 4, 0);
}

// The receiver reads ahead into a buffer, whose end may lie in the header of a packet with fds.
// Then the rest of that packet must not be read together with the next packet and its fds.
TEST_F(FramesResumed, HeaderWithFdsThatTheBufferCuts) {
  constexpr size_t kBuffer = 128 * 1024;  // kBufferSize of frames.cc
  const Files files(3);
  for (const size_t cut : {0U, 1U, 16U, 31U, 32U, 33U, 40U}) {
    SCOPED_TRACE(cut);
    Link link(SocketType::kStream);
    link.set_send_buffer(1 << 20);
    const size_t last = kBuffer - cut - 2 * (60'000 + kHeader) - kHeader;
    for (const size_t size : {size_t{60'000}, size_t{60'000}, last})
      link.left->enqueue(make_frame(1, size));
    for (const int fd : files.fds) link.left->enqueue(make_frame(2, 5, {fd}));
    ASSERT_TRUE(flush_all(*link.left).is_ok());
    for (const size_t size : {size_t{60'000}, size_t{60'000}, last})
      expect_frame(recv_now(*link.right), 1, size);
    for (const int fd : files.fds) {
      Result<InFrame> frame = recv_now(*link.right);
      ASSERT_TRUE(frame.is_ok()) << frame.status().message();
      expect_same_files(frame.value().fds, {fd}, 1);
    }
  }
}

// The packets are sent as one stream of bytes, cut at any place. No piece crosses the start of a
// packet with fds, because those fds need their own send.
TEST_F(FramesResumed, StreamInPiecesOfAnySize) {
  std::mt19937 random(7);
  const Files files(40);
  for (int round = 0; round < 100; ++round) {
    Link link(SocketType::kStream);
    std::vector<OutFrame> frames;
    for (uint16_t i = 0; i < 20; ++i) {
      const size_t count = random() % 3 == 0 ? random() % 40 : 0;
      frames.push_back(
          make_frame(i, i == 10 ? 30'000 : random() % 200,
                     {files.fds.begin(), files.fds.begin() + static_cast<long>(count)}));
    }
    std::vector<std::pair<size_t, size_t>> expected;
    for (const OutFrame& frame : frames)
      expected.emplace_back(frame.payload.size(), frame.fds.size());
    const auto packets = packets_of(std::move(frames));
    std::vector<std::byte> run;
    std::vector<int> run_fds;
    uint16_t next = 0;
    const auto receive = [&] {
      for (;;) {
        auto frame = recv_now(*link.right);
        if (!frame.is_ok()) {
          ASSERT_EQ(code_of(frame), Code::kWouldBlock) << frame.status().message();
          return;
        }
        ASSERT_LT(next, expected.size());
        expect_same_files(frame.value().fds, files.fds, expected[next].second);
        expect_frame(std::move(frame), next, expected[next].first, expected[next].second);
        ++next;
      }
    };
    const auto send_run = [&] {
      for (size_t at = 0; at < run.size();) {
        const size_t size = std::min<size_t>(run.size() - at, 1 + random() % 5000);
        send_raw(link.left_fd, std::span(run).subspan(at, size),
                 at == 0 ? run_fds : std::vector<int>());
        at += size;
        if (random() % 4 == 0) receive();
      }
      run.clear();
    };
    for (const Packet& packet : packets) {
      if (!packet.fds.empty()) {
        send_run();
        run_fds = numbers(packet.fds);
      } else if (run.empty()) {
        run_fds.clear();
      }
      run.insert(run.end(), packet.bytes.begin(), packet.bytes.end());
    }
    send_run();
    receive();
    ASSERT_EQ(next, expected.size());
    if (HasFailure()) return;
  }
}

TEST_P(FramesResumedOverBoth, SignalsEndOnlyInterruptibleWaits) {
  Link link(GetParam());
  const SignalStorm storm(1'000'000);
  Waiter interruptible(Wait{-1, nullptr, true});
  EXPECT_EQ(code_of(link.right->recv(interruptible)), Code::kInterrupted);

  // The reader waits without a timeout. The writer pauses in the middle of a frame until signals
  // have come.
  std::thread writer([&] {
    const int start = SignalStorm::hits();
    const auto packet = RawHeader{.kind = 8, .payload = 100}.bytes(100);
    if (GetParam() == SocketType::kStream) send_raw(link.left_fd, std::span(packet).first(50));
    while (SignalStorm::hits() < start + 20) std::this_thread::yield();
    send_raw(link.left_fd,
             GetParam() == SocketType::kStream ? std::span(packet).subspan(50) : std::span(packet));
  });
  expect_frame(recv_one(*link.right), 8, 100);
  writer.join();

  Waiter timed = within_ms(15);
  const Status over = link.right->recv(timed).status();
  EXPECT_EQ(over.code(), Code::kTimeout);
  EXPECT_EQ(over.message(), "timed out waiting for a message from the peer on fd " +
                                std::to_string(link.right_fd.get()) + ": call again to go on");
}

TEST_P(FramesResumedOverBoth, SignalStormLosesNothing) {
  Link link(GetParam());
  link.set_send_buffer(8192);
  constexpr uint16_t kFrames = 400;
  std::thread receiver([&] {
    const SignalStorm storm(1'000'000);
    for (uint16_t i = 0; i < kFrames; ++i) {
      for (;;) {
        Waiter waiter(Wait{i % 3 == 0 ? 300'000 : -1, nullptr, i % 2 == 0});
        auto got = link.right->recv(waiter);
        if (code_of(got) == Code::kInterrupted || code_of(got) == Code::kTimeout) continue;
        expect_frame(std::move(got), i, 3000);
        break;
      }
      // This pause lets the socket become full.
      if (i % 20 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  uint16_t queued = 0;
  while (queued < kFrames || !link.left->idle()) {
    if (queued < kFrames) link.left->enqueue(make_frame(queued++, 3000));
    Waiter waiter(Wait{queued % 2 == 0 ? 200'000 : -1, nullptr, true});
    const Status status = link.left->flush(waiter);
    EXPECT_TRUE(status.is_ok() || status.code() == Code::kTimeout ||
                status.code() == Code::kInterrupted)
        << status.message();
  }
  receiver.join();
}

Cancel* cancel_of_handler = nullptr;

TEST_P(FramesResumedOverBoth, CancelEndsBothDirections) {
  Link link(GetParam());
  link.set_send_buffer(8192);
  auto made = Cancel::create();
  ASSERT_TRUE(made.is_ok());
  Cancel& cancel = *made.value();
  const auto waiter = [&] { return Waiter(Wait{-1, &cancel, false}); };

  std::thread other([&] { cancel.trigger(); });
  Waiter first = waiter();
  EXPECT_EQ(code_of(link.right->recv(first)), Code::kCancelled);
  other.join();

  cancel.reset();
  cancel_of_handler = &cancel;
  {
    const SignalStorm storm(2'000'000, [] { cancel_of_handler->trigger(); });
    Waiter second = waiter();
    EXPECT_EQ(code_of(link.right->recv(second)), Code::kCancelled);
  }

  cancel.reset();
  std::thread canceller([&] { cancel.trigger(); });
  uint16_t sent = 0;
  Status status;
  while (status.is_ok()) {
    link.left->enqueue(make_frame(sent++, 2000));
    Waiter sending = waiter();
    status = link.left->flush(sending);
  }
  EXPECT_EQ(status.code(), Code::kCancelled);
  canceller.join();

  // The cancel was triggered before the call. The call takes no frame although frames are there,
  // and none is lost.
  Waiter late = waiter();
  EXPECT_EQ(code_of(link.right->recv(late)), Code::kCancelled);
  cancel.reset();
  for (uint16_t i = 0; i < sent; ++i) {
    const Status flushed = flush_now(*link.left);
    ASSERT_TRUE(flushed.is_ok() || flushed.code() == Code::kWouldBlock);
    expect_frame(recv_one(*link.right), i, 2000);
  }
}

}  // namespace
}  // namespace tenon::channel::frametest

// These tests make every allocation fail in turn. No byte and no fd may be lost, and the next call
// goes on. The test is a program of its own, because it replaces operator new.
#include <new>

#include "unit/channel/frames_kit.h"
#include "unit/failing_new.h"

namespace tenon::channel::frametest {
namespace {

class FramesWithoutMemory : public BothSockets {};
INSTANTIATE_TEST_SUITE_P(Sockets, FramesWithoutMemory,
                         ::testing::Values(SocketType::kStream, SocketType::kSeqpacket),
                         socket_name);

// Calls `step` with 0, 1, 2, … allocations allowed until the step succeeds. Returns how often it
// failed.
template <typename Step>
int until_memory_suffices(Step step) {
  for (int allowed = 0;; ++allowed) {
    try {
      allocations_left = allowed;
      step();
      allocations_left = -1;
      return allowed;
    } catch (const std::bad_alloc&) {
      allocations_left = -1;
    }
  }
}

TEST_P(FramesWithoutMemory, ReceiveGoesOn) {
  Link link(GetParam());
  const Files files(600);
  const auto first = [&](size_t count) {
    return std::vector<int>(files.fds.begin(), files.fds.begin() + static_cast<long>(count));
  };
  link.left->enqueue(make_frame(0, 5000));
  link.left->enqueue(make_frame(1, 20, first(50)));
  link.left->enqueue(make_frame(2, 300, first(600)));
  link.left->enqueue(make_frame(3, 0));
  ASSERT_TRUE(flush_all(*link.left).is_ok());
  const size_t sizes[] = {5000, 20, 300, 0};
  const size_t counts[] = {0, 50, 600, 0};
  int failures = 0;
  for (uint16_t i = 0; i < 4; ++i) {
    InFrame frame;
    failures += until_memory_suffices([&] {
      auto got = recv_now(*link.right);
      if (got.is_ok()) frame = std::move(got).value();
    });
    expect_same_files(frame.fds, files.fds, counts[i]);
    expect_frame(std::move(frame), i, sizes[i], counts[i]);
  }
  EXPECT_GT(failures, 4);
}

TEST_P(FramesWithoutMemory, LossIsStillReported) {
  Link link(GetParam());
  const Files files(50);
  link.left->enqueue(make_frame(1, 20, files.fds));
  link.left->enqueue(make_frame(2, 20));
  ASSERT_TRUE(flush_all(*link.left).is_ok());
  InFrame frame;
  {
    const RoomForFds limit(7);
    const int failures = until_memory_suffices([&] {
      auto got = recv_now(*link.right);
      if (got.is_ok()) frame = std::move(got).value();
    });
    EXPECT_GT(failures, 3);
  }
  expect_same_files(frame.fds, files.fds, 7);
  EXPECT_EQ(frame.fds_status.code(), Code::kResourceExhausted);
  expect_frame(recv_now(*link.right), 2, 20);
}

TEST_P(FramesWithoutMemory, EnqueueTakesAllOrNothing) {
  Link link(GetParam());
  for (uint16_t i = 0; i < 20; ++i) {
    until_memory_suffices([&] { link.left->enqueue(make_frame(i, 50)); });
  }
  for (uint16_t i = 0; i < 20; ++i) {
    EXPECT_EQ(until_memory_suffices([&] { (void)flush_all(*link.left); }), 0)
        << "sending needs no memory";
    expect_frame(recv_now(*link.right), i, 50);
  }
  EXPECT_EQ(code_of(recv_now(*link.right)), Code::kWouldBlock);
}

}  // namespace
}  // namespace tenon::channel::frametest

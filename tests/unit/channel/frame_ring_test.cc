// These tests check the ring beside a socket: both ends over one memory, with withdrawals, and two
// FrameSockets that send through a ring.
#include "channel/frame_ring.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include "channel/frame_kind.h"
#include "os/sender.h"
#include "support/must.h"
#include "unit/channel/frames_kit.h"

namespace tenon::channel::frametest {
namespace {

using ring_page::Geometry;
using Fate = RingSender::Fate;
using Withdrawn = RingSender::Withdrawn;

constexpr Geometry kSmall{4, 128};
constexpr uint32_t kRoom = kSmall.room();

// Both ends of a ring. A test may write into the two files as a hostile peer would.
struct RingEnds {
  explicit RingEnds(const Geometry& geometry = kSmall, bool is_read = true)
      : sender(must(RingSender::create(geometry))),
        fds(sender->take_fds()),
        receiver(must(RingReceiver::open(std::span<os::Fd, 2>(*fds)))) {
    if (is_read) receiver->ready();
  }
  std::unique_ptr<RingSender> sender;
  std::shared_ptr<std::array<os::Fd, 2>> fds;
  std::unique_ptr<RingReceiver> receiver;
};

// The receiver's page, mapped again, so that a test can write into it.
class PageOf {
 public:
  explicit PageOf(const RingEnds& ends)
      : base_(::mmap(nullptr, ring_page::kReceiverNbytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                     (*ends.fds)[1].get(), 0)) {
    EXPECT_NE(base_, MAP_FAILED);
  }
  PageOf(const PageOf&) = delete;
  PageOf& operator=(const PageOf&) = delete;
  ~PageOf() { ::munmap(base_, ring_page::kReceiverNbytes); }
  ring_page::Receiver* operator->() const noexcept {
    return &ring_page::receiver(static_cast<std::byte*>(base_));
  }

 private:
  void* base_;
};

// Takes the next frame, whose kind and bytes must be those of pattern(). False: there is none.
bool take_pattern(RingReceiver& ring, uint16_t kind, size_t size, uint64_t by_socket = 0) {
  std::vector<std::byte> payload;
  const auto taken = must(ring.take(by_socket, &payload));
  if (!taken || taken->is_overtaken) return false;
  EXPECT_EQ(taken->kind, kind);
  EXPECT_TRUE(payload == pattern(size, kind)) << payload.size() << " bytes of " << size;
  return true;
}

bool has_none(RingReceiver& ring, uint64_t by_socket = 0) {
  std::vector<std::byte> payload;
  return !must(ring.take(by_socket, &payload)).has_value();
}

class FrameRing : public test::Guarded {};

TEST_F(FrameRing, FramesOfEachLengthComeInOrder) {
  RingEnds ends;
  for (size_t size = 0; size <= kRoom; ++size) {
    const auto kind = static_cast<uint16_t>(size + 1);
    ASSERT_TRUE(ends.sender->put(kind, pattern(size, kind)));
    ASSERT_TRUE(take_pattern(*ends.receiver, kind, size));
    ASSERT_TRUE(has_none(*ends.receiver));
  }
  EXPECT_FALSE(ends.sender->put(1, pattern(kRoom + 1, 1)));
  EXPECT_EQ(ends.sender->position(), kRoom + 1);
}

TEST_F(FrameRing, AFullRingHasRoomWhenAFrameIsTaken) {
  RingEnds ends;
  for (uint16_t round = 0; round < 10; ++round) {
    for (uint16_t i = 0; i < kSmall.capacity; ++i) ASSERT_TRUE(ends.sender->put(i, pattern(8, i)));
    EXPECT_EQ(ends.sender->waiting(), kSmall.capacity);
    ASSERT_FALSE(ends.sender->put(9, pattern(8, 9)));
    ASSERT_TRUE(take_pattern(*ends.receiver, 0, 8));
    ASSERT_TRUE(ends.sender->put(9, pattern(8, 9)));
    ASSERT_FALSE(ends.sender->put(10, pattern(8, 10)));
    for (uint16_t i = 1; i < kSmall.capacity; ++i) ASSERT_TRUE(take_pattern(*ends.receiver, i, 8));
    ASSERT_TRUE(take_pattern(*ends.receiver, 9, 8));
    EXPECT_EQ(ends.sender->waiting(), 0U);
  }
}

TEST_F(FrameRing, NothingIsPutUntilTheReceiverReads) {
  RingEnds ends(kSmall, false);
  EXPECT_FALSE(ends.sender->put(1, pattern(8, 1)));
  ends.receiver->ready();
  EXPECT_TRUE(ends.sender->must_ring()) << "a caller may poll before its first receive";
  EXPECT_TRUE(ends.sender->put(1, pattern(8, 1)));
  EXPECT_TRUE(take_pattern(*ends.receiver, 1, 8));
}

TEST_F(FrameRing, AFrameWaitsForTheFramesBeforeItOnTheSocket) {
  RingEnds ends;
  ASSERT_TRUE(ends.sender->put(1, pattern(8, 1)));
  ends.sender->count_by_socket();
  ends.sender->count_by_socket();
  ASSERT_TRUE(ends.sender->put(2, pattern(8, 2)));
  EXPECT_TRUE(take_pattern(*ends.receiver, 1, 8));
  EXPECT_TRUE(ends.receiver->expects_socket(0));
  EXPECT_TRUE(has_none(*ends.receiver, 0));
  EXPECT_TRUE(has_none(*ends.receiver, 1));
  EXPECT_FALSE(ends.receiver->expects_socket(2));
  EXPECT_TRUE(take_pattern(*ends.receiver, 2, 8, 2));
}

TEST_F(FrameRing, TheReceiverIsRungOnceForEachSleep) {
  RingEnds ends;
  ends.receiver->wake_up();
  EXPECT_FALSE(ends.sender->must_ring());
  ends.receiver->fall_asleep();
  EXPECT_TRUE(ends.sender->must_ring());
  EXPECT_FALSE(ends.sender->must_ring());
  ends.receiver->fall_asleep();  // again, without a wake between
  EXPECT_TRUE(ends.sender->must_ring());
  ends.receiver->wake_up();
  EXPECT_FALSE(ends.sender->must_ring());
}

TEST_F(FrameRing, TheSenderIsRungOnceForEachWait) {
  RingEnds ends;
  EXPECT_FALSE(ends.receiver->must_ring());
  ends.sender->wait_for_room();
  EXPECT_TRUE(ends.receiver->must_ring());
  EXPECT_FALSE(ends.receiver->must_ring());
  ends.sender->wait_for_room();
  EXPECT_TRUE(ends.receiver->must_ring());
  ends.sender->stop_waiting();
  EXPECT_FALSE(ends.receiver->must_ring());
}

TEST_F(FrameRing, AWithdrawnFrameIsNotTaken) {
  RingEnds ends;
  uint64_t position = 0;
  EXPECT_EQ(ends.sender->withdraw_oldest(&position), Withdrawn::kNone);
  for (uint16_t i = 0; i < kSmall.capacity; ++i) ASSERT_TRUE(ends.sender->put(i, pattern(8, i)));
  EXPECT_EQ(ends.sender->withdraw_oldest(&position), Withdrawn::kWithdrawn);
  EXPECT_EQ(position, 0U);
  ASSERT_TRUE(ends.sender->put(4, pattern(8, 4)));
  EXPECT_EQ(ends.sender->withdraw_oldest(&position), Withdrawn::kWithdrawn);
  EXPECT_EQ(position, 1U);
  // The slot of the receiver's next frame has a later one, and others lie behind it.
  EXPECT_TRUE(ends.receiver->has_news());
  EXPECT_TRUE(take_pattern(*ends.receiver, 2, 8));
  EXPECT_TRUE(take_pattern(*ends.receiver, 3, 8));
  EXPECT_TRUE(take_pattern(*ends.receiver, 4, 8));
  EXPECT_FALSE(ends.receiver->has_news());
  EXPECT_EQ(ends.receiver->missed(), 2U);
  EXPECT_EQ(ends.sender->withdraw_oldest(&position), Withdrawn::kNone);
}

// The receiver's page says that the receiver is in the middle of a message.
TEST_F(FrameRing, TheFateOfAFrameThatTheReceiverHadBegun) {
  RingEnds ends;
  const PageOf page(ends);
  uint64_t position = 0;
  for (uint16_t i = 0; i < kSmall.capacity; ++i) ASSERT_TRUE(ends.sender->put(i, pattern(8, i)));
  page->reading.store(1);
  ASSERT_EQ(ends.sender->withdraw_oldest(&position), Withdrawn::kBegun);
  EXPECT_EQ(ends.sender->fate_of(0), Fate::kUnknown);
  // A receiver that is stopped there does not keep the sender from withdrawing more.
  EXPECT_EQ(ends.sender->withdraw_oldest(&position), Withdrawn::kWithdrawn);
  EXPECT_EQ(ends.sender->fate_of(0), Fate::kUnknown);
  EXPECT_TRUE(ends.sender->put(4, pattern(8, 4)));
  EXPECT_TRUE(ends.sender->put(5, pattern(8, 5)));
  EXPECT_FALSE(ends.sender->put(6, pattern(8, 6)));
  page->refused[0].store(1);
  page->reading.store(0);
  EXPECT_EQ(ends.sender->fate_of(0), Fate::kRefused);
  page->reading.store(3);
  ASSERT_EQ(ends.sender->withdraw_oldest(&position), Withdrawn::kBegun);
  EXPECT_EQ(ends.sender->fate_of(2), Fate::kUnknown);
  page->passed.store(3);
  page->reading.store(0);
  EXPECT_EQ(ends.sender->fate_of(2), Fate::kTaken);
  // The receiver was done before the sender looked.
  page->passed.store(4);
  EXPECT_EQ(ends.sender->waiting(), 2U);
}

// A receiver may write anything into its page.
TEST_F(FrameRing, NoLieOfTheReceiverFreesMoreThanTheRingHas) {
  RingEnds ends;
  const PageOf page(ends);
  for (uint16_t i = 0; i < kSmall.capacity; ++i) ASSERT_TRUE(ends.sender->put(i, pattern(8, i)));
  for (const uint64_t lie : {uint64_t{5}, UINT64_MAX, uint64_t{1} << 63}) {
    page->passed.store(lie);
    EXPECT_EQ(ends.sender->waiting(), kSmall.capacity) << lie;
    EXPECT_FALSE(ends.sender->put(9, pattern(8, 9))) << lie;
  }
  page->passed.store(3);
  EXPECT_EQ(ends.sender->waiting(), 1U);
  page->passed.store(0);
  EXPECT_EQ(ends.sender->waiting(), 1U) << "a position only grows";
}

// A sender may write anything into rung_ns. UBSan sees a difference that overflows.
TEST_F(FrameRing, AnyTimeOfABellIsTaken) {
  RingEnds ends;
  // A sender's file cannot be mapped for writing again, so this ring has another one.
  Fd file(::memfd_create("tenon-ring-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(kSmall.nbytes())), 0);
  auto* const mine = static_cast<std::byte*>(
      ::mmap(nullptr, kSmall.nbytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
  ASSERT_NE(static_cast<void*>(mine), MAP_FAILED);
  ring_page::Header& header = ring_page::header(mine);
  header.magic = ring_page::kMagic;
  header.version = ring_page::kVersion;
  header.capacity = kSmall.capacity;
  header.slot_nbytes = kSmall.slot_nbytes;
  ASSERT_EQ(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  std::array<Fd, 2> fds;
  fds[0] = std::move(file);
  fds[1] = Fd(::dup((*ends.fds)[1].get()));
  const auto receiver = must(RingReceiver::open(std::span<Fd, 2>(fds)));
  for (const uint64_t time : {uint64_t{0}, uint64_t{1} << 63, uint64_t{INT64_MAX}, UINT64_MAX}) {
    header.rung_ns.store(time);
    receiver->fall_asleep();
    receiver->wake_up();
  }
  ::munmap(mine, kSmall.nbytes());
}

// What became of each position, as each side saw it.
struct Story {
  explicit Story(size_t positions) : taken(positions), left(positions) {}
  std::vector<char> taken;                // by the receiver
  std::vector<std::optional<char>> left;  // by the sender: withdrawn or not; none: never asked
};

// Sends `positions` frames into a ring that drops the oldest ones when it is full.
void send_and_drop(RingSender& ring, uint64_t positions, Story* story) {
  std::optional<uint64_t> begun;
  const auto ask = [&] {
    if (!begun) return;
    const Fate fate = ring.fate_of(*begun);
    if (fate == Fate::kUnknown) return;
    story->left[*begun] = fate == Fate::kRefused;
    begun.reset();
  };
  for (uint64_t i = 0; i < positions; ++i) {
    const auto kind = static_cast<uint16_t>(i % 1000);
    const std::vector<std::byte> payload = pattern((i * 37) % (ring.geometry().room() + 1), kind);
    while (!ring.put(kind, payload)) {
      ask();
      uint64_t position = 0;
      const std::optional<uint64_t> before = begun;
      const Withdrawn withdrawn = ring.withdraw_oldest(&position);
      ask();
      if (withdrawn == Withdrawn::kWithdrawn) story->left[position] = true;
      if (withdrawn == Withdrawn::kBegun) {
        ASSERT_FALSE(begun.has_value()) << "position " << before.value_or(0) << " has no fate";
        begun = position;
      }
    }
  }
  while (begun) {
    ask();
    std::this_thread::yield();
  }
}

TEST_F(FrameRing, EachFrameIsTakenOnceOrWithdrawnOnceBesideAThread) {
  for (const Geometry& geometry : {Geometry{1, 128}, Geometry{2, 1024}, Geometry{8, 4096}}) {
    SCOPED_TRACE(geometry.capacity);
    constexpr uint64_t kPositions = 40'000;
    RingEnds ends(geometry);
    Story story(kPositions + 1);
    std::thread sender([&] {
      send_and_drop(*ends.sender, kPositions, &story);
      while (!ends.sender->put(1000, {})) std::this_thread::yield();
    });
    std::vector<std::byte> payload;
    uint64_t torn = 0;
    for (bool is_over = false; !is_over;) {
      const auto taken = must(ends.receiver->take(0, &payload));
      if (!taken || taken->is_overtaken) continue;
      const uint64_t position = ends.receiver->position() - 1;
      is_over = taken->kind == 1000;
      if (is_over) break;
      ++story.taken[position];
      const auto kind = static_cast<uint16_t>(position % 1000);
      if (taken->kind != kind || payload != pattern((position * 37) % (geometry.room() + 1), kind))
        ++torn;
    }
    sender.join();
    EXPECT_EQ(torn, 0U);
    uint64_t withdrawn = 0, wrong = 0;
    for (uint64_t i = 0; i < kPositions; ++i) {
      withdrawn += story.left[i].value_or(false) ? 1 : 0;
      if (story.taken[i] + (story.left[i].value_or(false) ? 1 : 0) != 1) ++wrong;
    }
    EXPECT_EQ(wrong, 0U) << "frames that were taken and withdrawn, or neither";
    EXPECT_EQ(ends.receiver->missed(), withdrawn);
  }
}

// ---- two FrameSockets with a ring

class FramesBesideRing : public BothSockets {};
INSTANTIATE_TEST_SUITE_P(Sockets, FramesBesideRing,
                         ::testing::Values(SocketType::kStream, SocketType::kSeqpacket),
                         socket_name);

// The frames from left to right cross in a ring where they can.
struct RingLink : Link {
  explicit RingLink(SocketType type, const Geometry& geometry = kSmall, bool is_read = true)
      : Link(type) {
    std::unique_ptr<RingSender> sender = must(RingSender::create(geometry));
    const auto fds = sender->take_fds();
    std::unique_ptr<RingReceiver> receiver = must(RingReceiver::open(std::span<os::Fd, 2>(*fds)));
    left->use_ring(std::move(sender));
    if (is_read) EXPECT_TRUE(right->read_ring(std::move(receiver)).is_ok());
  }
  uint64_t put() const { return left->ring()->position(); }
  bool is_readable(int timeout_ms = 0) const {
    pollfd one{right_fd.get(), POLLIN, 0};
    return ::poll(&one, 1, timeout_ms) == 1;
  }
  Status send(OutFrame frame) const {
    left->enqueue(std::move(frame));
    return flush_now(*left);
  }
};

TEST_P(FramesBesideRing, AFullRingGoesOnOverTheSocketInOrder) {
  const RingLink link(GetParam());
  for (uint16_t round = 0; round < 20; ++round) {
    for (uint16_t i = 1; i <= 10; ++i) ASSERT_TRUE(link.send(make_frame(i, i * 7)).is_ok());
    for (uint16_t i = 1; i <= 10; ++i) expect_frame(recv_now(*link.right), i, i * 7);
    EXPECT_EQ(code_of(recv_now(*link.right)), Code::kWouldBlock);
    EXPECT_EQ(link.put(), uint64_t{kSmall.capacity} * (round + 1));
    EXPECT_TRUE(link.right->has_nothing());
  }
}

TEST_P(FramesBesideRing, FdsAndLongPayloadsKeepTheirPlaces) {
  const RingLink link(GetParam());
  const Files files(300, 3);
  std::thread receiver([&] {
    for (uint16_t round = 0; round < 50; ++round) {
      expect_frame(recv_one(*link.right), 1, 5);
      expect_frame(recv_one(*link.right), 2, 0, 3);
      expect_frame(recv_one(*link.right), 3, kMaxFramePayload);
      expect_frame(recv_one(*link.right), 4, kRoom);
      expect_frame(recv_one(*link.right), 5, kRoom + 1);
      expect_frame(recv_one(*link.right), 6, 9, 300);
      expect_frame(recv_one(*link.right), 7, 1);
    }
  });
  for (uint16_t round = 0; round < 50; ++round) {
    link.left->enqueue(make_frame(1, 5));
    link.left->enqueue(make_frame(2, 0, {files.fds.begin(), files.fds.begin() + 3}));
    link.left->enqueue(make_frame(3, kMaxFramePayload));
    link.left->enqueue(make_frame(4, kRoom));
    link.left->enqueue(make_frame(5, kRoom + 1));
    link.left->enqueue(make_frame(6, 9, files.fds));
    link.left->enqueue(make_frame(7, 1));
    ASSERT_TRUE(flush_all(*link.left).is_ok());
  }
  receiver.join();
  EXPECT_GT(link.put(), 0U);
}

TEST_P(FramesBesideRing, AReceiverThatNeverReadsTheRingGetsAllOverTheSocket) {
  const RingLink link(GetParam(), kSmall, false);
  for (uint16_t i = 1; i <= 20; ++i) ASSERT_TRUE(link.send(make_frame(i, i)).is_ok());
  for (uint16_t i = 1; i <= 20; ++i) expect_frame(recv_now(*link.right), i, i);
  EXPECT_EQ(link.put(), 0U);
}

TEST_P(FramesBesideRing, AfterWouldBlockTheSocketBecomesReadable) {
  const RingLink link(GetParam());
  EXPECT_FALSE(link.is_readable());
  ASSERT_TRUE(link.send(make_frame(1, 8)).is_ok());
  EXPECT_TRUE(link.is_readable()) << "the first frame, before any receive";
  for (uint16_t i = 1; i <= 100; ++i) {
    expect_frame(recv_now(*link.right), i, 8);
    ASSERT_EQ(code_of(recv_now(*link.right)), Code::kWouldBlock);
    ASSERT_FALSE(link.is_readable()) << i;
    ASSERT_TRUE(link.send(make_frame(static_cast<uint16_t>(i + 1), 8)).is_ok());
    ASSERT_TRUE(link.is_readable()) << i;
  }
  EXPECT_EQ(link.put(), 101U);
}

TEST_P(FramesBesideRing, OneBellIsEnoughForManyFrames) {
  const RingLink link(GetParam(), Geometry{64, 128});
  ASSERT_EQ(code_of(recv_now(*link.right)), Code::kWouldBlock);
  for (uint16_t i = 1; i <= 50; ++i) ASSERT_TRUE(link.send(make_frame(i, 8)).is_ok());
  EXPECT_EQ(os::unread_nbytes(link.right_fd.get()), kHeader);
  for (uint16_t i = 1; i <= 50; ++i) expect_frame(recv_now(*link.right), i, 8);
  EXPECT_EQ(code_of(recv_now(*link.right)), Code::kWouldBlock);
  EXPECT_FALSE(link.is_readable());
}

// The receiver took the frame for which it was rung, and may never receive again.
TEST_P(FramesBesideRing, ABellThatNobodyReadIsNothing) {
  const RingLink link(GetParam());
  ASSERT_EQ(code_of(recv_now(*link.right)), Code::kWouldBlock);
  ASSERT_TRUE(link.send(make_frame(1, 8)).is_ok());
  EXPECT_FALSE(link.right->has_nothing());
  expect_frame(recv_now(*link.right), 1, 8);
  EXPECT_TRUE(link.is_readable());
  EXPECT_TRUE(link.right->has_nothing());
  const Files files(1);
  ASSERT_TRUE(link.send(make_frame(2, 0, files.fds)).is_ok());
  EXPECT_FALSE(link.right->has_nothing());
  expect_frame(recv_now(*link.right), 2, 0, 1);
  ASSERT_EQ(code_of(recv_now(*link.right)), Code::kWouldBlock);
  // A frame as short as a bell.
  ASSERT_TRUE(link.send(make_frame(3, 0, files.fds)).is_ok());
  EXPECT_EQ(os::unread_nbytes(link.right_fd.get()), kHeader);
  EXPECT_FALSE(link.right->has_nothing());
}

// Bells that nobody reads fill the socket. They delay no frame, and the receiver removes all of
// them.
TEST_P(FramesBesideRing, BellsThatPileUpDelayNothing) {
  RingLink link(GetParam());
  for (int i = 0; i < 5000; ++i) link.left->ring_bell();
  EXPECT_TRUE(link.is_readable());
  for (uint16_t i = 1; i <= kSmall.capacity; ++i) ASSERT_TRUE(link.send(make_frame(i, 8)).is_ok());
  for (uint16_t i = 1; i <= kSmall.capacity; ++i) expect_frame(recv_now(*link.right), i, 8);
  EXPECT_EQ(code_of(recv_now(*link.right)), Code::kWouldBlock);
  EXPECT_FALSE(link.is_readable());
  const Files files(1);
  ASSERT_TRUE(link.send(make_frame(7, 8, files.fds)).is_ok());
  expect_frame(recv_now(*link.right), 7, 8, 1);
}

// A peer that sends bells without end keeps the socket readable.
TEST_P(FramesBesideRing, AFloodOfBellsDoesNotHoldACallBeyondItsTime) {
  const RingLink link(GetParam());
  std::atomic<bool> is_over{false};
  std::thread flood([&] {
    const auto bell = RawHeader{.kind = kBell}.bytes();
    while (!is_over) (void)os::send_message(link.left_fd.get(), bell, {}, {});
  });
  Waiter waiter = within_ms(20);
  EXPECT_EQ(code_of(link.right->recv(waiter)), Code::kTimeout);
  is_over = true;
  flood.join();
}

// The frame in the ring was sent whole, so the bell must be rung for it, whatever came after it.
TEST(FramesBesideRingOverSeqpacket, AFrameIsRungForThoughALaterFrameFails) {
  RingLink link(SocketType::kSeqpacket);
  link.set_send_buffer(4096);
  ASSERT_EQ(code_of(recv_now(*link.right)), Code::kWouldBlock);
  link.left->enqueue(make_frame(1, 8));
  link.left->enqueue(make_frame(2, 50'000));
  EXPECT_EQ(flush_now(*link.left).code(), Code::kResourceExhausted);
  EXPECT_TRUE(link.is_readable());
  expect_frame(recv_now(*link.right), 1, 8);
}

// The sender ended between its store and its bell.
TEST_P(FramesBesideRing, FramesOfASenderThatHasEndedAreTaken) {
  RingLink link(GetParam());
  ASSERT_EQ(code_of(recv_now(*link.right)), Code::kWouldBlock);
  std::thread sender([&] {
    // The receiver sleeps by now, or sees the frames at its last check. No bell is sent.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (uint16_t i = 1; i <= 3; ++i) ASSERT_TRUE(link.left->ring()->put(i, pattern(8, i)));
    link.left_fd.reset();
  });
  for (uint16_t i = 1; i <= 3; ++i) expect_frame(recv_one(*link.right), i, 8);
  EXPECT_EQ(code_of(recv_one(*link.right)), Code::kPeerGone);
  EXPECT_EQ(code_of(recv_one(*link.right)), Code::kPeerGone);
  sender.join();
}

// A frame that has begun to cross on the socket comes after those that were in the ring before.
TEST_P(FramesBesideRing, TheRingIsReadBeforeAFrameThatHasBegunOnTheSocket) {
  RingLink link(GetParam());
  for (int i = 0; i < 300; ++i) {
    std::thread receiver([&] { expect_frame(recv_one(*link.right), 1, 8); });
    if (i % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
    const auto sequence = static_cast<uint64_t>(i);
    ASSERT_TRUE(link.left->ring()->put(1, pattern(8, 1)));
    link.left->ring()->count_by_socket();
    if (link.left->ring()->must_ring())
      send_raw(link.left_fd, RawHeader{.kind = kBell, .sequence = sequence}.bytes());
    receiver.join();
    ASSERT_FALSE(::testing::Test::HasFailure()) << i;
    send_raw(link.left_fd, RawHeader{.kind = 2, .payload = 3, .sequence = sequence}.bytes(3));
    expect_frame(recv_one(*link.right), 2, 3);
  }
}

TEST_P(FramesBesideRing, AFrameBehindWithdrawnOnesIsNotForgotten) {
  const RingLink link(GetParam());
  uint64_t position = 0;
  for (uint16_t i = 1; i <= 4; ++i) ASSERT_TRUE(link.send(make_frame(i, 8)).is_ok());
  ASSERT_EQ(link.left->ring()->withdraw_oldest(&position), Withdrawn::kWithdrawn);
  ASSERT_TRUE(link.send(make_frame(5, 8)).is_ok());
  EXPECT_FALSE(link.right->has_nothing());
  for (uint16_t i = 2; i <= 5; ++i) expect_frame(recv_now(*link.right), i, 8);
  EXPECT_EQ(code_of(recv_now(*link.right)), Code::kWouldBlock);
  EXPECT_TRUE(link.right->has_nothing());
}

// Sends long frames in between while the ring drops, so that a receiver which loses a race again
// and again must still keep the order.
TEST_P(FramesBesideRing, TheOrderHoldsBesideWithdrawals) {
  const RingLink link(GetParam(), Geometry{2, 1024});
  constexpr uint64_t kFrames = 20'000;
  std::thread sender([&] {
    RingSender& ring = *link.left->ring();
    for (uint64_t i = 0; i < kFrames; ++i) {
      OutFrame frame;
      frame.kind = static_cast<uint16_t>(i + 1 == kFrames ? 2 : 1);
      frame.payload.resize(i % 100 == 99 || i + 1 == kFrames ? 2000 : 900);
      std::memcpy(frame.payload.data(), &i, sizeof i);
      uint64_t position = 0;
      while (frame.payload.size() < 2000 && ring.waiting() == 2) {
        if (ring.withdraw_oldest(&position) == Withdrawn::kBegun)
          while (ring.fate_of(position) == Fate::kUnknown) std::this_thread::yield();
      }
      link.left->enqueue(std::move(frame));
      ASSERT_TRUE(flush_all(*link.left).is_ok());
    }
  });
  uint64_t last = 0, by_socket = 0;
  for (bool is_over = false; !is_over;) {
    Result<InFrame> got = recv_one(*link.right);
    ASSERT_TRUE(got.is_ok()) << got.status().message();
    uint64_t number = 0;
    std::memcpy(&number, got.value().payload.data(), sizeof number);
    ASSERT_TRUE(number > last || number == 0) << number << " after " << last;
    last = number;
    by_socket += got.value().payload.size() == 2000 ? 1 : 0;
    is_over = got.value().kind == 2;
  }
  sender.join();
  EXPECT_EQ(by_socket, kFrames / 100);
}

}  // namespace
}  // namespace tenon::channel::frametest

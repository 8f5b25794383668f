// These tests withdraw frames from a ring: each frame is either taken by the receiver or withdrawn,
// and the sender knows which, wherever the receiver is at that moment.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "channel/frame_ring.h"
#include "support/must.h"

namespace tenon::channel {
namespace {

using Fate = RingSender::Fate;
using Withdrawn = RingSender::Withdrawn;

constexpr uint16_t kKind = 3;

struct RingPair {
  std::unique_ptr<RingSender> sender;
  std::unique_ptr<RingReceiver> receiver;
  ring_page::Receiver* page = nullptr;  // the receiver's page, as the receiver could write it

  explicit RingPair(uint32_t capacity) {
    sender = must(RingSender::create({capacity, 128}));
    sender->begin_at(0);
    const auto fds = sender->take_fds();
    void* const mapped = ::mmap(nullptr, ring_page::kReceiverNbytes, PROT_READ | PROT_WRITE,
                                MAP_SHARED, (*fds)[1].get(), 0);
    EXPECT_NE(mapped, MAP_FAILED);
    page = &ring_page::receiver(static_cast<std::byte*>(mapped));
    receiver = must(RingReceiver::open(std::span<os::Fd, 2>(*fds)));
    receiver->ready();
  }
  ~RingPair() { ::munmap(page, ring_page::kReceiverNbytes); }
  RingPair(const RingPair&) = delete;
  RingPair& operator=(const RingPair&) = delete;

  bool put(uint64_t number) {
    // The nine words of a frame must be equal when it is taken.
    std::array<uint64_t, 9> words;
    words.fill(number);
    return sender->put(kKind, std::as_bytes(std::span(words)));
  }
  // Returns the number of the frame that is taken, or nothing if the ring has none.
  std::optional<uint64_t> take() {
    for (;;) {
      std::vector<std::byte> payload;
      const std::optional<RingReceiver::Taken> taken = must(receiver->take(0, &payload));
      if (!taken) return std::nullopt;
      if (taken->is_overtaken) continue;
      EXPECT_EQ(taken->kind, kKind);
      std::array<uint64_t, 9> words{};
      EXPECT_EQ(payload.size(), sizeof words);
      std::memcpy(words.data(), payload.data(), sizeof words);
      for (const uint64_t word : words) EXPECT_EQ(word, words[0]);
      return words[0];
    }
  }
};

// What a publisher knows of its frames: it withdraws the oldest one for each new one.
class Dropper {
 public:
  explicit Dropper(RingPair* ring) : ring_(*ring) {}
  void put(uint64_t number) {
    if (ring_.put(number)) return;
    resolve(false);
    uint64_t position = 0;
    const Withdrawn what = ring_.sender->withdraw_oldest(&position);
    resolve(what == Withdrawn::kBegun);
    if (what == Withdrawn::kWithdrawn) withdrawn.push_back(position);
    if (what == Withdrawn::kBegun) begun_ = position;
    ASSERT_TRUE(ring_.put(number));
  }
  void resolve(bool must_know) {
    if (!begun_) return;
    const Fate fate = ring_.sender->fate_of(*begun_);
    if (fate == Fate::kUnknown) {
      EXPECT_FALSE(must_know);
      return;
    }
    if (fate == Fate::kRefused) withdrawn.push_back(*begun_);
    ++n_begun;
    begun_.reset();
  }
  std::vector<uint64_t> withdrawn;
  size_t n_begun = 0;

 private:
  RingPair& ring_;
  std::optional<uint64_t> begun_;
};

// Each of 0 to n - 1 is in one of the two lists, and in one only.
void expect_all_once(const std::vector<uint64_t>& taken, const std::vector<uint64_t>& withdrawn,
                     uint64_t n) {
  std::vector<int> seen(n);
  for (const std::vector<uint64_t>* const list : {&taken, &withdrawn}) {
    for (const uint64_t each : *list) {
      ASSERT_LT(each, n);
      ++seen[each];
    }
  }
  for (uint64_t i = 0; i < n; ++i) ASSERT_EQ(seen[i], 1) << "frame " << i;
}

TEST(RingWithdraw, EachFrameIsTakenOrWithdrawn) {
  for (const uint32_t capacity : {1U, 2U, 8U}) {
    SCOPED_TRACE(capacity);
    constexpr uint64_t kFrames = 200'000;
    RingPair ring(capacity);
    Dropper dropper(&ring);
    std::vector<uint64_t> taken;
    std::atomic<bool> is_over{false};
    std::thread receiver([&] {
      for (uint64_t pauses = 0;;) {
        const bool was_over = is_over.load();
        const std::optional<uint64_t> number = ring.take();
        if (number) {
          taken.push_back(*number);
          if (++pauses % 64 == 0) std::this_thread::yield();
        } else if (was_over) {
          break;
        }
      }
    });
    for (uint64_t i = 0; i < kFrames; ++i) dropper.put(i);
    is_over.store(true);
    receiver.join();
    dropper.resolve(true);
    expect_all_once(taken, dropper.withdrawn, kFrames);
    EXPECT_TRUE(std::is_sorted(taken.begin(), taken.end()));
    EXPECT_EQ(ring.receiver->missed(), kFrames - taken.size());
    EXPECT_EQ(ring.sender->waiting(), 0U);
  }
}

// The receiver is stopped between its stores, in every place. The sender goes on, fills the slot
// again many times, and later learns what became of the frame.
TEST(RingWithdraw, AReceiverThatIsStoppedInAFrameKeepsThatOneOnly) {
  for (const bool is_taken : {false, true}) {
    for (const uint64_t more : {1U, 2U, 7U, 100U}) {
      SCOPED_TRACE(more);
      RingPair ring(4);
      Dropper dropper(&ring);
      for (uint64_t i = 0; i < 4; ++i) dropper.put(i);
      EXPECT_EQ(ring.take(), 0U);
      ring.page->reading.store(2);  // it begins with frame 1, and stops
      for (uint64_t i = 0; i < more; ++i) dropper.put(4 + i);
      if (is_taken) {
        // The receiver had copied the frame before the slot was filled again.
        ring.page->passed.store(2);
      } else {
        ring.page->refused[0].store(2);
      }
      ring.page->reading.store(0);
      dropper.resolve(true);
      const bool has_one = std::find(dropper.withdrawn.begin(), dropper.withdrawn.end(), 1U) !=
                           dropper.withdrawn.end();
      EXPECT_EQ(has_one, !is_taken && more > 1);
      EXPECT_EQ(ring.sender->waiting(), is_taken && more == 1 ? 3U : 4U);
    }
  }
}

// The receiver moves from one frame to the next between two checks of the sender, and both frames
// are withdrawn. The fate of the first is still known.
TEST(RingWithdraw, TheFateOfAFrameOutlivesThatOfTheNext) {
  RingPair ring(2);
  ASSERT_TRUE(ring.put(0) && ring.put(1));
  ring.page->reading.store(1);
  uint64_t first = 7;
  uint64_t second = 7;
  EXPECT_EQ(ring.sender->withdraw_oldest(&first), Withdrawn::kBegun);
  EXPECT_EQ(ring.sender->fate_of(first), Fate::kUnknown);
  // The receiver refuses frame 0, passes it, and begins with frame 1.
  ring.page->refused[0].store(1);
  ring.page->refused[1].store(1);
  ring.page->reading.store(2);
  EXPECT_EQ(ring.sender->withdraw_oldest(&second), Withdrawn::kBegun);
  ring.page->refused[2].store(2);
  ring.page->reading.store(0);
  ring.page->refused[3].store(2);
  EXPECT_EQ(ring.sender->fate_of(first), Fate::kRefused);
  EXPECT_EQ(ring.sender->fate_of(second), Fate::kRefused);
}

TEST(RingWithdraw, NothingWaits) {
  RingPair ring(2);
  uint64_t position = 7;
  EXPECT_EQ(ring.sender->withdraw_oldest(&position), Withdrawn::kNone);
  ASSERT_TRUE(ring.put(0));
  EXPECT_EQ(ring.take(), 0U);
  EXPECT_EQ(ring.sender->withdraw_oldest(&position), Withdrawn::kNone);
  EXPECT_EQ(position, 7U);
}

// A hostile receiver writes anything. The sender never has more frames than slots, and ignores
// positions that are out of range.
TEST(RingWithdraw, AHostilePageChangesNothingElse) {
  RingPair ring(4);
  uint64_t state = 12345;
  const auto random = [&state] {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return state >> 60 == 0 ? state : state >> 58;
  };
  uint64_t position = 0;
  uint64_t last = 0;
  for (int i = 0; i < 100'000; ++i) {
    ring.page->passed.store(random());
    ring.page->reading.store(random());
    ring.page->refused[i % 8].store(random());
    ring.page->asleep.store(static_cast<uint32_t>(random()));
    ASSERT_LE(ring.sender->waiting(), 4U);
    if (!ring.put(i)) {
      ASSERT_NE(ring.sender->withdraw_oldest(&position), Withdrawn::kNone);
      ASSERT_GE(position, last);
      last = position;
      (void)ring.sender->fate_of(position);
      ASSERT_TRUE(ring.put(i));
    }
    (void)ring.sender->must_ring();
  }
}

}  // namespace
}  // namespace tenon::channel

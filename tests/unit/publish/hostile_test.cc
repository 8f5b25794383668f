// A subscriber that writes random words over everything that it may write, and random bytes into
// its socket, disturbs no other subscriber, under each policy.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "channel/frames.h"
#include "os/clock.h"
#include "publish/publisher.h"
#include "publish/subscriber.h"
#include "support/must.h"

namespace tenon::publish {
namespace {

using channel::FrameSocket;
using channel::InFrame;
using channel::SocketType;

constexpr uint64_t kMessages = 20'000;
constexpr int64_t kWaitNs = 20'000'000'000;
constexpr int64_t kStormNs = 1'000'000'000;
constexpr uint64_t kLast = uint64_t{1} << 63;  // in the number of the last message

std::pair<os::Fd, os::Fd> connected() {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  return {os::Fd(ends[0]), os::Fd(ends[1])};
}

// A peer that has taken the ring's files, and writes and sends arbitrary bytes.
class Hostile {
 public:
  Hostile(Publisher* publisher, bool talks) : talks_(talks) {
    auto [ours, theirs] = connected();
    EXPECT_TRUE(publisher->add(&theirs).is_ok());
    socket_ = std::move(ours);
    FrameSocket frames(socket_.get(), SocketType::kSeqpacket);
    os::Waiter waiter(os::Wait{.timeout_ns = kWaitNs});
    const InFrame frame = must(frames.recv(waiter));
    EXPECT_EQ(frame.fds.size(), 2U);
    void* const mapped = ::mmap(nullptr, channel::ring_page::kReceiverNbytes,
                                PROT_READ | PROT_WRITE, MAP_SHARED, frame.fds[1].get(), 0);
    EXPECT_NE(mapped, MAP_FAILED);
    page_ = static_cast<std::atomic<uint64_t>*>(mapped);
    // The sender's file cannot be written.
    EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, frame.fds[0].get(), 0),
              MAP_FAILED);
    thread_ = std::thread([this] { run(); });
  }
  ~Hostile() {
    is_over_.store(true);
    thread_.join();
    ::munmap(page_, channel::ring_page::kReceiverNbytes);
  }
  Hostile(const Hostile&) = delete;
  Hostile& operator=(const Hostile&) = delete;

 private:
  void run() {
    std::mt19937_64 random(7);
    constexpr size_t kWords = channel::ring_page::kReceiverNbytes / sizeof(uint64_t);
    while (!is_over_.load(std::memory_order_relaxed)) {
      for (int i = 0; i < 64; ++i) {
        // Most words are near the valid ones.
        const uint64_t value = random() % 2 != 0 ? random() % (2 * kMessages) : random();
        const size_t index = random() % 4 != 0 ? random() % 24 : random() % kWords;
        page_[index].store(value, std::memory_order_relaxed);
      }
      if (talks_) {
        std::array<uint64_t, 16> junk{};
        for (uint64_t& each : junk) each = random();
        (void)::send(socket_.get(), junk.data(), 1 + random() % sizeof junk,
                     MSG_DONTWAIT | MSG_NOSIGNAL);
      }
      std::this_thread::yield();
    }
  }

  bool talks_;
  os::Fd socket_;
  std::atomic<uint64_t>* page_ = nullptr;
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

tensor::Message* fill(tensor::Message* message, uint64_t number) {
  EXPECT_TRUE(message->set_user_bytes(std::as_bytes(std::span(&number, 1))).is_ok());
  return message;
}

std::optional<uint64_t> number_of(const tensor::Message& message) {
  uint64_t number = 0;
  if (message.user_bytes().size() != sizeof number) return std::nullopt;
  std::memcpy(&number, message.user_bytes().data(), sizeof number);
  return number;
}

// Whether there is a subscriber besides the good one whose end the kernel has not reported yet.
bool has_one_that_is_here_too_many(Publisher* publisher) {
  const std::vector<SubscriberInfo> all = publisher->subscribers();
  return std::count_if(all.begin(), all.end(), [](const SubscriberInfo& each) {
           return each.state == SubscriberState::kHere || each.state == SubscriberState::kJoining;
         }) > 1;
}

void run_beside_a_hostile_one(Policy policy, bool talks) {
  SCOPED_TRACE(static_cast<int>(policy));
  PublisherOptions options;
  options.ring = {policy == Policy::kDropOldest ? 8U : 64U, 1024};
  options.policy = policy;
  options.report_deaths = false;
  const Publisher::Owned publisher = must(Publisher::create(options));
  auto [ours, theirs] = connected();
  const std::unique_ptr<Subscriber> good = must(Subscriber::create(ours.get(), {}));
  ASSERT_TRUE(publisher->add(&theirs).is_ok());
  std::atomic<uint64_t> received{0};
  std::thread receiver([&] {
    uint64_t next = 0;
    for (;;) {
      auto message = good->recv(os::Wait{.timeout_ns = kWaitNs});
      ASSERT_TRUE(message.is_ok()) << message.status().message();
      const uint64_t told = number_of(*message.value()).value();
      const uint64_t number = told & ~kLast;
      ASSERT_GE(number, next);
      if (policy != Policy::kDropOldest) ASSERT_EQ(number, next);
      next = number + 1;
      received.fetch_add(1);
      if (told != number) break;
    }
  });
  uint64_t published = 0;
  {
    const Hostile hostile(publisher.get(), talks);
    const int64_t begin = os::monotonic_ns();
    while (published < kMessages && os::monotonic_ns() - begin < kStormNs) {
      tensor::Message message;
      const Status status =
          publisher->publish(*fill(&message, published), os::Wait{.timeout_ns = 1'000'000});
      if (status.is_ok()) {
        ++published;
        continue;
      }
      // A hostile subscriber can hold up a publisher that waits for it, as a stopped one can.
      const bool is_slow = policy == Policy::kBlock
                               ? status.code() == Code::kTimeout
                               : policy == Policy::kError && status.detail("limit") == "capacity";
      ASSERT_TRUE(is_slow) << status.message();
      ASSERT_FALSE(status.detail("pid").empty());
    }
  }
  EXPECT_GT(published, 0U);
  tensor::Message last;
  fill(&last, published | kLast);
  const int64_t begin = os::monotonic_ns();
  // Once its end is reported, the next publish() removes the hostile subscriber.
  while (has_one_that_is_here_too_many(publisher.get()))
    ASSERT_LT(os::monotonic_ns() - begin, kWaitNs);
  while (!publisher->publish(last, os::Wait{.timeout_ns = 1'000'000}).is_ok())
    ASSERT_LT(os::monotonic_ns() - begin, kWaitNs);
  receiver.join();
  EXPECT_EQ(received.load() + good->stats().dropped, published + 1);
  EXPECT_EQ(publisher->stats().subscribers, 1U);
}

TEST(HostileSubscriber, WritesOverItsPage) {
  run_beside_a_hostile_one(Policy::kBlock, false);
  run_beside_a_hostile_one(Policy::kDropOldest, false);
  run_beside_a_hostile_one(Policy::kError, false);
}

TEST(HostileSubscriber, WritesIntoItsSocketToo) {
  run_beside_a_hostile_one(Policy::kBlock, true);
  run_beside_a_hostile_one(Policy::kDropOldest, true);
}

// The hostile subscriber sends messages, which no subscriber does. The publisher finds a message
// when it reads the socket while it waits for room. Then it removes the subscriber.
TEST(HostileSubscriber, SendsMessages) {
  PublisherOptions options;
  options.ring = {1, 256};
  const Publisher::Owned publisher = must(Publisher::create(options));
  auto [ours, theirs] = connected();
  ASSERT_TRUE(publisher->add(&theirs).is_ok());
  const channel::Connection::Owned liar = must(channel::Connection::create(ours.get(), {}));
  tensor::Message message;
  ASSERT_TRUE(liar->send(&message, {}).is_ok());
  ASSERT_TRUE(publisher->publish(message, {}).is_ok());
  const Status removed = publisher->publish(message, os::Wait{.timeout_ns = kWaitNs});
  EXPECT_EQ(removed.code(), Code::kPeerGone) << removed.message();
  EXPECT_FALSE(removed.detail("pid").empty());
  EXPECT_TRUE(publisher->publish(message, {}).is_ok());
  EXPECT_EQ(publisher->stats().subscribers, 0U);
  EXPECT_EQ(publisher->stats().gone, 1U);
}

}  // namespace
}  // namespace tenon::publish

// Tests of publishers and subscribers: one process alone, other processes that come by a path or by
// an inherited socket, each policy, waits that end, and processes that die.
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <ranges>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "kit.h"

namespace {

using kit::kPatience;
using kit::number_in;
using kit::numbered;
using kit::Steps;
using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<tenon::Publisher> &&
              std::is_nothrow_move_constructible_v<tenon::Publisher> &&
              !std::is_copy_constructible_v<tenon::Subscriber> &&
              std::is_nothrow_move_constructible_v<tenon::Subscriber>);

tenon::Subscriber subscriber_on(int socket) {
  return tenon::Subscriber::make(socket, {.adopt_socket = true});
}

// Makes a subscriber in this process.
tenon::Subscriber subscribe_here(tenon::Publisher& publisher) {
  kit::Sockets sockets;
  publisher.add(sockets.here);
  sockets.here = -1;
  return subscriber_on(std::exchange(sockets.there, -1));
}

void publish_number(tenon::Publisher& publisher, float number) {
  publisher.publish(numbered(number), {.timeout = kPatience});
}

float next_number(tenon::Subscriber& subscriber) {
  return number_in(subscriber.recv({.timeout = kPatience}));
}

bool has_nothing(tenon::Subscriber& subscriber) {
  return subscriber.try_recv({.timeout = 0s}).code() == tenon::Code::kWouldBlock;
}

// Whether the next receive says that the publisher with this pid is gone.
bool tells_of_the_end(tenon::Subscriber& subscriber, pid_t pid) {
  const tenon::Result<tenon::Message> end = subscriber.try_recv({.timeout = kPatience});
  return end.code() == tenon::Code::kPeerGone && end.error().detail("pid") == std::to_string(pid);
}

// The first publisher starts what stays in the process: the service thread and the fds that it
// keeps for a folder. The fixture starts them before it counts fds.
class Publishers : public kit::Leaves {
 protected:
  void SetUp() override {
    {
      tenon::Publisher publisher = tenon::Publisher::make();
      publisher.listen(path());
      tenon::Subscriber subscriber = tenon::Subscriber::connect(path());
      publish_number(publisher, 1);
      EXPECT_EQ(next_number(subscriber), 1.0F);
    }
    kit::Leaves::SetUp();
  }
  void TearDown() override {
    EXPECT_TRUE(tenon::test::wait_until([] { return tenon::lease_holders().empty(); }));
    kit::Leaves::TearDown();
  }
  static std::string path() { return kit::Folder::at("publisher"); }
};

static_assert(std::ranges::input_range<tenon::Subscriber>);

TEST_F(Publishers, ALoopEndsWithThePublisher) {
  std::optional<tenon::Publisher> publisher = tenon::Publisher::make();
  tenon::Subscriber subscriber = subscribe_here(*publisher);
  for (float number = 1; number <= 3; ++number) publish_number(*publisher, number);
  std::vector<float> numbers;
  for (const tenon::Message& message : subscriber) {
    numbers.push_back(number_in(message));
    if (numbers.size() == 3) publisher.reset();
  }
  EXPECT_EQ(numbers, (std::vector<float>{1, 2, 3}));
  EXPECT_TRUE(subscriber.begin() == subscriber.end());
}

TEST_F(Publishers, OneProcessPublishesToItself) {
  tenon::Publisher publisher = tenon::Publisher::make();
  publish_number(publisher, 0);  // nobody is there
  tenon::Subscriber first = subscribe_here(publisher);
  tenon::Subscriber second = subscribe_here(publisher);
  EXPECT_EQ(next_number(first) + next_number(second), 0.0F);
  const tenon::Tensor weight = tenon::zeros<float>({8});
  publisher.publish(tenon::Message::of({{"x", weight}}));
  {
    const tenon::Message message = first.recv({.timeout = kPatience});
    tenon::Tensor received = message["x"];
    received.view_mut<float>()[7] = 42;
  }
  EXPECT_EQ(weight.view<float>()[7], 42.0F);
  EXPECT_EQ(next_number(second), 42.0F);
  EXPECT_TRUE(has_nothing(first) && has_nothing(second));
  first.close();
  publish_number(publisher, 3);
  const tenon::PublisherStats stats = publisher.stats();
  EXPECT_EQ(stats.published, 3U);
  EXPECT_EQ(stats.dropped, 0U);
  EXPECT_EQ(stats.subscribers, 1U);
  EXPECT_EQ(stats.gone, 0U);
  tenon::Publisher moved = std::move(publisher);
  moved.close();
  moved.close();
  EXPECT_EQ(next_number(second), 3.0F);
  EXPECT_TRUE(tells_of_the_end(second, getpid()));
  const tenon::SubscriberStats seen = second.stats();
  EXPECT_EQ(seen.received, 3U);
  EXPECT_EQ(seen.dropped, 0U);
  EXPECT_EQ(seen.pid, getpid());
  EXPECT_EQ(seen.uid, geteuid());
}

TEST_F(Publishers, ALateSubscriberGetsTheLatestMessage) {
  for (const bool forget : {false, true}) {
    tenon::Publisher publisher = tenon::Publisher::make({.forget_latest = forget});
    publish_number(publisher, 1);
    publish_number(publisher, 2);
    tenon::Subscriber late = subscribe_here(publisher);
    EXPECT_TRUE(forget || next_number(late) == 2.0F);
    EXPECT_TRUE(has_nothing(late)) << forget;
    publish_number(publisher, 3);
    EXPECT_EQ(next_number(late), 3.0F);
  }
}

TEST_F(Publishers, BlockWaitsForRoom) {
  tenon::Publisher publisher = tenon::Publisher::make({.capacity = 2});
  tenon::Subscriber slow = subscribe_here(publisher);
  tenon::Subscriber quick = subscribe_here(publisher);
  for (const float number : {1.0F, 2.0F}) {
    publish_number(publisher, number);
    EXPECT_EQ(next_number(quick), number);
  }
  const tenon::Message third = numbered(3);
  const std::string pid = std::to_string(getpid());
  const tenon::Result<void> full = publisher.try_publish(third, {.timeout = 0s});
  ASSERT_EQ(full.code(), tenon::Code::kWouldBlock);
  EXPECT_EQ(full.error().detail("pid"), pid);
  const tenon::Result<void> late = publisher.try_publish(third, {.timeout = 1ms});
  ASSERT_EQ(late.code(), tenon::Code::kTimeout);
  EXPECT_EQ(late.error().detail("pid"), pid);
  const tenon::Cancel cancel = tenon::Cancel::make();
  std::thread other([&] { cancel.trigger(); });
  kit::thrown_by<tenon::Cancelled>([&] { publisher.publish(third, {.cancel = &cancel}); });
  other.join();
  EXPECT_TRUE(has_nothing(quick));  // no subscriber got it
  EXPECT_EQ(next_number(slow), 1.0F);
  publisher.publish(third);
  EXPECT_EQ(next_number(slow), 2.0F);
  EXPECT_EQ(next_number(slow), 3.0F);
  EXPECT_EQ(next_number(quick), 3.0F);
}

TEST_F(Publishers, ErrorNamesTheSlowSubscriber) {
  tenon::Publisher publisher =
      tenon::Publisher::make({.policy = tenon::PublishPolicy::kError, .capacity = 2});
  tenon::Subscriber slow = subscribe_here(publisher);
  publish_number(publisher, 1);
  publish_number(publisher, 2);
  const tenon::Result<void> full = publisher.try_publish(numbered(3));
  ASSERT_EQ(full.code(), tenon::Code::kResourceExhausted);
  EXPECT_EQ(full.error().detail("limit"), "capacity");
  EXPECT_EQ(full.error().detail("pid"), std::to_string(getpid()));
  EXPECT_EQ(next_number(slow), 1.0F);
  EXPECT_EQ(next_number(slow), 2.0F);
  EXPECT_TRUE(has_nothing(slow));
}

TEST_F(Publishers, DropOldestKeepsTheNewest) {
  tenon::Publisher publisher = tenon::Publisher::make(
      {.policy = tenon::PublishPolicy::kDropOldest, .capacity = 2, .slot_nbytes = 2048});
  tenon::Subscriber slow = subscribe_here(publisher);
  for (int i = 0; i < 5; ++i) publish_number(publisher, static_cast<float>(i));
  std::vector<tenon::PublisherSubscriber> all = publisher.subscribers();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].state, tenon::SubscriberState::kJoining);
  EXPECT_EQ(all[0].pid, getpid());
  EXPECT_EQ(all[0].uid, geteuid());
  EXPECT_FALSE(all[0].asleep);
  EXPECT_EQ(all[0].waiting, 2U);
  EXPECT_EQ(all[0].published, 5U);
  EXPECT_EQ(all[0].dropped, 3U);
  EXPECT_EQ(next_number(slow), 3.0F);
  EXPECT_EQ(next_number(slow), 4.0F);
  EXPECT_EQ(slow.stats().received, 2U);
  EXPECT_EQ(slow.stats().dropped, 3U);
  EXPECT_EQ(publisher.stats().dropped, 3U);
  EXPECT_EQ(publisher.subscribers()[0].state, tenon::SubscriberState::kHere);
  slow.close();
  all = publisher.subscribers();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].state, tenon::SubscriberState::kLeft);
}

TEST_F(Publishers, ARemovedSubscriberReceivesWhatWaits) {
  tenon::Publisher publisher = tenon::Publisher::make({.capacity = 1});
  tenon::Subscriber slow = subscribe_here(publisher);
  publish_number(publisher, 1);
  std::thread other([&] {
    std::this_thread::sleep_for(1ms);
    publisher.remove(getpid());
  });
  publish_number(publisher, 2);
  other.join();
  EXPECT_EQ(next_number(slow), 1.0F);
  EXPECT_TRUE(tells_of_the_end(slow, getpid()));
  EXPECT_EQ(publisher.stats().subscribers, 0U);
  EXPECT_EQ(publisher.stats().gone, 0U);
  const tenon::Result<void> nobody = publisher.try_remove(getpid());
  ASSERT_EQ(nobody.code(), tenon::Code::kNotFound);
  EXPECT_EQ(nobody.error().detail("pid"), std::to_string(getpid()));
}

bool is_polled(int fd) {
  pollfd poll{fd, POLLIN, 0};
  return ::poll(&poll, 1, 0) == 1;
}

TEST_F(Publishers, TheFdIsReadableWhenThereIsAMessage) {
  tenon::Publisher publisher = tenon::Publisher::make();
  tenon::Subscriber subscriber = subscribe_here(publisher);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(has_nothing(subscriber));
    EXPECT_FALSE(is_polled(subscriber.fd()));
    publish_number(publisher, 1);
    publish_number(publisher, 2);
    EXPECT_TRUE(is_polled(subscriber.fd()));
    EXPECT_EQ(next_number(subscriber), 1.0F);
    EXPECT_EQ(next_number(subscriber), 2.0F);
  }
  EXPECT_TRUE(has_nothing(subscriber));
  publisher.close();
  EXPECT_TRUE(is_polled(subscriber.fd()));
  EXPECT_TRUE(tells_of_the_end(subscriber, getpid()));
}

TEST_F(Publishers, ASubscriberOfAnotherProcessConnectsByThePath) {
  kit::Sockets sockets;
  kit::Child child([&] {
    Steps steps(sockets.keep_there());
    steps.await();
    tenon::Subscriber subscriber = tenon::Subscriber::connect(path(), {}, {.timeout = kPatience});
    steps.tell();
    if (next_number(subscriber) != 0.0F) return false;
    for (int i = 1; i < 10; ++i)
      if (next_number(subscriber) != static_cast<float>(i)) return false;
    {
      const tenon::Message message = subscriber.recv({.timeout = kPatience});
      tenon::Tensor weight = message["x"];
      weight.view_mut<float>()[7] = 42;
    }
    steps.tell();
    return tells_of_the_end(subscriber, getppid());
  });
  Steps steps(sockets.keep_here());
  tenon::Publisher publisher = tenon::Publisher::make();
  publisher.listen(path(), 0640);
  struct stat info{};
  ASSERT_EQ(stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0640U);
  publish_number(publisher, 0);
  steps.tell();
  steps.await();
  const std::vector<tenon::PublisherSubscriber> all = publisher.subscribers();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].pid, child.pid());
  EXPECT_EQ(all[0].uid, geteuid());
  for (int i = 1; i < 10; ++i) publish_number(publisher, static_cast<float>(i));
  const tenon::Tensor weight = tenon::zeros<float>({8});
  publisher.publish(tenon::Message::of({{"x", weight}}));
  steps.await();
  EXPECT_EQ(weight.view<float>()[7], 42.0F);
  publisher.close();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_NE(stat(path().c_str(), &info), 0);  // the socket is removed
}

// Waits until the publisher sees the subscriber with this pid in this state.
bool comes_to(const tenon::Publisher& publisher, pid_t pid, tenon::SubscriberState state) {
  return tenon::test::wait_until([&] {
    const std::vector<tenon::PublisherSubscriber> all = publisher.subscribers();
    return std::ranges::any_of(all, [&](const tenon::PublisherSubscriber& each) {
      return each.pid == pid && each.state == state;
    });
  });
}

bool reports_a_killed_subscriber(bool ignore_deaths) {
  kit::Sockets ends;
  kit::Sockets sockets;
  kit::Child child([&] {
    tenon::Subscriber subscriber = subscriber_on(std::exchange(ends.there, -1));
    close(std::exchange(ends.here, -1));
    Steps steps(sockets.keep_there());
    const tenon::Message message = subscriber.recv({.timeout = kPatience});
    steps.tell();
    pause();
    return false;
  });
  Steps steps(sockets.keep_here());
  tenon::Publisher publisher = tenon::Publisher::make({.ignore_deaths = ignore_deaths});
  ends.keep_here();
  publisher.add(std::exchange(ends.here, -1));
  tenon::Subscriber other = subscribe_here(publisher);
  publish_number(publisher, 1);
  steps.await();
  // The subscriber has inherited its socket. The kernel tells its pid when it takes the lease.
  const pid_t pid = child.pid();
  if (!comes_to(publisher, pid, tenon::SubscriberState::kHere)) return false;
  kill(pid, SIGKILL);
  if (!WIFSIGNALED(child.wait())) return false;
  if (!comes_to(publisher, pid, tenon::SubscriberState::kGone)) return false;
  if (!ignore_deaths) {
    const tenon::Result<void> told = publisher.try_publish(numbered(9));
    if (told.code() != tenon::Code::kPeerGone || told.error().detail("pid") != std::to_string(pid))
      return false;
  }
  // The death is told at most once, the publisher goes on, and the other one misses nothing.
  publish_number(publisher, 2);
  return next_number(other) == 1.0F && next_number(other) == 2.0F && has_nothing(other) &&
         publisher.stats().gone == 1 && publisher.stats().subscribers == 1;
}

TEST_F(Publishers, AKilledSubscriberIsNamedOnce) {
  for (const bool ignore_deaths : {false, true}) {
    kit::Child apart([&] { return reports_a_killed_subscriber(ignore_deaths); });
    EXPECT_EQ(apart.wait(), 0) << ignore_deaths;
  }
}

TEST_F(Publishers, WhatAKilledPublisherPublishedIsReceived) {
  kit::Sockets ends;
  kit::Child child([&]() -> bool {
    tenon::Publisher publisher = tenon::Publisher::make();
    publisher.add(ends.keep_there());
    for (int i = 0; i < 5; ++i) publish_number(publisher, static_cast<float>(i));
    kill(getpid(), SIGKILL);
    return false;
  });
  tenon::Subscriber subscriber = subscriber_on(ends.keep_here());
  ends.here = -1;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(next_number(subscriber), static_cast<float>(i));
  EXPECT_CODE(kPeerGone, subscriber.try_recv());
  EXPECT_TRUE(WIFSIGNALED(child.wait()));
}

TEST_F(Publishers, AChildMayNotUseItsParentsPublisher) {
  tenon::Publisher publisher = tenon::Publisher::make();
  tenon::Subscriber subscriber = subscribe_here(publisher);
  kit::Child child([&] {
    if (publisher.try_publish(tenon::Message::make()).code() != tenon::Code::kUnsupported ||
        publisher.try_listen(path()).code() != tenon::Code::kUnsupported ||
        subscriber.try_recv({.timeout = 0s}).code() != tenon::Code::kUnsupported ||
        !publisher.subscribers().empty())
      return false;
    publisher.close();
    subscriber.close();
    return true;
  });
  EXPECT_EQ(child.wait(), 0);
  publish_number(publisher, 1);
  EXPECT_EQ(next_number(subscriber), 1.0F);
}

TEST_F(Publishers, WrongArguments) {
  for (const tenon::PublisherOptions& wrong :
       {tenon::PublisherOptions{.capacity = 3}, tenon::PublisherOptions{.slot_nbytes = 65},
        tenon::PublisherOptions{.policy = static_cast<tenon::PublishPolicy>(3)}})
    EXPECT_CODE(kInvalidArgument, tenon::Publisher::try_make(wrong));
  tenon::Publisher publisher = tenon::Publisher::make({.max_subscribers = 1, .same_user = true});
  EXPECT_CODE(kInvalidArgument, publisher.try_add(-1));
  EXPECT_CODE(kInvalidArgument, publisher.try_publish(tenon::Message()));
  EXPECT_CODE(kInvalidArgument, publisher.try_publish(numbered(1), {.timeout = -1ns}));
  EXPECT_CODE(kInvalidArgument, publisher.try_listen(std::string("/tmp/a\0b", 8)));
  const tenon::Result<void> nowhere = publisher.try_listen(path() + "/no/such");
  ASSERT_EQ(nowhere.code(), tenon::Code::kNotFound);
  EXPECT_EQ(nowhere.error().detail("path"), path() + "/no/such");
  EXPECT_CODE(kNotFound, tenon::Subscriber::try_connect(path()));
  EXPECT_CODE(kInvalidArgument, tenon::Subscriber::try_connect(std::string("/a\0b", 4)));
  EXPECT_CODE(kInvalidArgument, tenon::Subscriber::try_make(-1));
  kit::Sockets sockets;
  EXPECT_CODE(kUnsupported, tenon::Subscriber::try_make(sockets.here, {.ring = true}));
  tenon::Subscriber only = subscribe_here(publisher);
  const tenon::Result<void> full = publisher.try_add(sockets.here);
  ASSERT_EQ(full.code(), tenon::Code::kResourceExhausted);
  EXPECT_EQ(full.error().detail("limit"), "subscribers");
  EXPECT_CODE(kTimeout, only.try_recv({.timeout = 1ms}));
  tenon::Publisher none;
  EXPECT_CODE(kInvalidArgument, none.try_publish(tenon::Message::make()));
  EXPECT_CODE(kInvalidArgument, none.try_listen(path()));
  EXPECT_CODE(kInvalidArgument, none.try_add(sockets.here));
  EXPECT_CODE(kInvalidArgument, none.try_remove(1));
  EXPECT_CODE(kInvalidArgument, none.try_stats());
  EXPECT_CODE(kInvalidArgument, none.try_subscribers());
  none.close();
  tenon::Subscriber nobody;
  EXPECT_CODE(kInvalidArgument, nobody.try_recv());
  EXPECT_CODE(kInvalidArgument, nobody.try_stats());
  EXPECT_EQ(nobody.fd(), -1);
  nobody.close();
}

}  // namespace

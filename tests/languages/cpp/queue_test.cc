// Tests of queues: one process alone, other processes that join by the storage, waits that end, and
// members that die.
#include <poll.h>
#include <sys/time.h>

#include <csignal>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "kit.h"

namespace {

using kit::kPatience;
using kit::number_in;
using kit::numbered;
using kit::Steps;
using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<tenon::Queue> &&
              std::is_nothrow_move_constructible_v<tenon::Queue>);

void send_number(tenon::Queue& queue, float number) {
  queue.send(numbered(number), {.timeout = kPatience});
}

float receive_number(tenon::Queue& queue) { return number_in(queue.recv({.timeout = kPatience})); }

// The first queue starts what stays in the process: the service thread and the depot. The fixture
// starts them before it counts fds.
class Queues : public kit::Leaves {
 protected:
  void SetUp() override {
    tenon::Queue queue = tenon::Queue::make();
    send_number(queue, 1);
    EXPECT_EQ(receive_number(queue), 1.0F);
    queue.close();
    kit::Leaves::SetUp();
  }
  void TearDown() override {
    EXPECT_TRUE(tenon::test::wait_until([] { return tenon::lease_holders().empty(); }));
    kit::Leaves::TearDown();
  }
};

// In a forked child: joins the queue of the parent, and drops the copy of the parent's membership.
tenon::Queue join_inherited(tenon::Queue& inherited) {
  tenon::Queue queue = tenon::Queue::join(inherited.storage());
  inherited.close();
  return queue;
}

TEST_F(Queues, OneProcessSendsToItself) {
  tenon::Queue queue = tenon::Queue::make({.members = 2, .capacity = 8, .slot_nbytes = 2048});
  const tenon::Tensor weight = tenon::zeros<float>({8});
  queue.send(tenon::Message::of({{"x", weight}}));
  send_number(queue, 2);
  EXPECT_EQ(queue.stats().waiting, 2U);
  {
    const tenon::Message message = queue.recv({.timeout = kPatience});
    tenon::Tensor received = message["x"];
    received.view_mut<float>()[7] = 42;
  }
  EXPECT_EQ(weight.view<float>()[7], 42.0F);
  EXPECT_EQ(receive_number(queue), 2.0F);
  const tenon::QueueStats stats = queue.stats();
  EXPECT_EQ(stats.waiting, 0U);
  EXPECT_EQ(stats.sent, 2U);
  EXPECT_EQ(stats.received, 2U);
  EXPECT_EQ(stats.lost, 0U);
  send_number(queue, 3);
  EXPECT_EQ(queue.discard(), 1U);
  EXPECT_EQ(queue.stats().waiting, 0U);
}

TEST_F(Queues, AMessageThatWasNotReleasedComesAgain) {
  tenon::Queue queue = tenon::Queue::make({.members = 2, .redeliver = true});
  tenon::Queue other = tenon::Queue::join(queue.storage());
  send_number(queue, 1);
  const tenon::Message taken = other.recv({.timeout = kPatience});
  EXPECT_EQ(tenon::Queue::redelivered(taken), 0U);
  other.leave();
  tenon::Message again = queue.recv({.timeout = kPatience});
  EXPECT_EQ(tenon::Queue::redelivered(again), 1U);
  EXPECT_EQ(number_in(std::move(again)), 1.0F);
  EXPECT_EQ(queue.stats().waiting, 0U);
}

bool is_readable(int fd, int timeout_ms = 0) {
  pollfd poll{fd, POLLIN, 0};
  return ::poll(&poll, 1, timeout_ms) == 1;
}

TEST_F(Queues, AnFdIsReadableWhileThereMayBeAMessageOrRoom) {
  tenon::Queue queue = tenon::Queue::make({.members = 2, .capacity = 2});
  const int in = queue.recv_fd();
  const int room = queue.send_fd();
  const auto nothing = [&] {
    const auto result = queue.try_recv({.timeout = 0s});
    return !result && result.error().code() == tenon::Code::kWouldBlock;
  };
  EXPECT_TRUE(is_readable(in) && is_readable(room));
  EXPECT_TRUE(nothing());
  EXPECT_FALSE(is_readable(in));
  send_number(queue, 1);
  EXPECT_TRUE(is_readable(in, 10'000));
  send_number(queue, 2);
  EXPECT_FALSE(queue.try_send(numbered(3), {.timeout = 0s}));
  EXPECT_FALSE(is_readable(room));
  EXPECT_EQ(receive_number(queue), 1.0F);
  EXPECT_TRUE(is_readable(room, 10'000));
  EXPECT_EQ(receive_number(queue), 2.0F);
  EXPECT_TRUE(nothing());
  EXPECT_TRUE(queue.members()[0].asleep);
  queue.pause_fds();
  EXPECT_FALSE(queue.members()[0].asleep);
  EXPECT_TRUE(is_readable(in));
  queue.leave();
  EXPECT_FALSE(queue.try_recv_fd());
  EXPECT_FALSE(queue.try_send_fd());
}

TEST_F(Queues, SeveralMessagesInOneCall) {
  tenon::Queue queue = tenon::Queue::make({.members = 2, .capacity = 4});
  std::vector<tenon::Message> messages;
  for (int i = 0; i < 6; ++i) messages.push_back(numbered(static_cast<float>(i)));
  EXPECT_FALSE(queue.try_recv_many(3, {.timeout = 0s}));
  EXPECT_EQ(queue.send_many(messages, {.timeout = 0s}), 4U);
  EXPECT_FALSE(queue.try_send_many(messages, {.timeout = 0s}));
  const std::vector<tenon::Message> first = queue.recv_many(3, {.timeout = kPatience});
  EXPECT_EQ(queue.send_many(std::span(messages).subspan(4)), 2U);
  const std::vector<tenon::Message> others = queue.recv_many(99);
  ASSERT_EQ(first.size(), 3U);
  ASSERT_EQ(others.size(), 3U);
  EXPECT_EQ(number_in(first[2]), 2.0F);
  EXPECT_EQ(number_in(others[2]), 5.0F);
}

// A receiver remembers a sender that has ended until it meets another one. So a case in which this
// process receives from a child, or meets one that dies, runs in a process of its own.
bool exchange_with_a_child() {
  kit::Sockets sockets;
  tenon::Queue queue = tenon::Queue::make();
  kit::Child child([&] {
    Steps steps(sockets.keep_there());
    tenon::Queue own = join_inherited(queue);
    for (int i = 0; i < 10; ++i)
      if (receive_number(own) != static_cast<float>(i)) return false;
    send_number(own, 99);
    steps.tell();
    steps.await();  // the message needs its sender until it was received
    return own.stats().received == 10 && own.stats().sent == 1;
  });
  Steps steps(sockets.keep_here());
  for (int i = 0; i < 10; ++i) send_number(queue, static_cast<float>(i));
  steps.await();
  if (receive_number(queue) != 99.0F) return false;
  steps.tell();
  return child.wait() == 0;
}

TEST_F(Queues, AForkedChildJoinsTheInheritedStorage) {
  kit::Child apart(exchange_with_a_child);
  EXPECT_EQ(apart.wait(), 0);
}

// The child is forked before there is a queue, so it gets the storage as any other program does.
TEST_F(Queues, TheStorageTravelsInAMessage) {
  kit::Sockets sockets;
  kit::Child child([&] {
    Steps steps(sockets.keep_there());
    const tenon::Message message = steps.connection().recv({.timeout = kPatience});
    tenon::Queue queue = tenon::Queue::join(message["queue"].storage());
    const tenon::Message work = queue.recv({.timeout = kPatience});
    tenon::Tensor weight = work["x"];
    weight.view_mut<float>()[7] = 42;
    steps.tell();
    steps.await();
    return true;
  });
  Steps steps(sockets.keep_here());
  tenon::Queue queue = tenon::Queue::make();
  const tenon::Storage storage = queue.storage();
  const tenon::Tensor all = tenon::Tensor::over(
      storage, {static_cast<std::int64_t>(storage.nbytes())}, tenon::kDtypeOf<std::uint8_t>);
  steps.connection().send(tenon::Message::of({{"queue", all}}), {.timeout = kPatience});
  const tenon::Tensor weight = tenon::zeros<float>({8});
  queue.send(tenon::Message::of({{"x", weight}}));
  steps.await();
  EXPECT_EQ(weight.view<float>()[7], 42.0F);
  steps.tell();
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(Queues, AChildMayNotUseItsParentsMembership) {
  tenon::Queue queue = tenon::Queue::make();
  kit::Child child([&] {
    const tenon::Message message = tenon::Message::make();
    if (queue.try_send(message).code() != tenon::Code::kUnsupported) return false;
    if (queue.try_recv({.timeout = 0s}).code() != tenon::Code::kUnsupported) return false;
    queue.close();
    return true;
  });
  EXPECT_EQ(child.wait(), 0);
  send_number(queue, 1);
  EXPECT_EQ(receive_number(queue), 1.0F);
}

TEST_F(Queues, MembersAndLeaving) {
  tenon::Queue first = tenon::Queue::make({.members = 2});
  tenon::Queue second = tenon::Queue::join(first.storage());
  const tenon::Result<tenon::Queue> third = tenon::Queue::try_join(first.storage());
  ASSERT_EQ(third.code(), tenon::Code::kResourceExhausted);
  EXPECT_EQ(third.error().detail("limit"), "members");
  send_number(first, 1);
  const std::vector<tenon::QueueMember> members = second.members();
  ASSERT_EQ(members.size(), 2U);
  for (const tenon::QueueMember& member : members) {
    EXPECT_EQ(member.state, tenon::QueueMemberState::kHere);
    EXPECT_EQ(member.pid, getpid());
    EXPECT_EQ(member.uid, geteuid());
    EXPECT_FALSE(member.asleep);
    EXPECT_EQ(member.self, member.index == 1);
    EXPECT_EQ(member.waiting, member.index == 0 ? 1U : 0U);
  }
  EXPECT_EQ(receive_number(second), 1.0F);
  std::thread other([&] {
    EXPECT_TRUE(tenon::test::wait_until([&] { return first.members()[1].asleep; }));
    second.leave();
  });
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)second.recv({.timeout = kPatience}); });
  other.join();
  second.leave();
  EXPECT_CODE(kInvalidArgument, second.try_send(numbered(1)));
  EXPECT_EQ(first.members()[1].state, tenon::QueueMemberState::kLeft);
}

TEST_F(Queues, WrongArguments) {
  for (const tenon::QueueOptions& wrong :
       {tenon::QueueOptions{.members = 257}, tenon::QueueOptions{.capacity = 3},
        tenon::QueueOptions{.slot_nbytes = 65}})
    EXPECT_CODE(kInvalidArgument, tenon::Queue::try_make(wrong));
  tenon::Queue queue = tenon::Queue::make({.capacity = 4});
  EXPECT_CODE(kInvalidArgument, tenon::Queue::try_join(queue.storage(), {.capacity = 8}));
  EXPECT_CODE(kInvalidArgument, tenon::Queue::try_join(tenon::Storage()));
  const tenon::Result<tenon::Queue> none = tenon::Queue::try_join(tenon::Storage::make(9000));
  ASSERT_EQ(none.code(), tenon::Code::kCorrupt);
  EXPECT_EQ(none.error().detail("field"), "queue");
  EXPECT_CODE(kInvalidArgument, queue.try_send(tenon::Message()));
  EXPECT_CODE(kInvalidArgument, queue.try_recv({.timeout = -1ns}));
  tenon::Queue empty;
  EXPECT_CODE(kInvalidArgument, empty.try_send(tenon::Message::make()));
  EXPECT_CODE(kInvalidArgument, empty.try_recv());
  EXPECT_CODE(kInvalidArgument, empty.try_stats());
  EXPECT_CODE(kInvalidArgument, empty.try_members());
  EXPECT_FALSE(empty.storage());
  empty.leave();
  empty.close();
}

void on_queue_alarm(int) {}

TEST_F(Queues, WaitsEnd) {
  tenon::Queue queue = tenon::Queue::make({.capacity = 2});
  kit::thrown_by<tenon::WouldBlock>([&] { (void)queue.recv({.timeout = 0s}); });
  kit::thrown_by<tenon::Timeout>([&] { (void)queue.recv({.timeout = 1ms}); });
  const tenon::Cancel cancel = tenon::Cancel::make();
  std::thread other([&] { cancel.trigger(); });
  kit::thrown_by<tenon::Cancelled>([&] { (void)queue.recv({.cancel = &cancel}); });
  other.join();
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = on_queue_alarm;
  ASSERT_EQ(sigaction(SIGALRM, &action, &before), 0);
  // The alarm repeats, because an alarm before the wait begins does not end the wait.
  const itimerval every{{0, 5000}, {0, 5000}};
  const itimerval none{};
  setitimer(ITIMER_REAL, &every, nullptr);
  kit::thrown_by<tenon::Interrupted>(
      [&] { (void)queue.recv({.timeout = kPatience, .interruptible = true}); });
  setitimer(ITIMER_REAL, &none, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  // A send waits while as many messages as the capacity wait.
  send_number(queue, 1);
  send_number(queue, 2);
  const tenon::Message third = numbered(3);
  kit::thrown_by<tenon::WouldBlock>([&] { queue.send(third, {.timeout = 0s}); });
  kit::thrown_by<tenon::Timeout>([&] { queue.send(third, {.timeout = 1ms}); });
  EXPECT_EQ(receive_number(queue), 1.0F);
  queue.send(third);
  EXPECT_EQ(receive_number(queue), 2.0F);
  EXPECT_EQ(receive_number(queue), 3.0F);
}

TEST_F(Queues, TheOrderOfReleasesDoesNotMatter) {
  const tenon::Tensor weight = tenon::zeros<float>({8});
  tenon::Queue queue = tenon::Queue::make();
  tenon::Storage storage = queue.storage();
  tenon::Queue second = tenon::Queue::join(storage);
  storage.close();
  queue.send(tenon::Message::of({{"x", weight}}));
  tenon::Queue moved = std::move(queue);
  moved.close();
  moved.close();
  // The first member has left. Its message is still there, and outlives the queue.
  const tenon::Message message = second.recv({.timeout = kPatience});
  second.close();
  tenon::Tensor received = message["x"];
  received.view_mut<float>()[7] = 5;
  EXPECT_EQ(weight.view<float>()[7], 5.0F);
}

// Joins the inherited queue, takes one message, and waits for a signal that kills this process.
void receive_and_pause(kit::Sockets& sockets, tenon::Queue& queue) {
  Steps steps(sockets.keep_there());
  tenon::Queue own = join_inherited(queue);
  const tenon::Message message = own.recv({.timeout = kPatience});
  steps.tell();
  pause();
}

bool report_a_death(bool ignore_deaths) {
  kit::Sockets sockets;
  tenon::Queue queue = tenon::Queue::make({.ignore_deaths = ignore_deaths});
  kit::Child child([&] {
    receive_and_pause(sockets, queue);
    return false;
  });
  Steps steps(sockets.keep_here());
  send_number(queue, 1);
  steps.await();
  const std::string pid = std::to_string(child.pid());
  kill(child.pid(), SIGKILL);
  if (!WIFSIGNALED(child.wait())) return false;
  const auto is_dead = [&] { return queue.members()[1].state == tenon::QueueMemberState::kDead; };
  // A member begins to watch another one in the first call that follows the other's join.
  if (ignore_deaths) {
    if (queue.try_recv({.timeout = 1ms}).code() != tenon::Code::kTimeout) return false;
    if (!tenon::test::wait_until(is_dead)) return false;
  } else {
    const tenon::Result<tenon::Message> told = queue.try_recv({.timeout = kPatience});
    if (told.code() != tenon::Code::kPeerGone || told.error().detail("member") != "1" ||
        told.error().detail("pid") != pid || !is_dead())
      return false;
  }
  // The death is told at most once, and the queue goes on.
  if (queue.try_recv({.timeout = 1ms}).code() != tenon::Code::kTimeout) return false;
  send_number(queue, 2);
  return receive_number(queue) == 2.0F;
}

TEST_F(Queues, ADeathIsReportedOnceWithItsPid) {
  for (const bool ignore_deaths : {false, true}) {
    kit::Child apart([&] { return report_a_death(ignore_deaths); });
    EXPECT_EQ(apart.wait(), 0) << ignore_deaths;
  }
}

}  // namespace

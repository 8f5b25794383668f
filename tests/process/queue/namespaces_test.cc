// These tests put members of a queue into pid namespaces of their own. Members wake each other
// across namespaces, and each death is reported on both sides, although no process can name one of
// another namespace.
#include <sched.h>

#include <functional>

#include "process/queue/kit.h"
#include "support/own_mounts.h"

namespace queues {
namespace {

// A death is reported within this time, although the kernel reports it only by the queue's file.
constexpr int64_t kToldNs = (fault::kSanitized ? 20 : 2) * kSecond;

// A process in a pid namespace of its own, and its maker, which dies with it.
class Inside {
 public:
  // `body` gets the membership of the process. After `body` the process waits to be killed.
  Inside(tenon_queue* queue, const std::function<void(tenon_queue*)>& body)
      : ends_(fault::socket_ends()) {
    const std::array<int, 2> news = fault::socket_ends();
    maker_ = fault::spawn([&] {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (!tenon::test::enter_namespaces(CLONE_NEWPID))
        fault::skip(std::string("no pid namespace can be made: ") + std::strerror(errno));
      const pid_t pid = fork();
      REQUIRE(pid >= 0);
      if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        body(join_inherited(queue));
        if (fault::g_failures > 0) _exit(1);
        REQUIRE(::send(ends_[1], "", 1, 0) == 1);
        pause();
      }
      REQUIRE(::send(news[1], &pid, sizeof pid, 0) == sizeof pid);
      (void)fault::wait_for_child(pid);
    });
    close(news[1]);
    const bool is_there = ::recv(news[0], &pid_, sizeof pid_, 0) == sizeof pid_;
    close(news[0]);
    if (is_there) return;
    _exit(fault::wait_for_child(maker_) == fault::kSkip << 8 ? fault::kSkip : 1);
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() {
    kill();
    for (const int each : ends_) close(each);
  }
  // Waits until `body` has run.
  void await() const {
    char ready = 0;
    REQUIRE(::recv(ends_[0], &ready, 1, 0) == 1);
  }
  void kill() {
    if (maker_ < 0) return;
    ::kill(pid_, SIGKILL);
    fault::wait_for_child(std::exchange(maker_, -1));
  }

 private:
  std::array<int, 2> ends_;
  pid_t maker_ = -1;
  pid_t pid_ = 0;
};

// Each process of this test is the first of its namespace.
constexpr pid_t kPidInside = 1;

void check_told(tenon_queue* queue, pid_t pid) {
  const int64_t begin = now_ns();
  const Received death = try_receive(queue);
  CHECK_SAYING(death.is_death() && death.pid() == pid, death.outcome.text());
  CHECK(now_ns() - begin < kToldNs);
}

// Waits until a member sleeps in its receive.
void await_sleep(const Memory& memory, uint64_t member) {
  CHECK(fault::wait_until([&] { return (memory.receiver_asleep(member) & 1) != 0; }));
}

TEST(QueueNamespaces, MembersWakeEachOther) {
  IN_CHILD([] {
    warm_up_queue();
    tenon_queue* const there = new_queue(4, 4);
    tenon_queue* const back = new_queue(4, 4);
    Inside other(there, [&](tenon_queue* mine) {
      tenon_queue* const answers = join_inherited(back);
      for (uint64_t number = 1; number <= 100; ++number) {
        CHECK_EQ(receive_number(mine), number);
        await_sleep(Memory(answers), 0);
        send_number(answers, number);
      }
    });
    for (uint64_t number = 1; number <= 100 && fault::g_failures == 0; ++number) {
      await_sleep(Memory(there), 1);
      const int64_t begin = now_ns();
      send_number(there, number);
      CHECK_EQ(receive_number(back), number);
      CHECK(now_ns() - begin < kToldNs);
    }
    other.await();
  });
}

// The receiver sleeps when the other member dies.
TEST(QueueNamespaces, ADeathInsideIsTold) {
  IN_CHILD([] {
    warm_up_queue();
    tenon_queue* const queue = new_queue(4, 4);
    const Memory memory(queue);
    Inside other(queue, [](tenon_queue* mine) { send_number(mine, 1); });
    other.await();
    CHECK_EQ(receive_number(queue), 1);
    const pid_t killer = fault::spawn([&] {
      await_sleep(memory, 0);
      other.kill();
    });
    check_told(queue, kPidInside);
    CHECK_EQ(memory.member_state(1), kDead);
    // The death is reported once.
    CHECK_EQ(try_receive(queue, kSecond / 10).outcome.status, TENON_TIMEOUT);
    CHECK_EQ(fault::wait_for_child(killer), 0);
  });
}

TEST(QueueNamespaces, ADeathOutsideIsToldInside) {
  IN_CHILD([] {
    warm_up_queue();
    tenon_queue* const queue = new_queue(4, 4);
    auto near = std::make_unique<Witness>(queue);
    const pid_t pid = near->pid();
    Inside other(queue, [&](tenon_queue* mine) { check_told(mine, pid); });
    await_sleep(Memory(queue), 2);
    near.reset();
    other.await();
    CHECK_EQ(Memory(queue).member_state(0), kHere);
  });
}

// Both members are the first processes of their namespaces, so they have the same pid.
TEST(QueueNamespaces, TwoMembersWithOnePid) {
  IN_CHILD([] {
    warm_up_queue();
    tenon_queue* const queue = new_queue(4, 4);
    Inside first(queue, [](tenon_queue*) {});
    first.await();
    Inside second(queue, [](tenon_queue* mine) { check_told(mine, kPidInside); });
    await_sleep(Memory(queue), 2);
    first.kill();
    second.await();
    check_told(queue, kPidInside);
    CHECK_EQ(Memory(queue).member_state(2), kHere);
  });
}

// What the dead member took and did not fetch is lost, and is counted.
TEST(QueueNamespaces, TakenMessagesOfADeadMemberAreLost) {
  IN_CHILD([] {
    warm_up_queue();
    tenon_queue* const queue = new_queue(4, 4);
    const Memory memory(queue);
    Inside other(queue, [](tenon_queue* mine) { send_number(mine, 1); });
    CHECK_EQ(receive_number(queue), 1);
    send_number(queue, 2);
    // This is the state of a member that took the message and went no further.
    memory.slot(0, 0) = Memory::slot_word(0, kTaken, Memory::taker_of(1, 1));
    other.kill();
    check_told(queue, kPidInside);
    CHECK(fault::wait_until([&] { return stats_of(queue).lost == 1; }));
    check_nothing_lent("the sender");
  });
}

// A child of the member has the member's fds until it closes them, and outlives it.
TEST(QueueNamespaces, AForkedChildKeepsNobodyAlive) {
  IN_CHILD([] {
    warm_up_queue();
    tenon_queue* const queue = new_queue(4, 4);
    const std::array<int, 2> ends = fault::socket_ends();
    Inside other(queue, [&](tenon_queue* mine) {
      // The first process of a namespace takes all others with it, so its child is the member.
      const pid_t member = fault::spawn([&] {
        tenon_queue* const own = join_inherited(mine);
        REQUIRE(fault::spawn([] { pause(); }) > 0);
        send_number(own, 1);
        pause();
      });
      tenon_queue_leave(mine);
      char has_received = 0;
      REQUIRE(::recv(ends[1], &has_received, 1, 0) == 1);
      kill(member, SIGKILL);
    });
    CHECK_EQ(receive_number(queue), 1);
    REQUIRE(::send(ends[0], "", 1, 0) == 1);
    other.await();
    const Received death = try_receive(queue, kToldNs);
    CHECK_SAYING(death.is_death(), death.outcome.text());
    CHECK_EQ(Memory(queue).member_state(2), kDead);
  });
}

// Nobody saw the death, and the table of members is full.
TEST(QueueNamespaces, AJoinerTakesTheEntryOfADeadMember) {
  IN_CHILD([] {
    warm_up_queue();
    tenon_queue* const queue = new_queue(1, 4);
    tenon_storage* const storage = tenon_storage_retain(tenon_queue_storage(queue));
    tenon_queue_leave(queue);
    const Memory memory(queue);
    tenon_queue* out = nullptr;
    {
      Inside other(queue, [](tenon_queue*) {});
      other.await();
      CHECK_EQ(memory.member_state(0), kHere);
      const fault::Outcome full = CALL(tenon_queue_join(storage, nullptr, &out, err));
      CHECK_EQ(full.status, TENON_RESOURCE_EXHAUSTED);
    }
    REQUIRE_OK(tenon_queue_join(storage, nullptr, &out, err));
    CHECK_EQ(memory.member(0), Memory::member_word(static_cast<uint64_t>(getpid()), kHere, 3));
    tenon_queue_release(out);
    tenon_queue_release(queue);
    tenon_storage_release(storage);
  });
}

// Other processes close the file all the time, which says nothing about a member that lives.
TEST(QueueNamespaces, ALivingMemberIsNotTakenForADeadOne) {
  IN_CHILD([] {
    warm_up_queue();
    tenon_queue* const queue = new_queue(8, 4);
    Inside other(queue, [](tenon_queue* mine) { send_number(mine, 1); });
    CHECK_EQ(receive_number(queue), 1);
    for (int i = 0; i < 50; ++i) tenon_queue_release(join(queue));
    CHECK_EQ(try_receive(queue, kSecond / 10).outcome.status, TENON_TIMEOUT);
    CHECK_EQ(Memory(queue).member_state(1), kHere);
  });
}

}  // namespace
}  // namespace queues

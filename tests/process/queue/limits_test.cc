// These tests bring a process that uses a queue to its limits: fds, memory, forks, signals, a full
// table of members, and several threads over one membership.
#include <atomic>
#include <thread>

#include "process/queue/kit.h"

namespace queues {
namespace {

// A process whose life this test controls. It runs `body` and then waits to be killed.
class Other {
 public:
  explicit Other(const std::function<void()>& body) : ends_(fault::socket_ends()) {
    pid_ = fault::spawn([&] {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      body();
      if (fault::g_failures > 0) _exit(1);
      REQUIRE(::send(ends_[1], "", 1, 0) == 1);
      pause();
    });
  }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;
  ~Other() { end(); }
  // Waits until `body` has run.
  void await() const {
    char ready = 0;
    close(ends_[1]);
    REQUIRE(::recv(ends_[0], &ready, 1, 0) == 1);
  }
  void end() {
    if (pid_ < 0) return;
    kill(pid_, SIGKILL);
    fault::wait_for_child(std::exchange(pid_, -1));
    close(ends_[0]);
  }
  pid_t pid() const { return pid_; }

 private:
  std::array<int, 2> ends_;
  pid_t pid_ = -1;
};

void check_death(tenon_queue* queue, pid_t pid) {
  const Received death = try_receive(queue);
  CHECK_SAYING(death.is_death() && death.pid() == pid, death.outcome.text());
}

// ---- fds

// A receiver that has no free fd when a sender is new to it gets the message once it has one.
TEST(QueueLimits, NoFdsAtTheFirstMeeting) {
  IN_CHILD([] {
    warm_up_queue();
    tenon_queue* const queue = new_queue(4, 4);
    Other sender([&] { send_number(join_inherited(queue), 7); });
    sender.await();
    CHECK_EQ(try_send(queue, 1).status, TENON_OK);
    CHECK_EQ(stats_of(queue).waiting, 2);
    {
      const fault::Limit fds(RLIMIT_NOFILE, fault::fd_limit_with_room(0));
      // Its own message needs no fd.
      CHECK_EQ(receive_number(queue), 1);
      for (int i = 0; i < 3; ++i) {
        const Received none = try_receive(queue, kSecond / 10);
        CHECK_SAYING(none.outcome.status == TENON_RESOURCE_EXHAUSTED &&
                         none.outcome.detail("limit") == "RLIMIT_NOFILE",
                     none.outcome.text());
      }
    }
    CHECK_EQ(receive_number(queue), 7);
    const pid_t pid = sender.pid();
    sender.end();
    check_death(queue, pid);
    tenon_queue_release(queue);
  });
}

// A member without a free fd joins, and deaths are reported to it once it has one.
TEST(QueueLimits, NoFdsAtTheJoiner) {
  IN_CHILD([] {
    warm_up_queue();
    tenon_queue* const first = new_queue(4, 4);
    Other member([&] { (void)join_inherited(first); });
    member.await();
    tenon_queue* queue = nullptr;
    {
      const fault::Limit fds(RLIMIT_NOFILE, fault::fd_limit_with_room(0));
      // Another membership of this process would watch the member already.
      tenon_queue_release(join(first));
      queue = join(first);
      send_number(queue, 3);
      CHECK_EQ(receive_number(queue), 3);
    }
    const pid_t pid = member.pid();
    CHECK_EQ(try_receive(queue, 0).outcome.status, TENON_WOULD_BLOCK);
    member.end();
    check_death(queue, pid);
    check_death(first, pid);
    tenon_queue_release(queue);
    tenon_queue_release(first);
  });
}

// ---- memory

TEST(QueueLimits, NoAddressSpace) {
  SKIP_UNDER_SANITIZERS("their shadow memory is larger than the limit");
  IN_CHILD([] {
    warm_up_queue();
    tenon_queue* const queue = new_queue(2, 4);
    {
      const fault::Limit space(RLIMIT_AS, 0);
      tenon_queue* out = nullptr;
      CHECK_STATUS(TENON_RESOURCE_EXHAUSTED, tenon_queue_new(nullptr, &out, err));
    }
    tenon_queue* const second = join(queue);
    send_number(second, 1);
    CHECK_EQ(receive_number(queue), 1);
    tenon_queue_release(second);
    tenon_queue_release(queue);
  });
}

// What a member has of others ends with them: their sockets, their tokens and their memory.
TEST(QueueLimits, NothingOfTheDeadIsKept) {
  IN_CHILD([] {
    warm_up_queue();
    tenon_queue* const queue = new_queue(16, 4);
    const fault::Held before = fault::hold();
    for (const int n_others : {6, 12}) {
      std::vector<std::unique_ptr<Other>> others;
      for (int i = 0; i < n_others; ++i) {
        others.push_back(std::make_unique<Other>([&] { send_number(join_inherited(queue), 3); }));
        others.back()->await();
      }
      for (int i = 0; i < n_others; ++i) CHECK_EQ(receive_number(queue), 3);
      CHECK(fault::hold().fds > before.fds + 2 * n_others);
      others.clear();
      for (int i = 0; i < n_others; ++i) CHECK(try_receive(queue).is_death());
      CHECK(try_receive(queue, 0).outcome.status == TENON_WOULD_BLOCK);
      CHECK_HELD(before);
    }
    tenon_queue_release(queue);
  });
}

// ---- the table of members

// The places of the dead are taken again, also of those whose death nobody has noticed.
TEST(QueueLimits, AFullTableOfTheDead) {
  IN_CHILD([] {
    warm_up_queue();
    tenon_queue* const queue = new_queue(4, 4);
    for (int round = 0; round < 3; ++round) {
      std::vector<std::unique_ptr<Other>> others;
      for (int i = 0; i < 3; ++i) {
        others.push_back(std::make_unique<Other>([&] { (void)join_inherited(queue); }));
        others.back()->await();
      }
      tenon_queue* out = nullptr;
      CHECK_LIMIT("members", tenon_queue_join(tenon_queue_storage(queue), nullptr, &out, err));
      others.clear();
      // The first joiner finds the dead by itself.
      Other next([&] {
        tenon_queue* const mine = join_inherited(queue);
        // The joiner may be told of the deaths that it found.
        for (fault::Outcome sent; !(sent = try_send(mine, 40)).ok();) {
          if (!CHECK_SAYING(sent.status == TENON_PEER_GONE, sent.text())) break;
        }
      });
      next.await();
      uint64_t number = 0;
      int deaths = 0;
      while (number != 40 && fault::g_failures == 0) {
        const Received received = try_receive(queue);
        deaths += received.is_death() ? 1 : 0;
        CHECK_SAYING(received.outcome.ok() || received.is_death(), received.outcome.text());
        number = received.number;
      }
      const pid_t pid = next.pid();
      next.end();
      for (bool is_told = false; !is_told && fault::g_failures == 0;) {
        const Received death = try_receive(queue);
        CHECK_SAYING(death.is_death(), death.outcome.text());
        is_told = death.pid() == pid;
        ++deaths;
      }
      CHECK(deaths <= 4);
    }
    tenon_queue_release(queue);
  });
}

TEST(QueueLimits, AsManyMembersAsThereCanBe) {
  IN_CHILD([] {
    warm_up_queue();
    tenon_queue* const queue = new_queue(256, 2);
    std::vector<tenon_queue*> members;
    for (int i = 1; i < 256; ++i) members.push_back(join(queue));
    tenon_queue* out = nullptr;
    CHECK_LIMIT("members", tenon_queue_join(tenon_queue_storage(queue), nullptr, &out, err));
    for (uint64_t i = 0; i < members.size(); ++i) send_number(members[i], i + 1);
    std::set<uint64_t> numbers;
    for (size_t i = 0; i < members.size(); ++i) numbers.insert(receive_number(queue));
    CHECK_EQ(numbers.size(), 255);
    for (tenon_queue* each : members) tenon_queue_release(each);
    tenon_queue_release(queue);
  });
}

// ---- threads, forks and signals

constexpr uint64_t kEach = fault::kSanitized ? 100 : 400;

// Threads of one process send and receive over one membership, and each message comes once.
void exchange_by_threads(tenon_queue* queue, uint64_t first) {
  constexpr uint64_t kThreads = 3;
  std::array<std::atomic<int>, kThreads * kEach> got{};
  std::atomic<uint64_t> left{kThreads * kEach};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < kEach; ++i) send_number(queue, first + t * kEach + i);
    });
    threads.emplace_back([&] {
      while (left > 0) {
        const Received received = try_receive(queue, kSecond / 20);
        if (received.outcome.status == TENON_TIMEOUT) continue;
        if (!CHECK_SAYING(received.outcome.ok(), received.outcome.text())) return;
        if (CHECK(received.number >= first && received.number < first + got.size()))
          CHECK_EQ(got[received.number - first].fetch_add(1), 0);
        --left;
      }
    });
  }
  for (std::thread& each : threads) each.join();
}

TEST(QueueLimits, ThreadsOverOneMembership) {
  IN_CHILD([] {
    warm_up_queue();
    tenon_queue* const queue = new_queue(2, 8);
    exchange_by_threads(queue, 1);
    CHECK_EQ(stats_of(queue).received, 3 * kEach);
    check_nothing_lent("threads");
    tenon_queue_release(queue);
  });
}

// Threads of one process send and receive over one mapping, each with a membership of its own.
TEST(QueueLimits, ThreadsAsMembers) {
  IN_CHILD([] {
    warm_up_queue();
    tenon_queue* const sender = new_queue(3, 8);
    std::array<tenon_queue*, 2> receivers = {join(sender), join(sender)};
    std::atomic<uint64_t> left{kEach};
    std::vector<std::thread> threads;
    for (tenon_queue* each : receivers) {
      threads.emplace_back([&left, each] {
        uint64_t last = 0;
        while (left > 0) {
          const Received received = try_receive(each, kSecond / 20);
          if (received.outcome.status == TENON_TIMEOUT) continue;
          if (!CHECK_SAYING(received.outcome.ok(), received.outcome.text())) return;
          CHECK(received.number > last);
          last = received.number;
          --left;
        }
      });
    }
    for (uint64_t i = 1; i <= kEach; ++i) send_number(sender, i);
    for (std::thread& each : threads) each.join();
    for (tenon_queue* each : receivers) tenon_queue_release(each);
    tenon_queue_release(sender);
  });
}

// A process forks while its other threads are in the queue. The child joins again.
TEST(QueueLimits, AForkBesideThreads) {
  if (TENON_TEST_SANITIZED)
    GTEST_SKIP() << "a sanitizer's allocator has locks that a fork beside other threads can meet";
  IN_CHILD([] {
    warm_up_queue();
    tenon_queue* const queue = new_queue(4, 8);
    tenon_queue* const other = new_queue(3, 8);
    std::atomic<bool> stop{false};
    std::thread user([&] {
      for (uint64_t i = 1; !stop; ++i) {
        send_number(queue, i);
        CHECK_EQ(receive_number(queue), i);
      }
    });
    std::thread waiter([&] {
      while (!stop) CHECK_EQ(try_receive(other, kSecond / 100).outcome.status, TENON_TIMEOUT);
    });
    for (int i = 0; i < 20 && fault::g_failures == 0; ++i) {
      const pid_t child = fault::spawn([&] {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        tenon_message* out = nullptr;
        CHECK_STATUS(TENON_UNSUPPORTED, tenon_queue_recv(queue, nullptr, &out, err));
        tenon_queue_leave(queue);
        tenon_queue* const inner = new_queue(1, 2);
        send_number(inner, 4);
        CHECK_EQ(receive_number(inner), 4);
        tenon_queue_release(inner);
        tenon_queue* const mine = join_inherited(other);
        tenon_queue_release(mine);
        tenon_queue_release(queue);
      });
      CHECK_EQ(fault::wait_for_child(child), 0);
    }
    stop = true;
    user.join();
    waiter.join();
    tenon_queue_release(other);
    tenon_queue_release(queue);
  });
}

std::atomic<int> g_signals{0};

void on_signal(int) { g_signals.fetch_add(1); }

void catch_signals() {
  struct sigaction action{};
  action.sa_handler = on_signal;
  REQUIRE(sigaction(SIGUSR1, &action, nullptr) == 0);
}

// A signal ends an interruptible wait, and no other one.
TEST(QueueLimits, SignalsDuringWaits) {
  IN_CHILD([] {
    warm_up_queue();
    catch_signals();
    tenon_queue* const queue = new_queue(2, 2);
    const pthread_t self = pthread_self();
    std::atomic<bool> stop{false};
    std::thread signaller([&] {
      while (!stop) {
        pthread_kill(self, SIGUSR1);
        usleep(300);
      }
    });
    tenon_wait wait = wait_ns(kSecond / 10);
    tenon_message* out = nullptr;
    CHECK_STATUS(TENON_TIMEOUT, tenon_queue_recv(queue, &wait, &out, err));
    wait = wait_ns(kLong);
    wait.flags = TENON_WAIT_INTERRUPTIBLE;
    CHECK_STATUS(TENON_INTERRUPTED, tenon_queue_recv(queue, &wait, &out, err));
    send_number(queue, 1);
    send_number(queue, 2);
    tenon_message* const third = numbered(3);
    CHECK_STATUS(TENON_INTERRUPTED, tenon_queue_send(queue, third, &wait, err));
    wait = wait_ns(kSecond / 10);
    CHECK_STATUS(TENON_TIMEOUT, tenon_queue_send(queue, third, &wait, err));
    CHECK_EQ(receive_number(queue), 1);
    CHECK_EQ(receive_number(queue), 2);
    tenon_message_release(third);
    stop = true;
    signaller.join();
    CHECK(g_signals > 0);
    tenon_queue_release(queue);
  });
}

// Signals end the waits of one receiver, while another one waits without end. No message stays in
// the queue.
TEST(QueueLimits, NoMessageIsLostToASignal) {
  IN_CHILD([] {
    constexpr uint64_t kAll = fault::kSanitized ? 50 : 300;
    warm_up_queue();
    catch_signals();
    tenon_queue* const sender = new_queue(3, 4);
    tenon_queue* const patient = join(sender);
    tenon_queue* const restless = join(sender);
    std::atomic<uint64_t> received{0};
    std::atomic<bool> stop{false};
    std::atomic<bool> has_ended{false};
    std::thread first([&] {
      while (receive_number(patient) != 0) ++received;
    });
    std::thread second([&] {
      tenon_wait wait = wait_ns(kLong);
      wait.flags = TENON_WAIT_INTERRUPTIBLE;
      while (!stop) {
        tenon_message* out = nullptr;
        const fault::Outcome outcome = CALL(tenon_queue_recv(restless, &wait, &out, err));
        CHECK_SAYING(outcome.ok() || outcome.status == TENON_INTERRUPTED, outcome.text());
        if (!outcome.ok()) continue;
        CHECK(read_message(out).number != 0);
        ++received;
      }
      has_ended = true;
    });
    const pthread_t target = second.native_handle();
    for (uint64_t i = 1; i <= kAll && fault::g_failures == 0; ++i) {
      pthread_kill(target, SIGUSR1);
      send_number(sender, i);
      pthread_kill(target, SIGUSR1);
      CHECK_SAYING(fault::wait_until([&] { return received == i; }, std::chrono::seconds(2)),
                   "a message stays in the queue");
    }
    stop = true;
    // A signal that comes before the wait has begun ends nothing, so it is sent again.
    while (!has_ended) {
      pthread_kill(target, SIGUSR1);
      usleep(1'000);
    }
    second.join();
    send_number(sender, 0);
    first.join();
    for (tenon_queue* each : {restless, patient, sender}) tenon_queue_release(each);
  });
}

// Waits end by a clock that nobody sets. A deadline beyond the clock's end is no deadline.
TEST(QueueLimits, TheLongestTimeout) {
  IN_CHILD([] {
    warm_up_queue();
    tenon_queue* const queue = new_queue(2, 2);
    std::thread sender([queue] {
      usleep(30'000);
      send_number(queue, 8);
    });
    const Received received = try_receive(queue, INT64_MAX);
    CHECK_SAYING(received.outcome.ok() && received.number == 8, received.outcome.text());
    sender.join();
    tenon_queue_release(queue);
  });
}

}  // namespace
}  // namespace queues

// These tests kill either side of a lend with SIGKILL, at any moment and at every step. The other
// side keeps the memory that it holds, and its calls return an error. Nothing else is left behind.
#include <poll.h>

#include <chrono>
#include <random>

#include "process/fault/kit.h"
#include "process/fault/own_shm.h"
#include "support/die_with_parent.h"

namespace fault {
namespace {

constexpr uint64_t kKilledNbytes = 300000;

// Checks that no name is left in a /dev/shm of this process. In the shared one other tests make and
// remove names at the same time.
class NoNames {
 public:
  NoNames() : own_(has_own_shm()) {
    if (!own_)
      std::printf("  names in /dev/shm are not looked at: this user cannot have one of its own\n");
  }
  void check() const {
    DIR* folder = own_ ? opendir("/dev/shm") : nullptr;
    if (folder == nullptr) return;
    while (const dirent* entry = readdir(folder))
      CHECK_SAYING(entry->d_name[0] == '.' && std::strlen(entry->d_name) < 3, entry->d_name);
    closedir(folder);
  }

 private:
  const bool own_;
};

// Reports that a process has come to a step, and waits there until it is killed or told to go on.
// With fd -1 nobody listens, and the process does not wait.
struct Steps {
  int fd = -1;
  void at(unsigned char step) const {
    if (fd < 0) return;
    if (send(fd, &step, 1, MSG_NOSIGNAL) != 1) _exit(3);
    unsigned char go = 0;
    if (recv(fd, &go, 1, 0) != 1) _exit(3);
  }
};

constexpr unsigned char kLenderSteps = 8;
constexpr unsigned char kBorrowerSteps = 7;

// Lends a storage and waits until it comes back, over and over. Returns when the peer is gone.
void lend_steps(int socket, const Steps& steps, int rounds) {
  const Held before = hold();
  tenon_connection* connection = new_connection(socket);
  const tenon_wait wait = wait_ns(20'000'000'000);
  const auto peer_is_gone = [](const Outcome& outcome) {
    CHECK_SAYING(outcome.ok() || outcome.status == TENON_PEER_GONE, outcome.text());
    return !outcome.ok();
  };
  for (int i = 0; i < rounds; ++i) {
    const auto seed = static_cast<uint64_t>(i);
    steps.at(1);
    tenon_storage* storage =
        new_storage(kKilledNbytes, seed, kModes[i % 3], i % 2 == 0 ? TENON_STORAGE_ISOLATED : 0);
    steps.at(2);
    tenon_message* message = new_message({tenon_storage_retain(storage)});
    // Every third message is longer than a packet.
    tenon_message* large = i % 3 == 2 ? new_large_message(storage, 3000) : nullptr;
    steps.at(3);
    bool gone = peer_is_gone(CALL(tenon_send(connection, message, &wait, err)));
    steps.at(4);
    if (!gone && large != nullptr)
      gone = peer_is_gone(CALL(tenon_send(connection, large, &wait, err)));
    tenon_message_release(message);
    tenon_message_release(large);
    steps.at(5);
    tenon_message* back = nullptr;
    if (!gone) gone = peer_is_gone(CALL(tenon_recv(connection, &wait, &back, err)));
    steps.at(6);
    if (back != nullptr) {
      CHECK_EQ(tenon_message_count(back), 1);
      CHECK(has_pattern(tenon_tensor_data(tenon_message_tensor(back, 0)), 1000, seed + 500));
      steps.at(7);
    }
    tenon_message_release(back);
    CHECK(has_pattern(tenon_storage_data(storage), kKilledNbytes, seed));
    tenon_storage_release(storage);
    steps.at(8);
    if (gone) break;
  }
  tenon_connection_release(connection);
  Held wanted = before;
  wanted.fds -= 1;  // the socket, which the connection adopted
  CHECK_HELD(wanted);
}

void borrow(int socket, const Steps& steps) {
  const Held before = hold();
  tenon_connection* connection = new_connection(socket);
  const tenon_wait wait = wait_ns(20'000'000'000);
  tenon_message* kept = nullptr;
  uint64_t kept_seed = 0;
  for (uint64_t i = 0;; ++i) {
    steps.at(1);
    pollfd readable{socket, POLLIN, 0};
    (void)poll(&readable, 1, 20000);
    steps.at(2);
    tenon_message* message = nullptr;
    Outcome outcome = CALL(tenon_recv(connection, &wait, &message, err));
    steps.at(3);
    if (!outcome.ok()) {
      CHECK_SAYING(outcome.status == TENON_PEER_GONE, outcome.text());
      break;
    }
    const void* data = tenon_tensor_data(tenon_message_tensor(message, 0));
    CHECK(has_pattern(data, kKilledNbytes, i));
    steps.at(4);
    if (i % 3 == 2) {
      tenon_message* large = nullptr;
      outcome = CALL(tenon_recv(connection, &wait, &large, err));
      CHECK_SAYING(outcome.ok() || outcome.status == TENON_PEER_GONE, outcome.text());
      if (outcome.ok()) CHECK_EQ(tenon_message_count(large), 3000);
      tenon_message_release(large);
    }
    tenon_message_release(kept);
    kept = message;
    kept_seed = i;
    steps.at(5);
    tenon_message* back = new_message({new_storage(1000, i + 500)});
    steps.at(6);
    outcome = CALL(tenon_send(connection, back, &wait, err));
    tenon_message_release(back);
    CHECK_SAYING(outcome.ok() || outcome.status == TENON_PEER_GONE, outcome.text());
    steps.at(7);
    if (!outcome.ok()) break;
  }
  // The lender is gone, but its bytes are still there.
  if (kept != nullptr)
    CHECK(has_pattern(tenon_tensor_data(tenon_message_tensor(kept, 0)), kKilledNbytes, kept_seed));
  tenon_message_release(kept);
  tenon_connection_release(connection);
  Held wanted = before;
  wanted.fds -= 1;
  CHECK_HELD(wanted);
}

struct Family {
  pid_t lender = -1;
  pid_t borrower = -1;
  int lender_steps = -1;
  int borrower_steps = -1;
};

Family start(int type, bool step_lender, bool step_borrower, int rounds) {
  int ends[2];
  int lender_steps[2] = {-1, -1};
  int borrower_steps[2] = {-1, -1};
  REQUIRE(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) == 0);
  if (step_lender)
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, lender_steps) == 0);
  if (step_borrower)
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, borrower_steps) == 0);
  Family family;
  const auto close_these = [](std::initializer_list<int> fds) {
    for (const int fd : fds) {
      if (fd >= 0) close(fd);
    }
  };
  const pid_t parent = getpid();
  family.lender = spawn([&] {
    tenon::test::die_with_parent(parent);
    close_these({ends[1], lender_steps[0], borrower_steps[0], borrower_steps[1]});
    lend_steps(ends[0], {lender_steps[1]}, rounds);
  });
  family.borrower = spawn([&] {
    tenon::test::die_with_parent(parent);
    close_these({ends[0], lender_steps[0], lender_steps[1], borrower_steps[0]});
    borrow(ends[1], {borrower_steps[1]});
  });
  close_these({ends[0], ends[1], lender_steps[1], borrower_steps[1]});
  family.lender_steps = lender_steps[0];
  family.borrower_steps = borrower_steps[0];
  return family;
}

using Clock = std::chrono::steady_clock;

// Kills one process, and wants the other one to end in order. Returns the seconds that this took.
double kill_and_join(const Family& family, bool kill_lender, const std::string& where) {
  const auto begin = Clock::now();
  const pid_t victim = kill_lender ? family.lender : family.borrower;
  const pid_t survivor = kill_lender ? family.borrower : family.lender;
  REQUIRE(kill(victim, SIGKILL) == 0);
  const int of_victim = wait_for_child(victim);
  const int of_survivor = wait_for_child(survivor);
  CHECK_SAYING((WIFSIGNALED(of_victim) && WTERMSIG(of_victim) == SIGKILL) || of_victim == 0,
               where + ": victim: " + describe_status(of_victim));
  CHECK_SAYING(of_survivor == 0, where + ": survivor: " + describe_status(of_survivor));
  CHECK(kill(victim, 0) != 0 && kill(survivor, 0) != 0);
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

TEST(Kill, AtRandomMoments) {
  IN_CHILD([] {
    const unsigned seed = 20261121;
    std::printf("  seed %u\n", seed);
    std::mt19937 random(seed);
    const NoNames names;
    const long fds = count_open_fds();
    double longest = 0;
    const int rounds = TENON_TEST_SANITIZED ? 60 : 300;
    for (int round = 0; round < rounds; ++round) {
      const Family family = start(kSocketTypes[round % 2], false, false, 1000000);
      const unsigned delay_us = static_cast<unsigned>(random() % 12000);
      const bool kill_lender = random() % 2 == 0;
      usleep(delay_us);
      const std::string where = "round " + std::to_string(round) + ", the " +
                                (kill_lender ? "lender" : "borrower") + " after " +
                                std::to_string(delay_us) + " us";
      longest = std::max(longest, kill_and_join(family, kill_lender, where));
      if (g_failures > 10) break;
    }
    std::printf("  the longest goodbye took %.3f s\n", longest);
    CHECK(longest < 10.0 || TENON_TEST_SANITIZED);
    names.check();
    CHECK_EQ(count_open_fds(), fds);
  });
}

TEST(Kill, AtEveryStep) {
  IN_CHILD([] {
    const NoNames names;
    for (const int type : kSocketTypes) {
      for (const bool kill_lender : {true, false}) {
        for (int lap = 0; lap < 3; ++lap) {
          for (unsigned char step = 1; step <= (kill_lender ? kLenderSteps : kBorrowerSteps);
               ++step) {
            const Family family = start(type, kill_lender, !kill_lender, 1000000);
            const int steps = kill_lender ? family.lender_steps : family.borrower_steps;
            int seen = 0;
            for (;;) {
              unsigned char here = 0;
              REQUIRE(recv(steps, &here, 1, 0) == 1);
              if (here == step && seen++ == lap) break;
              REQUIRE(send(steps, "", 1, MSG_NOSIGNAL) == 1);
            }
            kill_and_join(family, kill_lender,
                          std::string(kill_lender ? "lender" : "borrower") + " at step " +
                              std::to_string(step) + " of lap " + std::to_string(lap));
            close(steps);
          }
        }
      }
    }
    names.check();
  });
}

// The memory of a dead process is returned to the system. A leak would show in the machine's total.
TEST(Kill, MemoryComesBack) {
  IN_CHILD([] {
    const auto shmem_kib = [] {
      std::ifstream file("/proc/meminfo");
      std::string key;
      long value = 0;
      std::string rest;
      while (file >> key >> value && std::getline(file, rest)) {
        if (key == "Shmem:") return value;
      }
      return -1L;
    };
    const auto lend_and_kill = [&] {
      for (int round = 0; round < 60; ++round) {
        int ends[2];
        REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
        const pid_t lender = spawn([&] {
          close(ends[1]);
          tenon_connection* connection = new_connection(ends[0]);
          const tenon_storage_options options =
              storage_options(TENON_MODE_SHARED, TENON_STORAGE_ISOLATED);
          tenon_storage* storage = nullptr;
          REQUIRE_OK(tenon_storage_new(&options, 16 << 20, &storage, err));
          REQUIRE_OK(tenon_storage_write(storage, 0, "still here", 10, err));
          tenon_message* message = new_message({storage});
          REQUIRE_OK(tenon_send(connection, message, nullptr, err));
          pause();
        });
        close(ends[0]);
        // Nobody receives this message. It is in the socket when its sender dies, and is freed with
        // the socket.
        pollfd readable{ends[1], POLLIN, 0};
        REQUIRE(poll(&readable, 1, 30000) == 1);
        REQUIRE(kill(lender, SIGKILL) == 0);
        wait_for_child(lender);
        if (round % 2 == 0) {
          tenon_connection* connection = new_connection(ends[1]);
          tenon_message* message = nullptr;
          REQUIRE_OK(tenon_recv(connection, nullptr, &message, err));
          CHECK(std::memcmp(tenon_tensor_data(tenon_message_tensor(message, 0)), "still here",
                            10) == 0);
          tenon_message_release(message);
          CHECK_STATUS(TENON_PEER_GONE, tenon_recv(connection, nullptr, &message, err));
          tenon_connection_release(connection);
        } else {
          close(ends[1]);
        }
      }
    };
    // Each time 960 MiB are lent. The kernel counts all shared memory together, and other processes
    // make some meanwhile. So one check that finds more than half freed is enough. Memory that
    // another process keeps is part of the next `before`. Memory that leaks here is not.
    long left = 0;
    for (int time = 0; time < 3; ++time) {
      const long before = shmem_kib();
      lend_and_kill();
      for (int look = 0; look < 100; ++look, usleep(50000)) {
        left = shmem_kib() - before;
        if (left < 400 * 1024) break;
      }
      if (left < 400 * 1024) break;
    }
    CHECK_SAYING(left < 400 * 1024, std::to_string(left) + " KiB of shared memory are left");
  });
}

}  // namespace
}  // namespace fault

// These tests run a process that wants no service thread: it polls an fd and calls
// tenon_lease_poll.
#include "process/lease/agent.h"

namespace leases {
namespace {

// Whether another thread of this process blocks all signals, as the service thread does.
bool blocks_all_signals() {
  DIR* folder = opendir("/proc/self/task");
  REQUIRE(folder != nullptr);
  bool found = false;
  while (const dirent* entry = readdir(folder)) {
    const int id = std::atoi(entry->d_name);
    if (id == 0 || id == getpid()) continue;
    std::ifstream file(std::string("/proc/self/task/") + entry->d_name + "/status");
    for (std::string line; std::getline(file, line);) {
      // This mask has all signals that can be blocked: all but SIGKILL, SIGSTOP and two signals of
      // the C library.
      if (line.starts_with("SigBlk:"))
        found = found || line.find("fffffffe7ffbfeff") != std::string::npos;
    }
  }
  closedir(folder);
  return found;
}

int service_fd() {
  int32_t fd = -1;
  REQUIRE_OK(tenon_lease_fd(&fd, err));
  return fd;
}

bool readable(int fd, int timeout_ms) {
  pollfd polled{fd, POLLIN, 0};
  return poll(&polled, 1, timeout_ms) == 1;
}

struct LenderWithoutThread {
  tenon_arena* arena;
  Agent borrower;
  Link link;
  int message;
  explicit LenderWithoutThread() : arena(start()), link(&borrower), message(lend_one()) {}
  LenderWithoutThread(const LenderWithoutThread&) = delete;
  LenderWithoutThread& operator=(const LenderWithoutThread&) = delete;
  ~LenderWithoutThread() {
    CHECK_SAYING(TENON_TEST_TSAN || count_threads() == 1, std::to_string(count_threads()));
    tenon_arena_release(arena);
  }
  static tenon_arena* start() {
    REQUIRE_OK(tenon_lease_use_no_thread(err));
    REQUIRE_OK(tenon_lease_use_no_thread(err));
    return new_arena(kMiB);
  }
  int lend_one() {
    lend_new(link.here, arena, kMiB, 5);
    return borrower.receive(link.there).object;
  }
};

TEST(NoThread, TheFdTellsOfADeath) {
  IN_CHILD([] {
    LenderWithoutThread served;
    const int fd = service_fd();
    // The borrower rang once when its connection began.
    for (int i = 0; i < 100 && readable(fd, 0); ++i) CHECK_OK(tenon_lease_poll(err));
    CHECK(!readable(fd, 20));
    served.borrower.kill();
    CHECK(readable(fd, kPatienceMs));
    CHECK(wait_until([] {
      CHECK_OK(tenon_lease_poll(err));
      return leases_standing() == 0;
    }));
    CHECK_COMES_BACK(served.arena, kMiB);
    CHECK(!readable(fd, 20));
  });
}

TEST(NoThread, AWaitServesItself) {
  IN_CHILD([] {
    LenderWithoutThread served;
    tenon_storage* storage = nullptr;
    const Outcome outcome = try_new(served.arena, kMiB, &storage, 50 * kMs);
    CHECK_SAYING(outcome.status == TENON_TIMEOUT, outcome.text());
    served.borrower.release(served.message);
    CHECK_COMES_BACK(served.arena, kMiB);
  });
}

TEST(NoThread, AWaitIsEndedByADeath) {
  IN_CHILD([] {
    LenderWithoutThread served;
    const pid_t killer = fault::spawn([pid = served.borrower.pid()] {
      usleep(100'000);
      ::kill(pid, SIGKILL);
    });
    CHECK_COMES_BACK(served.arena, kMiB);
    CHECK_EQ(fault::wait_for_child(killer), 0);
    served.borrower.kill();
  });
}

// A forked child also has no thread, and has a service fd of its own.
TEST(NoThread, AChildOfFork) {
  IN_CHILD([] {
    LenderWithoutThread served;
    const pid_t child = fault::spawn([] {
      const Arena arena(kMiB);
      Agent borrower;
      const Link link(&borrower);
      lend_new(link.here, arena, kMiB, 6);
      REQUIRE(borrower.receive(link.there).ok());
      borrower.kill();
      CHECK(readable(service_fd(), kPatienceMs));
      CHECK_OK(tenon_lease_poll(err));
      CHECK_COMES_BACK(arena, kMiB);
    });
    CHECK_EQ(fault::wait_for_child(child), 0);
    CHECK(served.borrower.shows(served.message, 5));
    served.borrower.kill();
    CHECK_COMES_BACK(served.arena, kMiB);
  });
}

TEST(NoThread, TooLate) {
  IN_CHILD([] {
    int32_t fd = -7;
    CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_lease_fd(&fd, err));
    CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_lease_poll(err));
    CHECK_EQ(fd, -7);
    CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_lease_fd(nullptr, err));
    const Arena arena(kMiB);
    fault::Pair pair(SOCK_STREAM);
    tenon_storage* storage = new_in(arena, kMiB, 5);
    lend(pair.left, {storage});
    CHECK_STATUS(TENON_INVALID_ARGUMENT, tenon_lease_use_no_thread(err));
    tenon_storage_release(storage);
  });
}

// The service thread starts with the first lend and not before. It takes no signals.
TEST(Thread, StartsWithTheFirstLend) {
  IN_CHILD([] {
    if (TENON_TEST_TSAN) {  // TSan starts a thread beside the first one, and that thread stays
      std::thread([] {}).join();
      usleep(200'000);
    }
    const long before = count_threads();
    const Arena arena(kMiB);
    fault::Pair pair(SOCK_STREAM);
    tenon_storage* storage = new_in(arena, kMiB, 5);
    CHECK_EQ(count_threads(), before);
    lend(pair.left, {storage});
    CHECK_EQ(count_threads(), before + 1);
    // While the thread starts, even more signals are blocked.
    CHECK(wait_until([] { return blocks_all_signals() || TENON_TEST_TSAN; }));
    tenon_storage_release(storage);
  });
}

}  // namespace
}  // namespace leases

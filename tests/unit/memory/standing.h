// These helpers make threads stop where a test wants them: in front of a lock, in a wait, or in the
// middle of a fork. The tests of ledgers and arenas use them.
#pragma once

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <semaphore>
#include <string>
#include <thread>

#include "base/fork.h"
#include "support/wait_until.h"
#include "unit/os/surroundings.h"

namespace tenon::test {

// Runs the body in a process of its own, because the library's thread and the effects of fork last
// as long as their process. The test fails if the body fails, hangs or crashes.
inline void in_child(const std::function<void()>& body) {
  std::fflush(nullptr);
  ForkChild child([&](int) {
    body();
    std::fflush(nullptr);
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  });
  EXPECT_EQ(child.reap(), 0);
}

inline pid_t thread_id() { return static_cast<pid_t>(::syscall(SYS_gettid)); }

// A thread that tells other threads its id. Its body must not end before falls_asleep() has
// returned.
class Told {
 public:
  void tell() { id_ = thread_id(); }
  // Waits until the thread sleeps and stays asleep, in front of a lock that another thread holds or
  // in a wait. Returns false if the thread does not sleep within 20 s.
  bool falls_asleep() const {
    int looks = 0;
    for (int i = 0; i < 20'000 && looks < 10; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      looks = sleeps() ? looks + 1 : 0;
    }
    return looks == 10;
  }

 private:
  bool sleeps() const {
    if (id_ == 0) return false;
    std::ifstream file("/proc/self/task/" + std::to_string(id_) + "/stat");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const size_t name_end = text.rfind(')');
    return name_end != std::string::npos && name_end + 2 < text.size() && text[name_end + 2] == 'S';
  }
  std::atomic<pid_t> id_{0};
};

// Stops a fork while the gate is closed. The forking thread then holds the locks of all ranks up to
// the gate's rank. A process makes at most one gate.
class ForkGate {
 public:
  // The gate must be made after the static initialisers, so that fork comes to it after the locks
  // of the same rank. It must be made before the first fork that it is to stop.
  explicit ForkGate(LockRank rank) {
    if (place() == nullptr)
      register_fork_hooks(rank, {[]() noexcept { pass(); }, []() noexcept {}, []() noexcept {}});
    place() = this;
  }
  ForkGate(const ForkGate&) = delete;
  ForkGate& operator=(const ForkGate&) = delete;
  ~ForkGate() { place() = nullptr; }
  void await() { reached_.acquire(); }
  void open() { open_.release(); }

 private:
  static ForkGate*& place() {
    static ForkGate* the_one = nullptr;
    return the_one;
  }
  static void pass() noexcept {
    if (place() == nullptr) return;
    place()->reached_.release();
    place()->open_.acquire();
  }
  std::binary_semaphore reached_{0};
  std::binary_semaphore open_{0};
};

// Forks a child that does nothing. Returns false if the child crashed, or hung in the work that
// fork itself does in a child.
inline bool forks_well() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  int how = 0;
  for (int i = 0; i < 10'000; ++i) {
    const pid_t ended = ::waitpid(child, &how, WNOHANG);
    if (ended == child) return WIFEXITED(how) && WEXITSTATUS(how) == 0;
    if (ended < 0 && errno != EINTR) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ::kill(child, SIGKILL);
  (void)::waitpid(child, &how, 0);
  return false;
}

}  // namespace tenon::test

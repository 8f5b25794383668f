// Threads that stand still where a test wants them: in front of a lock, in a wait, in the middle of
// a fork.
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
#include "unit/os/surroundings.h"

namespace tenon::test {

// Each in a process of its own: what the library's thread and fork leave lasts as long as the
// process. -1: it hung, or crashed.
inline void in_child(const std::function<void()>& body) {
  std::fflush(nullptr);
  ForkChild child([&](int) {
    body();
    std::fflush(nullptr);
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  });
  EXPECT_EQ(child.reap(), 0);
}

// Returns whether the condition comes true. Only a failure takes the whole 20 s.
template <typename Condition>
bool soon(Condition&& condition) {
  for (int i = 0; i < 20'000 && !condition(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return condition();
}

inline pid_t thread_id() { return static_cast<pid_t>(::syscall(SYS_gettid)); }

// A thread that tells others who it is. The body must not end before is_asleep() is over.
class Told {
 public:
  void tell() { id_ = thread_id(); }
  // Until it sleeps and goes on sleeping: in front of a lock that another holds, or in a wait.
  // False: it does not come to that.
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

// One in the program. A fork stands still in it, with the locks of the ranks up to its own, when it
// is closed.
class ForkGate {
 public:
  // After the static initialisers, so that it comes behind the locks of the same rank. Before the
  // first fork that it is for.
  explicit ForkGate(int rank) {
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

// A child that does nothing. False: it hung in what fork itself does there, or crashed.
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

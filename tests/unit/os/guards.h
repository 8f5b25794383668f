// The tests of waits and sockets use these guards: a watchdog, a check for leaked fds, and a storm
// of signals.
#pragma once

#include <dirent.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <string>

#include "base/status.h"
#include "support/open_fds.h"
#include "support/wait_until.h"

namespace tenon::test {

// Ends the process if a test hangs, and fails a test that leaks fds.
class Guarded : public ::testing::Test {
 protected:
  void SetUp() override {
    ::alarm(60);
    fds_before_ = count_open_fds();
    ASSERT_GT(fds_before_, 0);
  }
  // A test keeps its fds in local variables, which are destroyed before this function runs.
  void TearDown() override {
    // A thread of the library closes fds that other processes made. It may have to wait on a busy
    // machine.
    (void)wait_until([this] { return count_open_fds() == fds_before_; });
    EXPECT_EQ(count_open_fds(), fds_before_) << "fds leaked";
    ::alarm(0);
  }

 private:
  long fds_before_ = 0;
};

// Sends SIGUSR1 to the thread that made the object, every `period_ns`. The handler counts the
// signals, and may do one thing more. The handler is installed without SA_RESTART, so that every
// system call is interrupted.
class SignalStorm {
 public:
  explicit SignalStorm(long period_ns, void (*also)() = nullptr) {
    hits() = 0;
    action() = also;
    struct sigaction handler{};
    handler.sa_handler = [](int) {
      ++hits();
      if (void (*also_now)() = action(); also_now != nullptr) also_now();
    };
    ::sigaction(SIGUSR1, &handler, &before_);
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGUSR1;
    event._sigev_un._tid = static_cast<pid_t>(::syscall(SYS_gettid));
    if (::timer_create(CLOCK_MONOTONIC, &event, &timer_) != 0) std::abort();
    const itimerspec times{{0, period_ns}, {0, period_ns}};
    if (::timer_settime(timer_, 0, &times, nullptr) != 0) std::abort();
  }
  SignalStorm(const SignalStorm&) = delete;
  SignalStorm& operator=(const SignalStorm&) = delete;
  ~SignalStorm() {
    ::timer_delete(timer_);
    ::sigaction(SIGUSR1, &before_, nullptr);
  }
  static std::atomic<int>& hits() {
    static std::atomic<int> count{0};
    return count;
  }

 private:
  static std::atomic<void (*)()>& action() {
    static std::atomic<void (*)()> also{nullptr};
    return also;
  }
  timer_t timer_{};
  struct sigaction before_{};
};

}  // namespace tenon::test

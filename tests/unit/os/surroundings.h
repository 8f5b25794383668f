// The tests of files and processes use these objects: a directory, a child process and a lowered
// limit. Each is removed or restored when its object is destroyed.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include "os/fd.h"
#include "support/child_status.h"
#include "support/temporary_directory.h"

namespace tenon::test {

// A directory in shared memory. The test fails if it cannot be removed.
class ScratchFolder : public TemporaryDirectory {
 public:
  ScratchFolder() : TemporaryDirectory("/dev/shm/tenon-unit-") {}
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() { EXPECT_TRUE(remove()); }
};

// Makes the process unable to open any fd while the object lives.
class NoFdLeft {
 public:
  NoFdLeft() {
    if (::getrlimit(RLIMIT_NOFILE, &before_) != 0) std::abort();
    const os::Fd next(::dup(0));
    const rlimit none{static_cast<rlim_t>(next.get()), before_.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &none) != 0) std::abort();
    limit_ = std::to_string(next.get());
  }
  NoFdLeft(const NoFdLeft&) = delete;
  NoFdLeft& operator=(const NoFdLeft&) = delete;
  ~NoFdLeft() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  const std::string& limit() const { return limit_; }

 private:
  rlimit before_{};
  std::string limit_;
};

// Forks a child that runs `body`. The child is killed when the object is destroyed, if it has not
// ended before. The child calls say_ready() when the parent may go on.
class ForkChild {
 public:
  // `body` gets the fd on which the child reports that it is ready, either by one byte or by
  // closing the fd in an exec.
  explicit ForkChild(const std::function<void(int ready)>& body) {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
    ready_ = os::Fd(ends[0]);
    const os::Fd writer(ends[1]);
    pid_ = ::fork();
    if (pid_ < 0) std::abort();
    if (pid_ == 0) {
      ::alarm(60);
      ready_.reset();
      body(writer.get());
      ::_exit(0);
    }
  }
  ForkChild(const ForkChild&) = delete;
  ForkChild& operator=(const ForkChild&) = delete;
  ~ForkChild() { end(); }
  pid_t pid() const { return pid_; }
  void await_ready() {
    char byte = 0;
    ASSERT_GE(::read(ready_.get(), &byte, 1), 0);
  }
  void kill() const { ::kill(pid_, SIGKILL); }
  void end() {
    if (pid_ == 0) return;
    kill();
    reap();
  }
  // Waits for the child. Returns its exit status, or -1 if a signal ended it.
  int reap() {
    const int how = wait_for_child(std::exchange(pid_, 0));
    return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
  }

 private:
  pid_t pid_ = 0;
  os::Fd ready_;
};

inline void say_ready(int fd) {
  if (::write(fd, "x", 1) != 1) ::_exit(70);
}

inline int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace tenon::test

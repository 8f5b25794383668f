// A process that is traced, so that a test can kill it at any system call or instruction.
#pragma once

#include <sys/prctl.h>
#include <sys/ptrace.h>

#include <cerrno>
#include <csignal>
#include <cstdint>

#include "process/fault/kit.h"

namespace storm {

// The number of victims that were killed.
inline uint64_t g_kills = 0;

// Runs one step under ptrace. The process stops itself before the step and after it.
class Victim {
 public:
  // `prepare` is not traced, `run` is. Both are called in a child of fork.
  template <typename Prepare, typename Run>
  Victim(const char *name, Prepare &&prepare, Run &&run) {
    pid_ = fault::spawn([&] {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      prepare();
      REQUIRE(ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0);
      raise(SIGSTOP);
      run();
      raise(SIGSTOP);
      _exit(fault::g_failures == 0 ? 0 : 1);
    });
    REQUIRE(pid_ > 0);
    running_ = wait_for_stop() == SIGSTOP;
    CHECK_SAYING(running_, name);
    if (running_)
      REQUIRE(ptrace(PTRACE_SETOPTIONS, pid_, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) ==
              0);
  }
  Victim(const Victim &) = delete;
  Victim &operator=(const Victim &) = delete;
  ~Victim() { kill(); }

  // On to the next start or end of a system call. False: the step is over.
  bool to_next_call() { return advance(PTRACE_SYSCALL, SIGTRAP | 0x80); }
  bool to_next_instruction() { return advance(PTRACE_SINGLESTEP, SIGTRAP); }

  void kill() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, __WALL) != pid_ && errno == EINTR) {
    }
    pid_ = -1;
    ++g_kills;
  }
  // A victim must not have failed on its own.
  bool went_well() const { return good_; }

 private:
  bool advance(__ptrace_request how, int stop) {
    int signal = 0;
    while (running_) {
      if (ptrace(how, pid_, nullptr, signal) != 0) break;
      const int got = wait_for_stop();
      if (got == stop) return true;
      // The step or its process ended.
      if (got == SIGSTOP || got < 0) break;
      // A change between the two ways of going on gives a trap of the other kind. Any other signal
      // is the victim's own.
      signal = (got & 0x7f) == SIGTRAP ? 0 : got;
    }
    running_ = false;
    return false;
  }
  int wait_for_stop() {
    int status = 0;
    while (waitpid(pid_, &status, __WALL) < 0 && errno == EINTR) {
    }
    if (WIFSTOPPED(status)) return WSTOPSIG(status);
    good_ = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    CHECK_SAYING(good_, fault::describe_status(status));
    pid_ = -1;
    return -1;
  }

  pid_t pid_ = -1;
  bool running_ = false;
  bool good_ = true;
};

}  // namespace storm

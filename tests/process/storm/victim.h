// A process that is traced, so that a test can kill it at any system call or instruction.
#pragma once

#include <sys/prctl.h>
#include <sys/ptrace.h>

#include <sys/user.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
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

  // The address of the next instruction. 0: the step is over, or the machine is no x86-64.
  uint64_t instruction() const {
#if defined(__x86_64__)
    return running_ ? registers().rip : 0;
#else
    return 0;
#endif
  }
  // On to before the instruction at that address, when a register points to `object`. False: the
  // step is over, or this machine has no breakpoints.
  bool to_instruction(uint64_t address, const volatile void *object) {
    // Register 7 turns register 0 on, for instructions.
    if (!set_debug_register(0, address) || !set_debug_register(7, 1)) return false;
    do {
      if (!advance(PTRACE_CONT, SIGTRAP)) return false;
    } while (!is_in_register(reinterpret_cast<uint64_t>(object)));
    return true;
  }

  // Watches 4 bytes at an address, which is the same in the victim: to_next_store() is on to the
  // instruction behind the next store there. False: this machine has no watchpoints.
  bool watch(const volatile void *address) {
    // Register 7 turns register 0 on, for stores (1) of 4 bytes (3).
    return set_debug_register(0, reinterpret_cast<uint64_t>(address)) &&
           set_debug_register(7, 1U | 1U << 16 | 3U << 18);
  }
  void watch_nothing() { (void)set_debug_register(7, 0); }
  bool to_next_store() { return advance(PTRACE_CONT, SIGTRAP); }

  void kill() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, __WALL) != pid_ && errno == EINTR) {
    }
    pid_ = -1;
    ++g_kills;
  }
  // Stops the whole process with SIGSTOP, and traces it no longer. SIGCONT lets it go on. When the
  // step is over, the process stops itself once more.
  void stop() {
    watch_nothing();
    REQUIRE(running_ && ptrace(PTRACE_DETACH, pid_, nullptr, SIGSTOP) == 0);
    running_ = false;
    await_stop();
  }
  // Lets a stopped process finish its step.
  void finish_step() {
    ::kill(pid_, SIGCONT);
    await_stop();
  }
  pid_t pid() const { return pid_; }
  // A victim must not have failed on its own.
  bool went_well() const { return good_; }

 private:
#if defined(__x86_64__)
  user_regs_struct registers() const {
    user_regs_struct all{};
    REQUIRE(ptrace(PTRACE_GETREGS, pid_, nullptr, &all) == 0);
    return all;
  }
#endif
  bool is_in_register([[maybe_unused]] uint64_t value) const {
#if defined(__x86_64__)
    const user_regs_struct all = registers();
    for (const uint64_t each :
         {all.rax, all.rbx, all.rcx, all.rdx, all.rsi, all.rdi, all.rbp, all.r8, all.r9, all.r10,
          all.r11, all.r12, all.r13, all.r14, all.r15}) {
      if (each == value) return true;
    }
#endif
    return false;
  }
  bool set_debug_register([[maybe_unused]] size_t which, [[maybe_unused]] uint64_t value) {
#if defined(__x86_64__)
    return ptrace(PTRACE_POKEUSER, pid_,
                  offsetof(struct user, u_debugreg) + which * sizeof(uint64_t), value) == 0;
#else
    return false;
#endif
  }
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

  void await_stop() {
    int status = 0;
    while (waitpid(pid_, &status, WUNTRACED | __WALL) < 0 && errno == EINTR) {
    }
    good_ = WIFSTOPPED(status);
    CHECK_SAYING(good_, fault::describe_status(status));
    if (!good_) pid_ = -1;
  }

  pid_t pid_ = -1;
  bool running_ = false;
  bool good_ = true;
};

}  // namespace storm

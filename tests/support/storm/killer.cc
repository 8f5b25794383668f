#include "support/storm/killer.h"

#include <dirent.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

namespace storm {
namespace {

// How long the killer waits for the call in which the victim is to die.
constexpr int64_t kUntilCallNs = (kSanitized ? 10 : 1) * int64_t{20'000'000};
// A tracee that makes no step for this long waits in a system call.
constexpr int kStuckUs = kSanitized ? 50'000 : 5'000;

pid_t wait_for(pid_t pid, int* status, int flags) {
  pid_t got = 0;
  while ((got = waitpid(pid, status, __WALL | flags)) < 0 && errno == EINTR) {
  }
  return got;
}

bool has_ended(int status) { return WIFEXITED(status) || WIFSIGNALED(status); }

// A process that was traced by one of its threads ends only when that thread was waited for too.
void wait_for_end(pid_t pid, int* status) {
  while (wait_for(pid, status, 0) == pid && !has_ended(*status)) {
  }
}

// While this object lives, a signal interrupts waitpid every now and then.
class Impatience {
 public:
  Impatience() { set(kStuckUs); }
  Impatience(const Impatience&) = delete;
  Impatience& operator=(const Impatience&) = delete;
  ~Impatience() { set(0); }

 private:
  static void set(int us) {
    const itimerval every{{0, us}, {0, us}};
    setitimer(ITIMER_REAL, &every, nullptr);
  }
};

pid_t service_thread_of(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/task";
  DIR* const threads = opendir(folder.c_str());
  if (threads == nullptr) return -1;
  pid_t found = -1;
  while (const dirent* each = readdir(threads)) {
    std::ifstream file(folder + "/" + each->d_name + "/comm");
    std::string name;
    if (std::getline(file, name) && name == "tenon") found = std::atoi(each->d_name);
  }
  closedir(threads);
  return found;
}

}  // namespace

Killer::Killer(OpNames op_names) : op_names_(op_names) {
  struct sigaction nothing{};
  nothing.sa_handler = [](int) {};  // no SA_RESTART: the signal ends a wait
  sigaction(SIGALRM, &nothing, nullptr);
}

int Killer::kill(pid_t pid, Slot* slot, const KillPlan& plan) {
  int status = 0;
  bool as_planned = true;
  bool dead = false;
  pid_t thread = -1;
  switch (plan.way) {
    case Way::kTimer: as_planned = dead = by_timer(pid, slot, plan, &status); break;
    case Way::kSteps: as_planned = by_steps(pid, slot, plan); break;
    case Way::kServiceSteps: as_planned = by_service_steps(pid, plan, &thread); break;
    case Way::kWatcher:
    case Way::kCount: break;
  }
  if (!dead) {
    ::kill(pid, SIGKILL);
    if (thread > 0) {
      int unused = 0;
      wait_for_end(thread, &unused);
    }
    wait_for_end(pid, &status);
  }
  slot->doom = 0;
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) return status;
  ++total_;
  const Way way = as_planned ? plan.way : Way::kWatcher;
  ++by_way_[static_cast<size_t>(way)];
  if (const uint32_t op = slot->op; op < kMostOps)
    ++(way == Way::kSteps ? stepped_in_ : by_op_)[op];
  return status;
}

bool Killer::by_timer(pid_t pid, Slot* slot, const KillPlan& plan, int* status) {
  slot->set_doom(Doom::kTimer, plan.op, plan.timer_ns);
  for (const int64_t deadline = now_ns() + kUntilCallNs; now_ns() < deadline; usleep(50)) {
    if (wait_for(pid, status, WNOHANG) == pid && has_ended(*status)) return true;
  }
  return false;
}

bool Killer::by_steps(pid_t pid, Slot* slot, const KillPlan& plan) {
  if (ptrace(PTRACE_SEIZE, pid, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) != 0) {
    refused_ = errno;
    return false;
  }
  slot->set_doom(Doom::kStop, plan.op, 0);
  for (const int64_t deadline = now_ns() + kUntilCallNs; now_ns() < deadline;) {
    int status = 0;
    const pid_t got = wait_for(pid, &status, WNOHANG);
    if (got == 0) {
      usleep(20);
      continue;
    }
    if (got < 0 || !WIFSTOPPED(status)) return false;
    if (WSTOPSIG(status) == SIGSTOP) {
      walk(pid, plan);
      return true;
    }
    ptrace(PTRACE_CONT, pid, nullptr, static_cast<long>(WSTOPSIG(status)));
  }
  return false;
}

bool Killer::by_service_steps(pid_t pid, const KillPlan& plan, pid_t* thread) {
  const pid_t found = service_thread_of(pid);
  if (found < 0) return false;
  if (ptrace(PTRACE_SEIZE, found, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) != 0) {
    refused_ = errno;
    return false;
  }
  *thread = found;
  if (ptrace(PTRACE_INTERRUPT, found, nullptr, nullptr) != 0) return false;
  const Impatience impatience;
  int status = 0;
  if (waitpid(found, &status, __WALL) != found || !WIFSTOPPED(status)) return false;
  walk(found, plan);
  return true;
}

// Moves the thread on by some system calls, and then by some instructions.
void Killer::walk(pid_t thread, const KillPlan& plan) {
  const Impatience impatience;
  for (uint32_t i = 0; i < plan.calls; ++i) {
    if (!advance(PTRACE_SYSCALL, thread, SIGTRAP | 0x80)) return;
  }
  for (uint32_t i = 0; i < plan.steps; ++i) {
    if (!advance(PTRACE_SINGLESTEP, thread, SIGTRAP)) return;
    ++steps_;
  }
}

// Returns false if the thread waits in the kernel, where it then dies, or has ended.
bool Killer::advance(int how, pid_t thread, int stop) {
  long signal = 0;
  while (true) {
    if (ptrace(static_cast<__ptrace_request>(how), thread, nullptr, signal) != 0) return false;
    int status = 0;
    int interrupted = 0;
    while (waitpid(thread, &status, __WALL) != thread) {
      if (errno != EINTR || ++interrupted > 1) return false;
    }
    if (!WIFSTOPPED(status)) return false;
    if (WSTOPSIG(status) == stop) return true;
    // The change from one way of stepping to the other brings a trap of the other kind. Any other
    // signal is the victim's own.
    signal = (WSTOPSIG(status) & 0x7f) == SIGTRAP ? 0 : WSTOPSIG(status);
  }
}

void Killer::print() const {
  static constexpr const char* kWays[] = {"watcher", "timer in a call", "single steps in a call",
                                          "single steps of the library's thread"};
  std::printf("ways to die:");
  for (size_t i = 0; i < by_way_.size(); ++i)
    std::printf(" %llu by %s%s", static_cast<unsigned long long>(by_way_[i]), kWays[i],
                i + 1 < by_way_.size() ? "," : "\n");
  const auto print_ops = [this](const char* title, const auto& counts) {
    std::printf("%s", title);
    for (size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] > 0)
        std::printf(" %llu %s,", static_cast<unsigned long long>(counts[i]),
                    name_of_op(op_names_, static_cast<uint32_t>(i)));
    }
    std::printf("\n");
  };
  print_ops("died in, stepped:", stepped_in_);
  print_ops("died in, otherwise:", by_op_);
  std::printf("%llu single steps\n", static_cast<unsigned long long>(steps_));
  if (refused_ != 0)
    std::printf("ptrace was refused (errno %d): the watcher killed in its place\n", refused_);
}

}  // namespace storm

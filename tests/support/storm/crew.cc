#include "support/storm/crew.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <utility>

#include "support/die_with_parent.h"
#include "support/storm/deadline.h"
#include "support/storm/wire.h"

namespace storm {
std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<pid_t> all_children() {
  const std::string self = std::to_string(getpid());
  std::ifstream file("/proc/" + self + "/task/" + self + "/children");
  std::vector<pid_t> found;
  for (pid_t pid = 0; file >> pid;) found.push_back(pid);
  return found;
}

Crew::Crew(Board* board, uint32_t n_peers, OpNames op_names)
    : board_(board),
      slots_(std::span(board->slots).first(n_peers)),
      op_names_(op_names),
      killer_(op_names),
      members_(n_peers) {}

void Crew::spawn(uint32_t index, const std::function<pid_t(int control)>& start) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    throw Failure("no socket for a peer");
  members_[index].control = ends[0];
  const pid_t pid = start(ends[1]);
  if (pid < 0) throw Failure("no process for a peer");
  close(ends[1]);
  members_[index] = {pid, ends[0], false, false};
  slots_[index].doom = 0;
  slots_[index].op = 0;
  slots_[index].pid = pid;
}

pid_t Crew::fork_peer(const std::function<void()>& body) const {
  std::fflush(nullptr);
  const pid_t driver = getpid();
  const pid_t pid = fork();
  if (pid != 0) return pid;
  tenon::test::die_with_parent(driver);
  for (const Member& each : members_) close(each.control);
  std::signal(SIGALRM, SIG_DFL);
  alarm(fault::kWatchdogSeconds);
  body();
  _exit(kFailed);
}

long Crew::count_living() const {
  return std::count_if(members_.begin(), members_.end(),
                       [](const Member& each) { return each.pid > 0; });
}

bool Crew::tell(uint32_t index, const void* order, size_t nbytes, const std::vector<int>& fds) {
  return put(members_[index].control, order, nbytes, fds.data(), fds.size());
}

void Crew::tell_all(const void* order, size_t nbytes) {
  for (const Member& each : members_) {
    if (each.pid > 0) (void)put(each.control, order, nbytes, nullptr, 0);
  }
}

bool Crew::listen(uint32_t index) {
  char said = 0;
  if (recv(members_[index].control, &said, 1, MSG_DONTWAIT) != 1) return false;
  if (said != 0) ++reports_;
  if (said == 0) members_[index].answered = true;
  return true;
}

void Crew::ended(uint32_t index, int status) {
  Member& member = members_[index];
  while (listen(index)) {
  }
  close(std::exchange(member.control, -1));
  const pid_t pid = std::exchange(member.pid, -1);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return;
  look_for_wrong_bytes();
  if (excuses && excuses(index, status)) return;
  throw Failure("peer " + std::to_string(index) + ", pid " + std::to_string(pid) + ", ended with " +
                fault::describe_status(status) + ", in " + name_of_op(op_names_, slots_[index].op));
}

void Crew::await_all(int64_t limit_ns, const char* meaning) {
  const Deadline deadline(slots_, limit_ns);
  while (true) {
    std::vector<pollfd> waiting;
    std::vector<uint32_t> who;
    for (uint32_t i = 0; i < members_.size(); ++i) {
      if (members_[i].pid <= 0 || members_[i].answered) continue;
      waiting.push_back({members_[i].control, POLLIN, 0});
      who.push_back(i);
    }
    if (waiting.empty()) break;
    (void)poll(waiting.data(), waiting.size(), 20);
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].revents == 0) continue;
      if (listen(who[i])) continue;
      int status = 0;
      if (errno != EAGAIN && waitpid(members_[who[i]].pid, &status, 0) > 0) ended(who[i], status);
    }
    look_for_wrong_bytes();
    if (deadline.is_over()) {
      throw Failure("after " + std::to_string(limit_ns / 1'000'000) + " ms not every peer " +
                    meaning);
    }
  }
  for (Member& each : members_) each.answered = false;
}

void Crew::strike(const std::vector<KillPlan>& kills, const std::vector<StopPlan>& stops) {
  const auto resume = [this] {
    for (Member& each : members_) {
      if (std::exchange(each.stopped, false)) ::kill(each.pid, SIGCONT);
    }
  };
  for (size_t i = 0; i < kills.size(); ++i) {
    const KillPlan& kill = kills[i];
    resume();
    usleep(kill.delay_us);
    if (before_kill) before_kill();
    if (i < stops.size() && stops[i].who != kill.victim && members_[stops[i].who].pid > 0) {
      Member& stopped = members_[stops[i].who];
      ::kill(stopped.pid, SIGSTOP);
      stopped.stopped = true;
      usleep(stops[i].delay_us);
    }
    Member& victim = members_[kill.victim];
    const int status = killer_.kill(victim.pid, &slots_[kill.victim], kill);
    ended(kill.victim, status);
    look_for_wrong_bytes();
  }
  resume();
}

std::vector<pid_t> Crew::children() const {
  std::vector<pid_t> found = all_children();
  if (is_servant) std::erase_if(found, is_servant);
  return found;
}

void Crew::reap_orphans(int64_t limit_ns) {
  const int64_t deadline = now_ns() + limit_ns;
  while (true) {
    bool left = false;
    for (const pid_t pid : children()) {
      const bool is_member = std::any_of(members_.begin(), members_.end(),
                                         [pid](const Member& each) { return each.pid == pid; });
      if (is_member) continue;
      int status = 0;
      if (waitpid(pid, &status, WNOHANG) != pid) {
        left = true;
        continue;
      }
      ++orphans_;
      if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
        killer_.count_other();
      } else if (TENON_TEST_ASAN && WIFEXITED(status) &&
                 (WEXITSTATUS(status) == 3 || WEXITSTATUS(status) == 4)) {
        // This is the process with which LeakSanitizer stops the threads of an ending peer. It
        // exits with 3 or 4 if the peer was killed meanwhile.
      } else if (status != 0) {
        look_for_wrong_bytes();
        throw Failure("a child that outlived its parent ended with " +
                      fault::describe_status(status));
      }
    }
    if (!left) return;
    if (now_ns() > deadline) {
      throw Failure("children whose parent is dead do not end");
    }
    usleep(200);
  }
}

void Crew::dismiss(const KillPlan* last) {
  if (last != nullptr && lives(last->victim)) {
    usleep(last->delay_us);
    const int status = killer_.kill(members_[last->victim].pid, &slots_[last->victim], *last);
    // The victim may have ended in order before the kill.
    if (status != 0) ended(last->victim, status);
    if (status == 0) {
      close(std::exchange(members_[last->victim].control, -1));
      members_[last->victim].pid = -1;
    }
  }
  for (uint32_t i = 0; i < members_.size(); ++i) {
    int status = 0;
    if (members_[i].pid <= 0 || waitpid(members_[i].pid, &status, 0) != members_[i].pid) continue;
    if (status != 0) ended(i, status);
    close(std::exchange(members_[i].control, -1));
    members_[i].pid = -1;
  }
}

void Crew::kill_all() {
  for (const pid_t pid : all_children()) ::kill(pid, SIGKILL);
}

void Crew::print_processes() const {
  for (const pid_t pid : children()) {
    const std::string folder = "/proc/" + std::to_string(pid);
    std::printf("pid %d", pid);
    for (uint32_t i = 0; i < members_.size(); ++i) {
      if (members_[i].pid != pid) continue;
      const Slot& slot = slots_[i];
      std::printf(", peer %u, in %s for %.1f ms%s", i, name_of_op(op_names_, slot.op),
                  static_cast<double>(now_ns() - slot.since_ns) / 1e6,
                  members_[i].answered ? ", has answered" : "");
    }
    std::printf("\n");
    std::error_code gone;
    for (const auto& fd : std::filesystem::directory_iterator(folder + "/fd", gone))
      std::printf("  fd %s: %s\n", fd.path().filename().c_str(),
                  std::filesystem::read_symlink(fd.path(), gone).c_str());
    for (const auto& thread : std::filesystem::directory_iterator(folder + "/task", gone)) {
      const std::string path = thread.path().string();
      std::printf("  %s: %s, waits in %s, system call %s\n", thread.path().filename().c_str(),
                  first_line(path + "/comm").c_str(), first_line(path + "/wchan").c_str(),
                  first_line(path + "/syscall").c_str());
    }
  }
}

}  // namespace storm

#include "fault/storm/driver.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "fault/storm/peer.h"
#include "fault/storm/starved.h"
#include "fault/storm/wire.h"

namespace storm {
namespace {

// The watchdog: for whatever a peer must say. Only a hang takes that long.
constexpr int64_t kPatienceNs = (kSanitized ? 6 : 1) * int64_t{20'000'000'000};

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

void Storm::spawn(uint32_t index) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) throw Failure("no socket for a peer");
  const uint64_t seed = mix(seed_ ^ mix(++born_));
  std::fflush(nullptr);
  const pid_t driver = getpid();
  const pid_t pid = fork();
  if (pid < 0) throw Failure("no process for a peer");
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != driver) _exit(kFailed);
    for (const Member& each : members_) close(each.control);
    close(ends[0]);
    std::signal(SIGALRM, SIG_DFL);
    alarm(fault::kWatchdogSeconds);
    Peer(board_, &board_->slots[index], ends[1], seed).run();
  }
  close(ends[1]);
  members_[index] = {pid, ends[0], false, {}};
  board_->slots[index].doom = 0;
  board_->slots[index].op = 0;
  board_->slots[index].pid = pid;
}

// Whoever ended as nobody meant it to.
void Storm::ended(uint32_t index, int status) {
  Member& member = members_[index];
  close(std::exchange(member.control, -1));
  const pid_t pid = std::exchange(member.pid, -1);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return;
  look_for_wrong_bytes();
  throw Failure("peer " + std::to_string(index) + ", pid " + std::to_string(pid) + ", ended with " + fault::how_it_ended(status) + ", in " +
                name_of(board_->slots[index].what()));
}

void Storm::tell_all(char what) {
  Order order;
  order.what = what;
  for (const Member& each : members_) {
    if (each.pid > 0) (void)put(each.control, &order, sizeof order, nullptr, 0);
  }
}

// Until all have said it.
void Storm::await_all(char what, int64_t limit_ns, const char* meaning) {
  const Deadline deadline(*board_, limit_ns);
  while (true) {
    std::vector<pollfd> waiting;
    std::vector<uint32_t> who;
    for (uint32_t i = 0; i < kPeers; ++i) {
      if (members_[i].pid <= 0 || members_[i].said.find(what) != std::string::npos) continue;
      waiting.push_back({members_[i].control, POLLIN, 0});
      who.push_back(i);
    }
    if (waiting.empty()) break;
    (void)poll(waiting.data(), waiting.size(), 20);
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].revents == 0) continue;
      char said = 0;
      if (recv(waiting[i].fd, &said, 1, MSG_DONTWAIT) == 1) {
        members_[who[i]].said += said;
        continue;
      }
      int status = 0;
      if (errno != EAGAIN && waitpid(members_[who[i]].pid, &status, 0) > 0) ended(who[i], status);
    }
    look_for_wrong_bytes();
    if (deadline.is_over()) {
      throw Failure(std::string("after ") + std::to_string(limit_ns / 1'000'000) + " ms not everybody " + meaning);
    }
  }
  for (Member& each : members_) std::erase(each.said, what);
}

void Storm::begin(const Plan& plan) {
  for (uint32_t i = 0; i < kPeers; ++i) {
    if (members_[i].pid <= 0) spawn(i);
  }
  std::array<Order, kPeers> orders{};
  std::array<std::vector<int>, kPeers> fds;
  const auto add = [&](uint32_t who, bool out, Carrier carrier, int fd) {
    Order& order = orders[who];
    REQUIRE(order.n_links < kMostLinks);
    order.out[order.n_links] = out;
    order.carriers[order.n_links++] = carrier;
    fds[who].push_back(fd);
  };
  for (const LinkPlan& link : plan.links) {
    int ends[2];
    const int type = link.carrier == Carrier::kStream ? SOCK_STREAM : SOCK_SEQPACKET;
    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) != 0) throw Failure("no socket for a link");
    add(link.from, true, link.carrier, ends[0]);
    add(link.to, false, link.carrier, ends[1]);
  }
  for (uint32_t i = 0; i < kPeers; ++i) {
    orders[i].what = 'R';
    orders[i].seed = plan.seed;
    orders[i].hostile = static_cast<int32_t>(i) == plan.hostile;
    const bool told = put(members_[i].control, &orders[i], sizeof orders[i], fds[i].data(), fds[i].size());
    for (const int fd : fds[i]) close(fd);
    if (!told) throw Failure("a peer does not listen");
  }
  await_all('B', kPatienceNs, "began");
}

void Storm::strike(const Plan& plan) {
  for (size_t i = 0; i < plan.kills.size(); ++i) {
    const KillPlan& kill = plan.kills[i];
    for (Member& each : members_) {
      if (each.stopped) ::kill(each.pid, SIGCONT);
      each.stopped = false;
    }
    usleep(kill.delay_us);
    if (i < plan.stops.size() && plan.stops[i].who != kill.victim && members_[plan.stops[i].who].pid > 0) {
      Member& stopped = members_[plan.stops[i].who];
      ::kill(stopped.pid, SIGSTOP);
      stopped.stopped = true;
      usleep(plan.stops[i].delay_us);
    }
    Member& victim = members_[kill.victim];
    const int status = killer_.kill(victim.pid, &board_->slots[kill.victim], kill);
    ended(kill.victim, status);
    look_for_wrong_bytes();
  }
  for (Member& each : members_) {
    if (each.stopped) ::kill(each.pid, SIGCONT);
    each.stopped = false;
  }
}

std::vector<pid_t> Storm::children() const {
  const std::string self = std::to_string(getpid());
  std::ifstream file("/proc/" + self + "/task/" + self + "/children");
  std::vector<pid_t> found;
  for (pid_t pid = 0; file >> pid;) found.push_back(pid);
  return found;
}

// Children whose parent was killed are the driver's. They end by themselves, soon.
void Storm::reap_orphans(int64_t limit_ns) {
  const int64_t deadline = now_ns() + limit_ns;
  while (true) {
    bool left = false;
    for (const pid_t pid : children()) {
      const bool is_member = std::any_of(members_.begin(), members_.end(), [pid](const Member& each) { return each.pid == pid; });
      if (is_member) continue;
      int status = 0;
      if (waitpid(pid, &status, WNOHANG) != pid) {
        left = true;
        continue;
      }
      ++orphans_;
      if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
        killer_.count_other();
      } else if (status != 0) {
        look_for_wrong_bytes();
        throw Failure("a child that outlived its parent ended with " + fault::how_it_ended(status));
      }
    }
    if (!left) return;
    if (now_ns() > deadline) {
      throw Failure("children whose parent is dead do not end");
    }
    usleep(200);
  }
}

void Storm::settle() {
  tell_all('S');
  await_all('L', kPatienceNs, "let go of what it had");
  reap_orphans(kPatienceNs);
  const int64_t let_go = now_ns();
  await_all('Z', kSoonNs, "that lent got back what it had lent");
  slowest_lent_ns_ = std::max(slowest_lent_ns_, now_ns() - let_go);
  tell_all('T');
  const int64_t closed = now_ns();
  await_all('D', kPatienceNs, "has said what is left");
  slowest_left_ns_ = std::max(slowest_left_ns_, now_ns() - closed);
  look_for_wrong_bytes();
}

void Storm::look_at_what_is_left() {
  const auto alive = std::count_if(members_.begin(), members_.end(), [](const Member& each) { return each.pid > 0; });
  if (const auto left = static_cast<long>(children().size()); left != alive)
    throw Failure(std::to_string(left) + " processes, of which " + std::to_string(alive) + " should be there");
  const long fds = fault::count_fds() - alive;
  if (!fds_) fds_ = fds;
  if (fds != *fds_) throw Failure("the driver has " + std::to_string(fds) + " fds, not " + std::to_string(*fds_));
  if (!alone_) return;
  if (!std::filesystem::is_empty("/dev/shm"))
    throw Failure("a name is left in /dev/shm: " + std::filesystem::directory_iterator("/dev/shm")->path().string());
  // One line is the title, and each survivor has its control. What the kernel closes for the dead it closes a little later.
  const long wanted = 1 + 2 * static_cast<long>(alive);
  const int64_t deadline = now_ns() + kSoonNs;
  long sockets = 0;
  while ((sockets = fault::count_lines("/proc/self/net/unix", "")) != wanted && now_ns() < deadline) usleep(500);
  if (sockets != wanted) throw Failure(std::to_string(sockets - wanted) + " sockets are left");
}

void Storm::run_round(uint64_t number) {
  plan_ = make_plan(seed_, number, cycles_);
  hostile_rounds_ += plan_.hostile >= 0 ? 1 : 0;
  begin(plan_);
  strike(plan_);
  settle();
  look_at_what_is_left();
}

// Those that are alive end in order, which a leak checker looks at.
void Storm::end() {
  tell_all('Q');
  for (uint32_t i = 0; i < kPeers; ++i) {
    int status = 0;
    if (members_[i].pid <= 0 || waitpid(members_[i].pid, &status, 0) != members_[i].pid) continue;
    if (status != 0) ended(i, status);
    close(std::exchange(members_[i].control, -1));
    members_[i].pid = -1;
  }
  look_at_what_is_left();
}

void Storm::kill_all() {
  for (const pid_t pid : children()) ::kill(pid, SIGKILL);
}

void Storm::print() const {
  const auto number = [](const std::atomic<uint64_t>& value) { return static_cast<unsigned long long>(value.load()); };
  killer_.print();
  std::printf("%llu blocks lent, %llu received, %llu messages lent on, %llu descriptors, %llu times read, %llu times full\n",
              number(board_->lent), number(board_->received), number(board_->forwarded), number(board_->descriptors),
              number(board_->checked), number(board_->full));
  std::printf(
      "%llu children that read on, %llu of them killed by then, %llu after their parents; %llu rounds with a hostile borrower, %llu pages "
      "scribbled over\n",
      number(board_->forks), number(board_->killed_children), static_cast<unsigned long long>(orphans_),
      static_cast<unsigned long long>(hostile_rounds_), number(board_->scribbles));
  std::printf("slowest: nothing lent after %.1f ms, nothing left after %.1f ms\n", static_cast<double>(slowest_lent_ns_) / 1e6,
              static_cast<double>(slowest_left_ns_) / 1e6);
}

void Storm::print_where() const {
  for (const LinkPlan& link : plan_.links) {
    static constexpr std::array<const char*, 3> kCarriers = {"stream", "packets", "descriptors"};
    std::printf("peer %u (pid %d) lends to peer %u (pid %d) by %s\n", link.from, board_->slots[link.from].pid.load(), link.to,
                board_->slots[link.to].pid.load(), kCarriers[static_cast<size_t>(link.carrier)]);
  }
  std::printf("dead:");
  for (uint32_t i = 0; i < kPeers; ++i) {
    if (members_[i].pid <= 0) std::printf(" %u", i);
  }
  std::printf("; hostile: %d\n", plan_.hostile);
  for (const pid_t pid : children()) {
    const std::string folder = "/proc/" + std::to_string(pid);
    std::printf("pid %d", pid);
    for (uint32_t i = 0; i < kPeers; ++i) {
      if (members_[i].pid != pid) continue;
      const Slot& slot = board_->slots[i];
      std::printf(", peer %u, in %s for %.1f ms, said \"%s\"", i, name_of(slot.what()), static_cast<double>(now_ns() - slot.since_ns) / 1e6,
                  members_[i].said.c_str());
    }
    std::printf("\n");
    std::error_code gone;
    for (const auto& fd : std::filesystem::directory_iterator(folder + "/fd", gone))
      std::printf("  fd %s: %s\n", fd.path().filename().c_str(), std::filesystem::read_symlink(fd.path(), gone).c_str());
    for (const auto& thread : std::filesystem::directory_iterator(folder + "/task", gone)) {
      const std::string path = thread.path().string();
      std::printf("  %s: %s, waits in %s, system call %s\n", thread.path().filename().c_str(), first_line(path + "/comm").c_str(),
                  first_line(path + "/wchan").c_str(), first_line(path + "/syscall").c_str());
    }
  }
}

}  // namespace storm

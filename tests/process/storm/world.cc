// The kill storm of names. Processes lend to each other by name, PyTorch's workers among them
// (torch_peer.py), and all but one are killed at random moments. Sometimes a manager is killed too.
// Then one peer is alive, and soon no name of Tenon may be left, nor an fd or a mapping of that
// peer. With no peer alive, nothing may be left after the next call of any process: no name, and
// not a page of the file system's memory.
//
// The variables TENON_TORCH_DEBIAN and TENON_TORCH_NEWEST name Pythons with PyTorch.
#include <sys/statvfs.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "process/storm/name_peer.h"
#include "support/storm/engine.h"
#include "support/temporary_directory.h"

namespace storm {
namespace {

constexpr uint32_t kNamePeers = 6;
constexpr std::array kOps = {"making", "sharing", "sending", "opening", "releasing", "sweeping"};
static_assert(kOps.size() == size_t{kEndOfOps} - kFirstOp);
constexpr std::array kCounts = {"storages made",   "messages sent",           "opened",
                                "opened too late", "calls without a manager", "managers killed"};
static_assert(kCounts.size() == kEndOfCounts);
constexpr std::array kPhases = {Phase{"stopped"}, Phase{"let go of what it had"}};
constexpr std::array kOptions = {"--no-torch", "--no-manager"};

// A Python with PyTorch that forks workers, because it takes seconds to load.
class Nursery {
 public:
  explicit Nursery(const std::string &python) {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    orders_ = ends[0];
    const timeval patience{120, 0};
    setsockopt(orders_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    std::fflush(nullptr);
    pid_ = fork();
    if (pid_ > 0) {
      close(ends[1]);
      return;
    }
    // A PyTorch whose manager is killed prints many lines.
    dup2(fileno(errors_), STDERR_FILENO);
    fcntl(ends[1], F_SETFD, 0);
    execl(python.c_str(), python.c_str(), "-B", STORM_TORCH_PEER, std::to_string(ends[1]).c_str(),
          nullptr);
    _exit(kFailed);
  }
  Nursery(const Nursery &) = delete;
  Nursery &operator=(const Nursery &) = delete;
  // Ends the nursery in order.
  ~Nursery() {
    close(orders_);
    (void)waitpid(pid_, nullptr, 0);
    std::fclose(errors_);
  }

  pid_t pid() const { return pid_; }
  std::string hear() const {
    std::array<char, 64> text{};
    if (recv(orders_, text.data(), text.size() - 1, 0) <= 0)
      throw Failure("a Python with PyTorch does not answer: " + errors());
    return text.data();
  }
  // The worker becomes a child of this process when the process between the two has ended.
  pid_t fork_worker(const Seat &seat) const {
    const std::string seed = std::to_string(seat.seed);
    if (!put(orders_, seed.data(), seed.size(), &seat.control, 1))
      throw Failure("a Python with PyTorch takes no order");
    const auto worker = static_cast<pid_t>(std::stol(hear()));
    const auto is_mine = [worker] {
      const std::vector<pid_t> mine = all_children();
      return std::find(mine.begin(), mine.end(), worker) != mine.end();
    };
    for (int i = 0; i < 20'000 && !is_mine(); ++i) usleep(500);
    return is_mine() ? worker : -1;
  }
  // Returns the lines that are not PyTorch's own.
  std::string errors() const {
    std::rewind(errors_);
    std::string text;
    std::array<char, 400> line{};
    while (std::fgets(line.data(), line.size(), errors_) != nullptr) {
      const std::string each = line.data();
      if (each.starts_with("torch_peer") || each.starts_with("Traceback") ||
          each.starts_with("  File"))
        text += each;
    }
    return text;
  }

 private:
  int orders_ = -1;
  pid_t pid_ = -1;
  std::FILE *errors_ = std::tmpfile();
};

class Names : public World {
 public:
  Names()
      : World({.n_peers = kNamePeers,
               .ops = kOps,
               .counts = kCounts,
               .phases = kPhases,
               .options = kOptions,
               .has_servants = true,
               .look_ns = 2 * kNamesGoNs}) {}

  void plan(Plan *plan) override {
    if (!is_prepared_) prepare();
    reap_managers();
    Random &random = plan->random;
    std::vector<uint32_t> roles = {kSender, kSender, kReceiver, kReceiver, kSender};
    if (!nurseries_.empty())
      roles.back() = kTorch + static_cast<uint32_t>(random.below(nurseries_.size()));
    const bool another = nurseries_.size() > 1 && random.chance(50);
    roles.push_back(another ? kTorch + static_cast<uint32_t>(random.below(nurseries_.size()))
                            : static_cast<uint32_t>(random.below(2)));
    for (uint32_t i = 0; i < kNamePeers; ++i) plan->roles[plan->order[i]] = roles[i];
    roles_ = plan->roles;
    // Every peer can send to every other one. A link to a PyTorch has that kind.
    for (uint32_t i = 0; i < kNamePeers; ++i) {
      for (uint32_t j = 0; j < kNamePeers; ++j) {
        if (i != j)
          plan->links.push_back(
              {i, j, static_cast<uint8_t>(std::min<uint32_t>(roles_[j], kTorch))});
      }
    }
    // All peers but one are killed, and the last one is killed when it has settled. The last one is
    // mostly a receiver, because a receiver shows more.
    plan->shuffle();
    if (random.chance(60)) {
      const auto receiver = std::find_if(plan->order.begin(), plan->order.end(),
                                         [this](uint32_t who) { return roles_[who] == kReceiver; });
      std::swap(*receiver, plan->order.back());
    }
    for (const uint32_t who : plan->order) {
      plan->add_kill(who, {kMake, kShare, kSend, kSend, kRelease},
                     {kOpen, kOpen, kRelease, kShare, kSweep});
      // A worker of PyTorch does not say in which call it is.
      if (roles_[who] >= kTorch) plan->kills.back().way = Way::kWatcher;
    }
    plan->kills[0].delay_us += static_cast<uint32_t>(random.below(30'000));
    plan->at_end = plan->kills.back();
    plan->kills.pop_back();
    plan->at_end->way = Way::kWatcher;
    managers_to_kill_ = Random(plan->seed + 1);
  }

  std::unique_ptr<Peer> make_peer(const Seat &seat) override {
    return std::make_unique<NamePeer>(seat, with_manager_);
  }

  std::optional<pid_t> start_elsewhere(const Seat &seat) override {
    if (roles_[seat.index] < kTorch) return {};
    return nurseries_[roles_[seat.index] - kTorch]->fork_worker(seat);
  }

  void before_kill() override {
    if (!with_manager_ || !managers_to_kill_.chance(5)) return;
    for (const pid_t pid : managers()) {
      ++board->counts[kManagerKills];
      kill(pid, SIGKILL);
    }
  }

  // A PyTorch process ends with SIGABRT when its manager dies.
  bool excuses(uint32_t index, int status) override {
    return roles_[index] >= kTorch && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
           board->counts[kManagerKills] > 0;
  }

  bool is_servant(pid_t pid) override {
    return is_manager(pid) || std::any_of(nurseries_.begin(), nurseries_.end(),
                                          [pid](const auto &each) { return each->pid() == pid; });
  }

  std::string left() override {
    if (reports + board->counts[kNoManager] > 0 && board->counts[kManagerKills] == 0)
      return "a peer found no manager, and none was killed";
    const auto in_new_process = [](const std::function<void()> &call) {
      const int status = fault::wait_for_child(fault::spawn(call));
      return status == 0
                 ? std::string()
                 : "a process that is new here ended with " + fault::describe_status(status);
    };
    std::string text =
        in_new_process([this] { NamePeer({board, 0, -1, 1}, with_manager_).make_one(); });
    if (text.empty()) text = describe_names({"tenon-manager-", "torch_"});
    if (!text.empty()) return text;
    // The sweep also removes PyTorch's dead names, however young they are.
    text = in_new_process([] { sweep_names(TENON_SWEEP_TORCH, 1); });
    if (text.empty()) text = describe_names({"tenon-manager-"});
    if (!text.empty()) return text;
    struct statvfs info{};
    REQUIRE(statvfs(kShm, &info) == 0);
    const uint64_t used = (info.f_blocks - info.f_bfree) * info.f_frsize;
    return used == 0 ? "" : std::to_string(used) + " bytes of memory";
  }

  // The managers end after their last client.
  std::string missed(uint64_t /*kills*/) override {
    nurseries_.clear();
    for (int i = 0; i < 15'000 && !managers().empty(); ++i) {
      usleep(1000);
      reap_managers();
    }
    if (!managers().empty()) return "managers do not end after their last client";
    if (!all_children().empty()) return "processes are left";
    const std::string names = describe_names({});
    return names.empty() ? "" : "left in the end:" + names;
  }

  std::string printed_by_servants() override {
    std::string text;
    for (const auto &each : nurseries_) text += each->errors();
    return text;
  }

 private:
  void prepare() {
    is_prepared_ = true;
    const auto variable = [](const char *name) {
      const char *const value = std::getenv(name);
      return std::string(value == nullptr ? "" : value);
    };
#ifdef STORM_MANAGER
    with_manager_ = !given.contains("--no-manager");
    setenv("TENON_MANAGER", STORM_MANAGER, 0);
#endif
    if (with_manager_ && !given.contains("--no-torch")) {
      for (const char *name : {"TENON_TORCH_DEBIAN", "TENON_TORCH_NEWEST"}) {
        if (const std::string python = variable(name); !python.empty())
          nurseries_.push_back(std::make_unique<Nursery>(python));
      }
    }
    std::printf("with %s manager;", with_manager_ ? "a" : "no");
    for (const auto &each : nurseries_) std::printf(" PyTorch is %s", each->hear().c_str());
    std::printf(" %zu PyTorches\n", nurseries_.size());
  }

  static bool is_manager(pid_t pid) {
    return first_line("/proc/" + std::to_string(pid) + "/comm").starts_with("tenon-manager");
  }
  static std::vector<pid_t> managers() {
    std::vector<pid_t> found = all_children();
    std::erase_if(found, [](pid_t pid) { return !is_manager(pid); });
    return found;
  }

  void reap_managers() {
    for (const pid_t pid : managers()) {
      int status = 0;
      if (waitpid(pid, &status, WNOHANG) != pid || status == 0) continue;
      if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) continue;
      // The process that started this manager was killed before the manager could report.
      if ((WIFEXITED(status) && WEXITSTATUS(status) == 1) ||
          (WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE)) {
        ++board->counts[kManagerKills];
        continue;
      }
      throw Failure("a manager ended with " + fault::describe_status(status));
    }
  }

  bool is_prepared_ = false;
  bool with_manager_ = false;
  std::vector<std::unique_ptr<Nursery>> nurseries_;
  std::vector<uint32_t> roles_;
  Random managers_to_kill_{0};
};

}  // namespace

std::unique_ptr<World> make_world() { return std::make_unique<Names>(); }

}  // namespace storm

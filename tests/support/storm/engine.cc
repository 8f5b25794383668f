#include "support/storm/engine.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "support/own_mounts.h"
#include "support/temporary_directory.h"

namespace storm {
namespace {

struct Options {
  uint64_t seed = mix(static_cast<uint64_t>(now_ns()) ^ static_cast<uint64_t>(getpid())) >> 32;
  uint64_t kills = 1000;
  double seconds = 3600;
  uint64_t rounds = UINT64_MAX;
};

bool parse(int argc, char** argv, World* world, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto& options_of_world = world->rules.options;
    if (std::find(options_of_world.begin(), options_of_world.end(), name) !=
        options_of_world.end()) {
      world->given.insert(name);
      continue;
    }
    if (++i == argc) return false;
    const char* const value = argv[i];
    if (name == "--seed") {
      options->seed = std::strtoull(value, nullptr, 0);
    } else if (name == "--kills") {
      options->kills = std::strtoull(value, nullptr, 0);
    } else if (name == "--seconds") {
      options->seconds = std::strtod(value, nullptr);
    } else if (name == "--rounds") {
      options->rounds = std::strtoull(value, nullptr, 0);
    } else if (name == "--break") {
      for (const Break& each : world->rules.breaks) {
        if (std::strcmp(each.name, value) == 0) world->broken = &each;
      }
      if (world->broken == nullptr) return false;
    } else {
      return false;
    }
  }
  return true;
}

void print_usage(const char* program, const Rules& rules) {
  std::fprintf(stderr, "usage: %s [--seed S] [--kills N] [--seconds T] [--rounds R]", program);
  for (const char* each : rules.options) std::fprintf(stderr, " [%s]", each);
  for (const Break& each : rules.breaks) std::fprintf(stderr, " [--break %s]", each.name);
  std::fprintf(stderr, "\n");
}

// Asks until the text is empty, for about that time. It counts tries and does not read the clock,
// which runs on while other processes have the processors.
std::string wait_until_empty(const std::function<std::string()>& left, int64_t limit_ns) {
  std::string text = left();
  for (int64_t tries = limit_ns / 1'000'000; !text.empty() && tries > 0; --tries) {
    usleep(1000);
    text = left();
  }
  return text;
}

unsigned long long number(uint64_t value) { return value; }
double milliseconds(int64_t ns) { return static_cast<double>(ns) / 1e6; }

class Engine {
 public:
  Engine(World* world, const Options& options)
      : world_(world),
        options_(options),
        board_(world->board),
        crew_(board_, world->rules.n_peers, world->rules.ops),
        plan_(0, world->rules.n_peers),
        slowest_(world->rules.phases.size()) {
    crew_.before_kill = [world] { world->before_kill(); };
    crew_.excuses = [world](uint32_t index, int status) { return world->excuses(index, status); };
    crew_.is_servant = [world](pid_t pid) { return world->is_servant(pid); };
  }

  int run();

 private:
  void run_round();
  void begin();
  void wait_for_checks();
  void tell_all(Order::What what, uint32_t phase);
  void settle();
  void end();
  void look();
  void report(const std::string& failure);
  void print_counts() const;

  World* world_;
  Options options_;
  Board* board_;
  Crew crew_;
  Plan plan_;
  uint64_t round_ = 0;
  uint64_t born_ = 0;
  std::optional<long> fds_;
  std::vector<int64_t> slowest_;
  int64_t slowest_look_ns_ = 0;
};

// Gives every peer that is not alive a new process, and all of them their links.
void Engine::begin() {
  const auto n_peers = static_cast<uint32_t>(plan_.order.size());
  for (uint32_t i = 0; i < n_peers; ++i) {
    if (crew_.lives(i)) continue;
    const uint64_t seed = mix(options_.seed ^ mix(++born_));
    crew_.spawn(i, [&](int control) {
      const Seat seat{board_, i, control, seed};
      const std::optional<pid_t> other = world_->start_elsewhere(seat);
      return other ? *other : crew_.fork_peer([&] { world_->make_peer(seat)->run(); });
    });
    world_->pids.insert(board_->slots[i].pid);
  }
  std::vector<Order> orders(n_peers);
  std::vector<std::vector<int>> fds(n_peers);
  const auto add = [&](uint32_t who, bool out, const LinkPlan& link, uint32_t other, int fd) {
    Order& order = orders[who];
    REQUIRE(order.n_links < kMostFds);
    order.out[order.n_links] = out;
    order.kinds[order.n_links] = link.kind;
    order.others[order.n_links++] = other;
    fds[who].push_back(fd);
  };
  for (const LinkPlan& link : plan_.links) {
    int ends[2];
    if (socketpair(AF_UNIX, link.type | SOCK_CLOEXEC, 0, ends) != 0)
      throw Failure("no socket for a link");
    add(link.from, true, link, link.to, ends[0]);
    add(link.to, false, link, link.from, ends[1]);
  }
  for (uint32_t i = 0; i < n_peers; ++i) {
    orders[i].seed = plan_.seed;
    orders[i].role = plan_.roles[i];
    const bool told = crew_.tell(i, &orders[i], sizeof orders[i], fds[i]);
    for (const int fd : fds[i]) close(fd);
    if (!told) throw Failure("a peer does not listen");
  }
  crew_.await_all(kPatienceNs, "began");
}

// The work that was done sets the moment of the first kill, and not the speed of the machine.
void Engine::wait_for_checks() {
  const uint64_t until = board_->checked + plan_.checks;
  for (int i = 0; i < 2'000 && board_->checked < until; ++i) usleep(500);
}

void Engine::tell_all(Order::What what, uint32_t phase) {
  Order order;
  order.what = what;
  order.phase = phase;
  for (uint32_t i = 0; i < world_->rules.n_peers; ++i) order.dead |= crew_.lives(i) ? 0 : 1U << i;
  crew_.tell_all(&order, sizeof order);
}

void Engine::settle() {
  for (uint32_t i = 0; i < slowest_.size(); ++i) {
    const Phase& phase = world_->rules.phases[i];
    const int64_t begin = now_ns();
    tell_all(Order::kPhase, i);
    crew_.await_all(phase.limit_ns, phase.meaning);
    slowest_[i] = std::max(slowest_[i], now_ns() - begin);
    if (i == 0) crew_.reap_orphans(kPatienceNs);
  }
  crew_.look_for_wrong_bytes();
}

// The survivors end in order, so that a leak checker can check them.
void Engine::end() {
  tell_all(Order::kEnd, 0);
  crew_.dismiss(plan_.at_end ? &*plan_.at_end : nullptr);
  crew_.reap_orphans(kPatienceNs);
  crew_.look_for_wrong_bytes();
}

void Engine::look() {
  const long alive = crew_.count_living();
  if (const auto left = static_cast<long>(crew_.children().size()); left != alive)
    throw Failure(std::to_string(left) + " processes, of which " + std::to_string(alive) +
                  " should be there");
  const long fds = fault::count_open_fds() - alive;
  if (!fds_) fds_ = fds;
  if (fds != *fds_)
    throw Failure("the driver has " + std::to_string(fds) + " fds, not " + std::to_string(*fds_));
  world_->reports = crew_.reports();
  const int64_t begin = now_ns();
  std::fflush(nullptr);
  const pid_t looker = fork();
  if (looker == 0) {
    alarm(fault::kWatchdogSeconds);
    const std::string left =
        wait_until_empty([this] { return world_->left(); }, world_->rules.look_ns);
    if (!left.empty()) board_->complain("some time after the round, this is left: " + left);
    std::fflush(nullptr);
    _exit(left.empty() && fault::g_failures == 0 ? 0 : kFailed);
  }
  const int status = fault::wait_for_child(looker);
  crew_.look_for_wrong_bytes();
  if (status != 0)
    throw Failure("the process that looks at what is left ended with " +
                  fault::describe_status(status));
  slowest_look_ns_ = std::max(slowest_look_ns_, now_ns() - begin);
  if (!world_->is_alone || world_->rules.has_servants) return;
  for (const std::string& name : tenon::test::names_in("/dev/shm"))
    throw Failure("a name is left in /dev/shm: " + name);
  // Each survivor has two ends of its control socket, and one line is the title. The kernel closes
  // the sockets of the dead a little later.
  const std::string sockets = wait_until_empty(
      [alive] {
        const long more = fault::count_lines("/proc/self/net/unix", "") - 1 - 2 * alive;
        return more == 0 ? std::string() : std::to_string(more);
      },
      kSoonNs);
  if (!sockets.empty()) throw Failure(sockets + " sockets are left");
}

void Engine::run_round() {
  plan_ = Plan(mix(options_.seed ^ mix(++round_)), world_->rules.n_peers);
  world_->plan(&plan_);
  begin();
  wait_for_checks();
  crew_.strike(plan_.kills, plan_.stops);
  usleep(plan_.rest_us);
  settle();
  if (!world_->rules.survivors_stay) end();
  look();
}

int Engine::run() {
  const int64_t begin = now_ns();
  const auto seconds = [begin] { return static_cast<double>(now_ns() - begin) / 1e9; };
  std::string failure;
  try {
    while (round_ < options_.rounds && crew_.kills() < options_.kills &&
           seconds() < options_.seconds)
      run_round();
    plan_.at_end.reset();
    end();
    look();
    if (options_.rounds == UINT64_MAX && crew_.kills() < options_.kills)
      throw Failure("the time is over, and " + std::to_string(options_.kills) +
                    " kills were wanted");
    failure = world_->missed(crew_.kills());
  } catch (const std::exception& caught) {
    failure = caught.what();
  }
  if (!failure.empty()) report(failure);
  // Only processes that ended by SIGKILL count, as waitpid reports it.
  std::printf("%llu kills in %llu rounds, %.1f s\n", number(crew_.kills()), number(round_),
              seconds());
  print_counts();
  if (world_->broken == nullptr) return failure.empty() ? 0 : 1;
  const char* const shows_as = world_->broken->shows_as;
  const bool found =
      board_->wrong > 0 || (shows_as != nullptr && failure.find(shows_as) != std::string::npos);
  std::printf("%s\n", found ? "found, as it had to be" : "the planted fault was not found");
  return found ? 0 : 1;
}

void Engine::report(const std::string& failure) {
  std::printf("%s in round %llu of seed %llu: %s\n", board_->wrong > 0 ? "WRONG BYTE" : "FAILED",
              number(round_), number(options_.seed), failure.c_str());
  for (const LinkPlan& link : plan_.links) {
    std::printf("peer %u (pid %d) %s to peer %u (pid %d)\n", link.from,
                board_->slots[link.from].pid.load(), world_->describe(link).c_str(), link.to,
                board_->slots[link.to].pid.load());
  }
  std::printf("dead:");
  for (uint32_t i = 0; i < plan_.order.size(); ++i) {
    if (!crew_.lives(i)) std::printf(" %u", i);
  }
  std::printf("; roles:");
  for (const uint32_t role : plan_.roles) std::printf(" %u", role);
  std::printf("\n%s", world_->printed_by_servants().c_str());
  crew_.print_processes();
  crew_.kill_all();
}

void Engine::print_counts() const {
  crew_.print_kills();
  for (size_t i = 0; i < world_->rules.counts.size(); ++i)
    std::printf("%llu %s, ", number(board_->counts[i]), world_->rules.counts[i]);
  std::printf("%llu times checked\n", number(board_->checked));
  std::printf("%llu children, %llu of them killed, %llu ended after their parents\n",
              number(board_->forks), number(board_->killed_children), number(crew_.orphans()));
  std::printf("slowest: all is gone after %.1f ms", milliseconds(slowest_look_ns_));
  for (size_t i = 0; i < slowest_.size(); ++i)
    std::printf(", every peer %s after %.1f ms", world_->rules.phases[i].meaning,
                milliseconds(slowest_[i]));
  std::printf("\n");
}

}  // namespace
}  // namespace storm

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  const std::unique_ptr<storm::World> world = storm::make_world();
  storm::Options options;
  if (!storm::parse(argc, argv, world.get(), &options)) {
    storm::print_usage(argv[0], world->rules);
    return 2;
  }
  const storm::Rules& rules = world->rules;
  REQUIRE(rules.n_peers <= storm::kMostPeers && rules.counts.size() <= storm::kMostCounts &&
          rules.ops.size() + storm::kFirstOp <= storm::kMostOps);
  std::printf("seed %llu\n", storm::number(options.seed));
  if (TENON_TEST_ASAN)
    std::printf(
        "no peer forks: AddressSanitizer's allocator has locks that a fork beside another thread "
        "can meet held\n");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  // The storm gets a /dev/shm and abstract sockets of its own, so that everything there belongs to
  // this storm.
  world->is_alone = tenon::test::enter_namespaces(CLONE_NEWNS | CLONE_NEWNET) &&
                    tenon::test::mount_own_tmpfs("/dev/shm", "mode=1777");
  if (!world->is_alone)
    std::printf("no namespaces of its own (%s): names and sockets are not counted\n",
                std::strerror(errno));
  if (!world->is_alone && world->rules.has_servants) return support::kSkipped;
  world->board = storm::make_shared_memory<storm::Board>();
  return storm::Engine(world.get(), options).run();
}

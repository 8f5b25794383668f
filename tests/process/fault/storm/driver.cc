#include "process/fault/storm/driver.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "process/fault/storm/order.h"
#include "process/fault/storm/peer.h"

namespace storm {

void Storm::spawn(uint32_t index) {
  const uint64_t seed = mix(seed_ ^ mix(++born_));
  crew_.spawn(index,
              [&](int control) { Peer(board_, &board_->slots[index], control, seed).run(); });
}

void Storm::tell_all(char what) {
  Order order;
  order.what = what;
  crew_.tell_all(&order, sizeof order);
}

void Storm::begin(const Plan& plan) {
  for (uint32_t i = 0; i < kPeers; ++i) {
    if (!crew_.lives(i)) spawn(i);
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
    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) != 0)
      throw Failure("no socket for a link");
    add(link.from, true, link.carrier, ends[0]);
    add(link.to, false, link.carrier, ends[1]);
  }
  for (uint32_t i = 0; i < kPeers; ++i) {
    orders[i].what = 'R';
    orders[i].seed = plan.seed;
    orders[i].hostile = static_cast<int32_t>(i) == plan.hostile;
    const bool told = crew_.tell(i, &orders[i], sizeof orders[i], fds[i]);
    for (const int fd : fds[i]) close(fd);
    if (!told) throw Failure("a peer does not listen");
  }
  crew_.await_all('B', kPatienceNs, "began");
}

void Storm::settle() {
  tell_all('S');
  crew_.await_all('L', kPatienceNs, "let go of what it had");
  crew_.reap_orphans(kPatienceNs);
  const int64_t let_go = now_ns();
  crew_.await_all('Z', kSoonNs, "that lent got back what it had lent");
  slowest_lent_ns_ = std::max(slowest_lent_ns_, now_ns() - let_go);
  tell_all('T');
  const int64_t closed = now_ns();
  crew_.await_all('D', kPatienceNs, "has said what is left");
  slowest_left_ns_ = std::max(slowest_left_ns_, now_ns() - closed);
  crew_.look_for_wrong_bytes();
}

void Storm::look_at_what_is_left() {
  const long alive = crew_.count_living();
  if (const auto left = static_cast<long>(crew_.children().size()); left != alive)
    throw Failure(std::to_string(left) + " processes, of which " + std::to_string(alive) +
                  " should be there");
  const long fds = fault::count_open_fds() - alive;
  if (!fds_) fds_ = fds;
  if (fds != *fds_)
    throw Failure("the driver has " + std::to_string(fds) + " fds, not " + std::to_string(*fds_));
  if (!alone_) return;
  if (!std::filesystem::is_empty("/dev/shm"))
    throw Failure("a name is left in /dev/shm: " +
                  std::filesystem::directory_iterator("/dev/shm")->path().string());
  // One line is the title, and each survivor has two ends of its control socket. The kernel closes
  // the sockets of the dead a little later.
  const long wanted = 1 + 2 * alive;
  constexpr int64_t kPauseUs = 500;
  long sockets = 0;
  for (int64_t pauses = kSoonNs / 1000 / kPauseUs;
       (sockets = fault::count_lines("/proc/self/net/unix", "")) != wanted && pauses > 0; --pauses)
    usleep(kPauseUs);
  if (sockets != wanted) throw Failure(std::to_string(sockets - wanted) + " sockets are left");
}

void Storm::run_round(uint64_t number) {
  plan_ = make_plan(seed_, number, cycles_);
  hostile_rounds_ += plan_.hostile >= 0 ? 1 : 0;
  begin(plan_);
  crew_.strike(plan_.kills, plan_.stops);
  settle();
  look_at_what_is_left();
}

// The living peers end in order, so that a leak checker can check them.
void Storm::end() {
  tell_all('Q');
  crew_.dismiss(nullptr);
  look_at_what_is_left();
}

void Storm::print() const {
  const auto number = [](const std::atomic<uint64_t>& value) {
    return static_cast<unsigned long long>(value.load());
  };
  crew_.print_kills();
  std::printf(
      "%llu blocks lent, %llu received, %llu messages lent on, %llu descriptors, %llu times read, "
      "%llu times full\n",
      number(board_->lent), number(board_->received), number(board_->forwarded),
      number(board_->descriptors), number(board_->checked), number(board_->full));
  std::printf(
      "%llu children that read on, %llu of them killed by then, %llu after their parents; %llu "
      "rounds with a hostile borrower, %llu pages "
      "scribbled over\n",
      number(board_->forks), number(board_->killed_children),
      static_cast<unsigned long long>(crew_.orphans()),
      static_cast<unsigned long long>(hostile_rounds_), number(board_->scribbles));
  std::printf("slowest: nothing lent after %.1f ms, nothing left after %.1f ms\n",
              static_cast<double>(slowest_lent_ns_) / 1e6,
              static_cast<double>(slowest_left_ns_) / 1e6);
}

void Storm::print_where() const {
  for (const LinkPlan& link : plan_.links) {
    static constexpr std::array<const char*, 3> kCarriers = {"stream", "packets", "descriptors"};
    std::printf("peer %u (pid %d) lends to peer %u (pid %d) by %s\n", link.from,
                board_->slots[link.from].pid.load(), link.to, board_->slots[link.to].pid.load(),
                kCarriers[static_cast<size_t>(link.carrier)]);
  }
  std::printf("dead:");
  for (uint32_t i = 0; i < kPeers; ++i) {
    if (!crew_.lives(i)) std::printf(" %u", i);
  }
  std::printf("; hostile: %d\n", plan_.hostile);
  crew_.print_processes();
}

}  // namespace storm

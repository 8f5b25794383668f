#include "process/cuda/storm/driver.h"

#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "process/fault/storm/wire.h"

namespace storm::device {

void Storm::begin() {
  for (auto& of_peer : board_->custody) {
    for (auto& each : of_peer) each.store(0, std::memory_order_relaxed);
  }
  for (uint32_t i = 0; i < kPeers; ++i) {
    const uint64_t seed = mix(seed_ ^ mix(++born_));
    crew_.spawn(i, [&](int control) { Peer(board_, i, control, seed).run(); });
    pids_.insert(board_->slots[i].pid);
  }
  std::array<Order, kPeers> orders{};
  std::array<std::vector<int>, kPeers> fds;
  const auto add = [&](uint32_t who, bool out, uint32_t other, int fd) {
    Order& order = orders[who];
    REQUIRE(order.n_links < kMostLinks);
    order.out[order.n_links] = out;
    order.other[order.n_links++] = other;
    fds[who].push_back(fd);
  };
  for (const LinkPlan& link : plan_.links) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
      throw Failure("no socket for a link");
    add(link.from, true, link.to, ends[0]);
    add(link.to, false, link.from, ends[1]);
  }
  for (uint32_t i = 0; i < kPeers; ++i) {
    orders[i].what = 'R';
    orders[i].seed = plan_.seed;
    orders[i].latency_us = plan_.latency_us[i];
    orders[i].events = plan_.events[i];
    orders[i].broken = broken_;
    const bool told = crew_.tell(i, &orders[i], sizeof orders[i], fds[i]);
    for (const int fd : fds[i]) close(fd);
    if (!told) throw Failure("a peer does not listen");
  }
  crew_.await_all('B', kPatienceNs, "began");
}

void Storm::tell_all(char what) {
  Order order;
  order.what = what;
  for (uint32_t i = 0; i < kPeers; ++i) order.dead |= crew_.lives(i) ? 0 : 1U << i;
  crew_.tell_all(&order, sizeof order);
}

// All peers finish each step before the next step begins.
void Storm::settle() {
  tell_all('S');
  crew_.await_all('L', kPatienceNs, "stopped sending");
  crew_.reap_orphans(kPatienceNs);
  tell_all('T');
  crew_.await_all('D', kPatienceNs, "let go of what it was sent");
  const int64_t let_go = now_ns();
  tell_all('U');
  crew_.await_all('Z', kPatienceNs, "got back what it had lent");
  slowest_back_ns_ = std::max(slowest_back_ns_, now_ns() - let_go);
  tell_all('Q');
  crew_.dismiss(plan_.kills_at_end ? &plan_.at_end : nullptr);
  crew_.reap_orphans(kPatienceNs);
  crew_.look_for_wrong_bytes();
}

// A new process does this, because the driver of the storm must not start the fake driver.
void Storm::look_at_what_is_left() {
  const int64_t begin = now_ns();
  std::fflush(nullptr);
  const pid_t looker = fork();
  if (looker == 0) look();
  int status = 0;
  REQUIRE(waitpid(looker, &status, 0) == looker);
  crew_.look_for_wrong_bytes();
  if (status != 0)
    throw Failure("who looks at what is left ended with " + fault::describe_status(status));
  slowest_left_ns_ = std::max(slowest_left_ns_, now_ns() - begin);
}

void Storm::run_round(uint64_t number) {
  plan_ = make_plan(seed_, number, broken_);
  begin();
  crew_.strike(plan_.kills, plan_.stops);
  settle();
  look_at_what_is_left();
}

void Storm::print() const {
  const auto number = [](const std::atomic<uint64_t>& value) {
    return static_cast<unsigned long long>(value.load());
  };
  crew_.print_kills();
  std::printf(
      "%llu blocks wrapped in %llu allocations, %llu and %llu of them given back by processes that "
      "lived to say it\n",
      number(board_->wrapped), number(board_->allocations), number(board_->freed),
      number(board_->allocations_freed));
  std::printf(
      "%llu messages sent, %llu of them without an event, in %llu files and more; %llu passed on, "
      "%llu opened, %llu by their sender, %llu "
      "given back "
      "unopened, %llu times their sender was gone\n",
      number(board_->shared), number(board_->without_event), number(board_->files_ended),
      number(board_->passed_on), number(board_->opened), number(board_->opened_own),
      number(board_->unopened), number(board_->sender_gone));
  std::printf("%llu times read, %llu times what its sender had no time to write\n",
              number(board_->checked), number(board_->unfinished));
  std::printf(
      "%llu children that released what they inherited, %llu of them killed by then, %llu after "
      "their parents\n",
      number(board_->forks), number(board_->killed_children),
      static_cast<unsigned long long>(crew_.orphans()));
  std::printf(
      "%llu blocks kept for dead receivers until their sender ended, %llu survivors that got all "
      "back\n",
      number(board_->kept), number(board_->all_back));
  std::printf("slowest: all back after %.1f ms, nothing left after %.1f ms\n",
              static_cast<double>(slowest_back_ns_) / 1e6,
              static_cast<double>(slowest_left_ns_) / 1e6);
}

void Storm::print_where() const {
  for (const LinkPlan& link : plan_.links) {
    std::printf("peer %u (pid %d) sends to peer %u (pid %d)\n", link.from,
                board_->slots[link.from].pid.load(), link.to, board_->slots[link.to].pid.load());
  }
  std::printf("dead:");
  for (uint32_t i = 0; i < kPeers; ++i) {
    if (!crew_.lives(i)) std::printf(" %u", i);
  }
  std::printf("\n");
  crew_.print_processes();
}

}  // namespace storm::device

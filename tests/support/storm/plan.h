// The plan of one round, made from its seed: the links, and who is killed or stopped when and how.
// A world fills it (World::plan) with the functions of this file.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "support/storm/board.h"
#include "support/storm/pattern.h"

namespace storm {

// A socket pair between two peers.
struct LinkPlan {
  uint32_t from = 0;
  uint32_t to = 0;
  uint8_t kind = 0;  // the world's own
  int type = SOCK_SEQPACKET;
};

enum class Way : uint8_t {
  kWatcher,       // the driver sends SIGKILL after some microseconds
  kTimer,         // a timer of the victim fires nanoseconds after a call began
  kSteps,         // single steps from the beginning of a call
  kServiceSteps,  // single steps of the service thread
  kCount
};

struct KillPlan {
  uint32_t victim = 0;
  Way way = Way::kWatcher;
  uint32_t delay_us = 0;  // before this kill's turn
  uint32_t op = 0;        // kTimer, kSteps
  uint32_t timer_ns = 0;  // kTimer
  uint32_t calls = 0;     // kSteps, kServiceSteps: number of starts and ends of system calls
  uint32_t steps = 0;     // the number of instructions after that
};

// Stops a peer with SIGSTOP, so that it does not react while another peer is killed.
struct StopPlan {
  uint32_t who = 0;
  uint32_t delay_us = 0;  // from the stop to the kill
};

struct Plan {
  Plan(uint64_t its_seed, uint32_t n_peers)
      : seed(its_seed), random(its_seed), order(n_peers), roles(n_peers) {
    std::iota(order.begin(), order.end(), 0);
    shuffle();
  }

  uint64_t seed;
  Random random;
  std::vector<uint32_t> order;  // all peers in random order
  std::vector<uint32_t> roles;  // the world's own, for each peer
  std::vector<LinkPlan> links;
  std::vector<StopPlan> stops;
  std::vector<KillPlan> kills;
  std::optional<KillPlan> at_end;  // while the survivors end
  uint64_t checks = 0;             // The kills begin when the peers have checked so many blocks.
  uint32_t rest_us = 0;            // how long the survivors work on after the last kill

  bool lends(uint32_t who) const {
    return std::any_of(links.begin(), links.end(),
                       [who](const LinkPlan& each) { return each.from == who; });
  }
  bool borrows(uint32_t who) const {
    return std::any_of(links.begin(), links.end(),
                       [who](const LinkPlan& each) { return each.to == who; });
  }
  void shuffle() {
    for (uint64_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
  }
  void link(uint64_t from, uint64_t to, uint8_t kind = 0, int type = SOCK_SEQPACKET) {
    links.push_back({order[from], order[to], kind, type});
  }
  void add_stops() {
    for (uint64_t n = random.below(3); n > 0; --n)
      stops.push_back({static_cast<uint32_t>(random.below(order.size())),
                       static_cast<uint32_t>(random.up_to(8192))});
  }
  // A kill in one of these calls of a lender or of a borrower, or at any moment.
  void add_kill(uint32_t victim, const std::vector<uint32_t>& of_lender,
                const std::vector<uint32_t>& of_borrower) {
    KillPlan kill;
    kill.victim = victim;
    kill.delay_us = static_cast<uint32_t>(random.up_to(4096));
    const uint64_t dice = random.below(100);
    kill.way = dice < 35                     ? Way::kWatcher
               : dice < 60                   ? Way::kTimer
               : dice < 90 || !lends(victim) ? Way::kSteps
                                             : Way::kServiceSteps;
    const bool as_lender = lends(victim) && (!borrows(victim) || random.chance(50));
    const std::vector<uint32_t>& ops = as_lender ? of_lender : of_borrower;
    kill.op = ops[random.below(ops.size())];
    // A call takes some microseconds, unless it waits.
    kill.timer_ns = static_cast<uint32_t>(random.up_to(kSanitized ? 1 << 20 : 1 << 18));
    kill.calls = random.chance(50)
                     ? static_cast<uint32_t>(random.below(kill.way == Way::kServiceSteps ? 8 : 40))
                     : 0;
    kill.steps = static_cast<uint32_t>(random.up_to(4096));
    kills.push_back(kill);
  }
};

}  // namespace storm

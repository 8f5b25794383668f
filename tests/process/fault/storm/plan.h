// The plan of one round, made from its seed: the links, the hostile peer, and the time and way of
// each kill.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "process/fault/storm/board.h"
#include "process/fault/storm/pattern.h"

namespace storm {

// A link is a connection over one of two kinds of socket, or descriptors sent by hand.
enum class Carrier : uint8_t { kStream, kPacket, kDescriptor };

struct LinkPlan {
  uint32_t from = 0;
  uint32_t to = 0;
  Carrier carrier = Carrier::kStream;
};

struct Plan {
  uint64_t seed = 0;
  std::vector<LinkPlan> links;
  int32_t hostile = -1;
  std::vector<StopPlan> stops;
  std::vector<KillPlan> kills;

  bool lends(uint32_t who) const {
    return std::any_of(links.begin(), links.end(),
                       [who](const LinkPlan& each) { return each.from == who; });
  }
  bool borrows(uint32_t who) const {
    return std::any_of(links.begin(), links.end(),
                       [who](const LinkPlan& each) { return each.to == who; });
  }
};

inline Carrier some_carrier(Random* random) {
  const uint64_t dice = random->below(10);
  return dice < 4 ? Carrier::kStream : dice < 8 ? Carrier::kPacket : Carrier::kDescriptor;
}

inline KillPlan plan_kill(const Plan& plan, uint32_t victim, Random* random) {
  KillPlan kill;
  kill.victim = victim;
  kill.delay_us = static_cast<uint32_t>(random->up_to(4096));
  const uint64_t dice = random->below(100);
  kill.way = dice < 35                          ? Way::kWatcher
             : dice < 60                        ? Way::kTimer
             : dice < 90 || !plan.lends(victim) ? Way::kSteps
                                                : Way::kServiceSteps;
  const Op lender[] = {Op::kSend, Op::kSend, Op::kMake, Op::kRelease};
  const Op borrower[] = {Op::kReceive, Op::kReceive, Op::kRelease, Op::kRelease};
  const bool as_lender = plan.lends(victim) && (!plan.borrows(victim) || random->chance(50));
  kill.op = static_cast<uint32_t>((as_lender ? lender : borrower)[random->below(4)]);
  // A call takes some microseconds, unless it waits.
  kill.timer_ns = static_cast<uint32_t>(random->up_to(kSanitized ? 1 << 20 : 1 << 18));
  kill.calls = random->chance(50)
                   ? static_cast<uint32_t>(random->below(kill.way == Way::kServiceSteps ? 8 : 24))
                   : 0;
  kill.steps = static_cast<uint32_t>(random->up_to(4096));
  return kill;
}

// With `cycles`, a peer is sometimes lent its own memory, or memory that it lent on. This is off by
// default: in a circle of three or more, of which one was killed, tokens can keep each other alive
// (docs/format/lease.md, "Limits").
inline Plan make_plan(uint64_t seed, uint64_t round, bool cycles) {
  Plan plan;
  plan.seed = mix(seed ^ mix(round));
  Random random(plan.seed);
  std::vector<uint32_t> order(kPeers);
  std::iota(order.begin(), order.end(), 0);
  for (uint32_t i = kPeers - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
  const auto link = [&](uint32_t i, uint32_t j, Carrier carrier) {
    plan.links.push_back({order[i], order[j], carrier});
  };
  // Every peer gets at least one link: each later one borrows from an earlier one. Then come a
  // chain of three, and a few more links.
  for (uint32_t j = 1; j < kPeers; ++j)
    link(static_cast<uint32_t>(random.below(j)), j, some_carrier(&random));
  link(0, 1, Carrier::kPacket);
  link(1, 2, Carrier::kStream);
  for (uint64_t more = random.below(5); more > 0; --more) {
    const auto j = static_cast<uint32_t>(1 + random.below(kPeers - 1));
    link(static_cast<uint32_t>(random.below(j)), j, some_carrier(&random));
  }
  if (random.chance(cycles ? 30 : 0)) {
    const auto j = static_cast<uint32_t>(1 + random.below(kPeers - 1));
    link(j, static_cast<uint32_t>(random.below(j)), some_carrier(&random));
  }
  for (uint32_t i = kPeers; i-- > 0 && plan.hostile < 0;) {
    if (!plan.lends(order[i]) && random.chance(25)) plan.hostile = static_cast<int32_t>(order[i]);
  }
  for (uint64_t stops = random.below(3); stops > 0; --stops)
    plan.stops.push_back(
        {static_cast<uint32_t>(random.below(kPeers)), static_cast<uint32_t>(random.up_to(8192))});
  // Two to all of the peers die. The hostile peer is always one of them.
  const uint64_t victims = 2 + random.below(kPeers - 1);
  std::vector<uint32_t> doomed = order;
  for (uint32_t i = kPeers - 1; i > 0; --i) std::swap(doomed[i], doomed[random.below(i + 1)]);
  if (const auto at = std::find(doomed.begin(), doomed.end(), static_cast<uint32_t>(plan.hostile));
      at != doomed.end())
    std::swap(*at, doomed[random.below(victims)]);
  for (uint64_t i = 0; i < victims; ++i) plan.kills.push_back(plan_kill(plan, doomed[i], &random));
  return plan;
}

}  // namespace storm

// The plan of one round, which its seed decides: who sends to whom, how slow each peer's streams
// are, and which peers are killed, when and how.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <vector>

#include "process/cuda/storm/board.h"
#include "process/fault/storm/pattern.h"

namespace storm::device {

inline constexpr size_t kMostLinks = 16;  // of one peer

// A wrong use of the library by the peers. The storm has to find it.
enum class Break : uint8_t {
  kNothing,
  kGiveBackEarly,  // a receiver decrements its counter as it opens
  kDoNotWait       // a receiver's stream does not wait for the event
};

struct LinkPlan {
  uint32_t from = 0;
  uint32_t to = 0;
};

struct Plan {
  uint64_t seed = 0;
  std::vector<LinkPlan> links;
  std::array<uint32_t, kPeers> latency_us{};  // of each operation in a stream
  // The interprocess events that the driver grants each process; 0: no limit.
  std::array<uint32_t, kPeers> events{};
  std::vector<StopPlan> stops;
  std::vector<KillPlan> kills;
  bool kills_at_end = false;
  KillPlan at_end;
};

inline KillPlan plan_kill(const Plan& plan, uint32_t victim, Random* random) {
  const auto is = [&](uint32_t LinkPlan::* end) {
    return std::any_of(plan.links.begin(), plan.links.end(),
                       [&](const LinkPlan& each) { return each.*end == victim; });
  };
  const bool sends = is(&LinkPlan::from);
  const bool as_sender = sends && (!is(&LinkPlan::to) || random->chance(50));
  static constexpr std::array<Op, 6> kOfSender = {Op::kShare, Op::kShare,   Op::kShare,
                                                  Op::kWrap,  Op::kRelease, Op::kCollect};
  static constexpr std::array<Op, 6> kOfReceiver = {Op::kOpen,    Op::kOpen, Op::kRelease,
                                                    Op::kRelease, Op::kUse,  Op::kUnopened};
  KillPlan kill;
  kill.victim = victim;
  kill.delay_us = static_cast<uint32_t>(random->up_to(4096));
  const uint64_t dice = random->below(100);
  kill.way = dice < 35             ? Way::kWatcher
             : dice < 60           ? Way::kTimer
             : dice < 92 || !sends ? Way::kSteps
                                   : Way::kServiceSteps;
  kill.op = static_cast<uint32_t>((as_sender ? kOfSender : kOfReceiver)[random->below(6)]);
  kill.timer_ns = static_cast<uint32_t>(random->up_to(kSanitized ? 1 << 20 : 1 << 18));
  kill.calls = random->chance(50)
                   ? static_cast<uint32_t>(random->below(kill.way == Way::kServiceSteps ? 8 : 40))
                   : 0;
  kill.steps = static_cast<uint32_t>(random->up_to(4096));
  return kill;
}

inline Plan make_plan(uint64_t seed, uint64_t round, Break broken) {
  Plan plan;
  plan.seed = mix(seed ^ mix(round));
  Random random(plan.seed);
  std::array<uint32_t, kPeers> order{};
  std::iota(order.begin(), order.end(), 0);
  for (uint32_t i = kPeers - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
  const auto link = [&](uint64_t i, uint64_t j) { plan.links.push_back({order[i], order[j]}); };
  // Every peer has at least one link, and in a circle a message can come back to its sender.
  for (uint32_t j = 1; j < kPeers; ++j) link(random.below(j), j);
  for (uint64_t more = 1 + random.below(4); more > 0; --more) {
    const uint64_t i = random.below(kPeers);
    link(i, (i + 1 + random.below(kPeers - 1)) % kPeers);
  }
  static constexpr std::array<uint32_t, 4> kLatencies = {0, 0, 100, 600};
  for (uint32_t i = 0; i < kPeers; ++i) {
    plan.latency_us[i] = kLatencies[random.below(kLatencies.size())];
    // A receiver that does not wait reads wrong bytes only while its sender's stream is behind.
    if (broken == Break::kDoNotWait) plan.latency_us[i] = kLatencies.back();
    plan.events[i] = random.chance(15) ? 2 : 0;
  }
  for (uint64_t stops = random.below(3); stops > 0; --stops)
    plan.stops.push_back(
        {static_cast<uint32_t>(random.below(kPeers)), static_cast<uint32_t>(random.up_to(8192))});
  for (uint32_t i = kPeers - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
  const uint64_t victims = 3 + random.below(kPeers - 2);
  for (uint64_t i = 0; i < victims; ++i) plan.kills.push_back(plan_kill(plan, order[i], &random));
  // In some rounds the kills begin while the peers start CUDA. In most they begin when all hold
  // something of each other.
  plan.kills[0].delay_us +=
      static_cast<uint32_t>(random.chance(20) ? random.below(4000) : 8000 + random.below(16000));
  plan.kills_at_end = victims < kPeers && random.chance(25);
  if (plan.kills_at_end) {
    plan.at_end.victim = order[victims];
    plan.at_end.delay_us = static_cast<uint32_t>(random.up_to(2048));
  }
  return plan;
}

}  // namespace storm::device

// The kill storm of leases. Each round has lenders, borrowers, forwarders, their children and
// sometimes a hostile borrower. Most of them are killed at random instructions. Then the survivors
// report what is left, which must be nothing within a second.
#include <array>
#include <memory>

#include "process/fault/storm/peer.h"
#include "support/storm/engine.h"

namespace storm {
namespace {

constexpr uint32_t kPeers = 7;

constexpr std::array kOps = {"tenon_storage_new", "tenon_send", "tenon_recv", "release",
                             "reading",           "connecting", "harming"};
static_assert(kOps.size() == size_t{kEndOfOps} - kFirstOp);
constexpr std::array kCounts = {"blocks lent",      "blocks received",
                                "messages lent on", "descriptors",
                                "times full",       "pages overwritten by a hostile borrower"};
static_assert(kCounts.size() == kEndOfCounts);
constexpr std::array kPhases = {Phase{"let go of what it had"},
                                Phase{"got back what it had lent", kSoonNs},
                                Phase{"has said what is left"}};
// The planted fault: borrowers read memory that they gave back.
constexpr std::array kBreaks = {Break{"give-back-early"}};
constexpr std::array kOptions = {"--cycles"};

class Leases : public World {
 public:
  Leases()
      : World({.n_peers = kPeers,
               .ops = kOps,
               .counts = kCounts,
               .phases = kPhases,
               .breaks = kBreaks,
               .options = kOptions,
               .survivors_stay = true}) {}

  // With --cycles, a peer is sometimes lent its own memory, or memory that it lent on. This is off
  // by default: in a circle of three or more, of which one was killed, tokens can keep each other
  // alive (docs/format/lease.md, "Limits").
  void plan(Plan* plan) override {
    Random& random = plan->random;
    const auto link = [plan](uint64_t i, uint64_t j, Carrier carrier) {
      plan->link(i, j, carrier, carrier == kStream ? SOCK_STREAM : SOCK_SEQPACKET);
    };
    const auto some_carrier = [&random] {
      const uint64_t dice = random.below(10);
      return dice < 4 ? kStream : dice < 8 ? kPacket : kDescriptor;
    };
    // Every peer gets at least one link: each later one borrows from an earlier one. Then come a
    // chain of three, and a few more links.
    for (uint32_t j = 1; j < kPeers; ++j) link(random.below(j), j, some_carrier());
    link(0, 1, kPacket);
    link(1, 2, kStream);
    for (uint64_t more = random.below(5); more > 0; --more) {
      const uint64_t j = 1 + random.below(kPeers - 1);
      link(random.below(j), j, some_carrier());
    }
    if (given.contains("--cycles") && random.chance(30)) {
      const uint64_t j = 1 + random.below(kPeers - 1);
      link(j, random.below(j), some_carrier());
    }
    // Two to all of the peers die. The hostile peer is always one of them.
    const uint64_t victims = 2 + random.below(kPeers - 1);
    const auto hostile = std::find_if(plan->order.rbegin(), plan->order.rend(), [&](uint32_t who) {
      return !plan->lends(who) && random.chance(25);
    });
    const bool has_hostile = hostile != plan->order.rend();
    const uint32_t who = has_hostile ? *hostile : kPeers;
    plan->shuffle();
    if (has_hostile) {
      plan->roles[who] = kHostile;
      std::swap(*std::find(plan->order.begin(), plan->order.end(), who),
                plan->order[random.below(victims)]);
    }
    plan->add_stops();
    for (uint64_t i = 0; i < victims; ++i)
      plan->add_kill(plan->order[i], {kSend, kSend, kMake, kRelease},
                     {kReceive, kReceive, kRelease, kRelease});
  }

  std::unique_ptr<Peer> make_peer(const Seat& seat) override {
    return std::make_unique<LeasePeer>(seat, is_broken_by("give-back-early"));
  }

  std::string describe(const LinkPlan& link) override {
    static constexpr std::array kCarriers = {"lends by a stream", "lends by packets",
                                             "lends by descriptors"};
    return kCarriers[link.kind];
  }
};

}  // namespace

std::unique_ptr<World> make_world() { return std::make_unique<Leases>(); }

}  // namespace storm

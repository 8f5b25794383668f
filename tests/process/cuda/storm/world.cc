// The kill storm of device memory, on the fake driver. Each round starts processes that lend each
// other memory of the fake's devices, and kills most of them at random instructions. The survivors
// must see the right bytes and get back what they lent. When the last process has ended, nothing
// may be left.
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "process/cuda/storm/left.h"
#include "process/cuda/storm/peer.h"
#include "support/storm/engine.h"
#include "support/temporary_directory.h"

namespace storm {
namespace {

constexpr std::array kOps = {
    "starting CUDA", "wrapping", "tenon_share_cuda",        "tenon_open_cuda",
    "using",         "release",  "giving it back unopened", "tenon_cuda_collect"};
static_assert(kOps.size() == size_t{kEndOfOps} - kFirstOp);
constexpr std::array kCounts = {"blocks wrapped",
                                "given back by processes that lived to say it",
                                "allocations",
                                "freed likewise",
                                "messages sent",
                                "without an event",
                                "counter files ended early",
                                "messages passed on",
                                "opened",
                                "opened by their sender",
                                "given back unopened",
                                "times the sender was gone",
                                "times the sender had no time to write",
                                "blocks kept for dead receivers until their sender ended",
                                "survivors that got all back"};
static_assert(kCounts.size() == kEndOfCounts);
// All peers finish each phase before the next one begins.
constexpr std::array kPhases = {Phase{"stopped sending"}, Phase{"let go of what it was sent"},
                                Phase{"got back what it had lent"}};
// An early give-back can show before any byte is read: the lender frees memory that the receiver
// has open.
constexpr std::array kBreaks = {Break{"give-back-early", "is open elsewhere"},
                                Break{"do-not-wait"}};

class Devices : public World {
 public:
  Devices()
      : World({.n_peers = kPeers,
               .ops = kOps,
               .counts = kCounts,
               .phases = kPhases,
               .breaks = kBreaks}) {
    setenv("FAKE_CUDA_WORLD", folder_.path().c_str(), 1);
  }

  void plan(Plan* plan) override {
    Random& random = plan->random;
    // Every peer has at least one link, and in a circle of links a message can come back to its
    // sender.
    for (uint32_t j = 1; j < kPeers; ++j) plan->link(random.below(j), j);
    for (uint64_t more = 1 + random.below(4); more > 0; --more) {
      const uint64_t i = random.below(kPeers);
      plan->link(i, (i + 1 + random.below(kPeers - 1)) % kPeers);
    }
    static constexpr std::array<uint32_t, 4> kLatencies = {0, 0, 100, 600};
    for (PeerPlan& each : plans_) {
      each.latency_us = kLatencies[random.below(kLatencies.size())];
      // A receiver that does not wait reads wrong bytes only while its sender's stream is behind.
      if (is_broken_by("do-not-wait")) each.latency_us = kLatencies.back();
      each.events = random.chance(15) ? 2 : 0;
      each.gives_back_early = is_broken_by("give-back-early");
      each.does_not_wait = is_broken_by("do-not-wait");
    }
    plan->add_stops();
    plan->shuffle();
    const uint64_t victims = 3 + random.below(kPeers - 2);
    for (uint64_t i = 0; i < victims; ++i)
      plan->add_kill(plan->order[i], {kShare, kShare, kShare, kWrap, kRelease, kCollect},
                     {kOpen, kOpen, kRelease, kRelease, kUse, kUnopened});
    // In some rounds the kills begin while the peers start CUDA. In most they begin when all hold
    // something of each other.
    plan->kills[0].delay_us +=
        static_cast<uint32_t>(random.chance(20) ? random.below(4000) : 8000 + random.below(16000));
    if (victims < kPeers && random.chance(25))
      plan->at_end = {.victim = plan->order[victims],
                      .delay_us = static_cast<uint32_t>(random.up_to(2048))};
    for (auto& of_peer : *custody_) {
      for (auto& each : of_peer) each.store(0, std::memory_order_relaxed);
    }
  }

  std::unique_ptr<Peer> make_peer(const Seat& seat) override {
    return std::make_unique<DevicePeer>(seat, plans_[seat.index], custody_);
  }

  std::string left() override {
    std::string text = left_on_devices();
    // These files belong to allocations and exports.
    for (const std::string& name : folder_.names()) {
      if (name != "world" && name != "alive") text += " file " + name + ",";
    }
    if (!text.empty()) return text;
    // A sweep removes the names that dead processes left.
    tenon_sweep_result swept{};
    swept.struct_size = sizeof swept;
    REQUIRE_OK(tenon_filename_sweep(nullptr, &swept, err));
    return names_left();
  }

 private:
  // In a /dev/shm that others also use, only files whose maker is a process of the storm count.
  std::string names_left() const {
    std::string text;
    for (const std::string& name : tenon::test::names_in("/dev/shm")) {
      if (!is_alone) {
        std::array<char, 64> head{};
        std::ifstream file("/dev/shm/" + name, std::ios::binary);
        int32_t maker = 0;
        if (!file.read(head.data(), head.size()) || !name.starts_with("tenon-cuda-")) continue;
        std::memcpy(&maker, head.data() + 12, sizeof maker);  // docs/format/filename.md
        if (!pids.contains(maker)) continue;
      }
      text += " /dev/shm/" + name + ",";
    }
    return text;
  }

  tenon::test::TemporaryDirectory folder_{tenon::test::temporary_place() + "/tenon-cuda-storm-"};
  Custody* custody_ = make_shared_memory<Custody>();
  std::array<PeerPlan, kPeers> plans_{};
};

}  // namespace

std::unique_ptr<World> make_world() { return std::make_unique<Devices>(); }

}  // namespace storm

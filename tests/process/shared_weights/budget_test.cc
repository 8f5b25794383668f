// Processes that load at once share one budget: none slips through.
#include <array>
#include <string>
#include <vector>

#include "process/shared_weights/kit.h"

namespace sharing {
namespace {

struct BudgetRace {
  std::atomic<uint32_t> go;
  std::atomic<uint32_t> done;
  std::atomic<uint32_t> had;      // room
  std::atomic<uint32_t> refused;  // by the budget
};

TEST(SharedWeightsBudget, IsKeptByLoadersAndPublishersThatStartAtOnce) {
  IN_CHILD([] {
    constexpr uint32_t kProcesses = 8;
    constexpr uint32_t kFit = 3;
    const Scene scene(200'000);
    const std::string file = scene.file();
    struct stat facts{};
    REQUIRE(stat(file.c_str(), &facts) == 0);
    // The memory has up to 63 bytes more than the file.
    const uint64_t budget = kFit * (static_cast<uint64_t>(facts.st_size) + 64);
    for (int round = 0; round < (fault::kSanitized ? 2 : 10); ++round) {
      BudgetRace& race = *new_shared<BudgetRace>();
      const pid_t parent = getpid();
      std::vector<pid_t> children;
      for (uint32_t i = 0; i < kProcesses; ++i)
        children.push_back(fault::spawn([&, i] {
          tenon::test::die_with_parent(parent);
          auto options = tenon::test::sized<tenon_shared_weights_options>();
          options.directory = scene.directory().c_str();
          options.budget_nbytes = budget;
          const std::string name = "net-" + std::to_string(i);
          const OpenCall call =
              i % 2 == 0 ? &tenon_open_shared_weights : &tenon_publish_shared_weights;
          const tenon_wait wait = wait_ns(kLong);
          while (race.go.load() == 0) usleep(50);
          Opened opened;
          opened.outcome =
              CALL(call(file.c_str(), name.c_str(), &options, &wait, &opened.weights_, err));
          skip_without_json(opened);
          const bool is_over = opened.outcome.status == TENON_RESOURCE_EXHAUSTED &&
                               opened.outcome.detail("limit") == "budget_nbytes";
          CHECK_SAYING(opened.outcome.ok() || is_over, opened.outcome.text());
          (is_over ? race.refused : race.had).fetch_add(1);
          race.done.fetch_add(1);
          while (race.done.load() < kProcesses && fault::g_failures == 0) usleep(200);
          opened = Opened();
          _exit(fault::g_failures);
        }));
      race.go.store(1);
      for (const pid_t child : children) CHECK_EQ(fault::wait_for_child(child), 0);
      CHECK_EQ(race.had.load(), kFit);
      CHECK_EQ(race.refused.load(), kProcesses - kFit);
      CHECK(scene.is_clean());
      REQUIRE(fault::g_failures == 0);
      munmap(&race, sizeof race);
    }
  });
}

}  // namespace
}  // namespace sharing

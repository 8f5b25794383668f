// Processes that share weights are killed at every system call of a load and of an attach, and at
// random moments. There is never a second copy while one process has the first, the next process
// always gets the weights soon, and no file is left at the end.
#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "process/shared_weights/kit.h"
#include "process/storm/victim.h"
#include "support/seed.h"

namespace sharing {
namespace {

constexpr uint64_t kNbytes = 20'000;
// A step in which the next process must have the weights. A busy machine is slow.
constexpr int64_t kSoon = (fault::kSanitized ? 20 : 3) * kSecond;

int64_t open_quickly(const Scene& scene, bool loads, uint64_t inode) {
  const int64_t begin = now_ns();
  const Opened opened = must_open(scene);
  const int64_t took = now_ns() - begin;
  CHECK(took < kSoon);
  CHECK_EQ(opened.info().loaded, loads ? 1 : 0);
  CHECK(scene.has(opened.data()));
  if (inode != 0) CHECK_EQ(inode_at(opened.data()), inode);
  return took;
}

// Opens the weights in a victim that is killed at its first system call, at its second, and so on.
// `check` is called after each death. Returns the number of kills.
template <typename Check>
int kill_at_each_call(const Scene& scene, Check&& check) {
  const std::string file = scene.file();
  int step = 0;
  for (bool is_over = false; !is_over; ++step) {
    storm::Victim victim(
        "open", [] {}, [&] { (void)open_weights(scene, {.path = file.c_str()}).outcome; });
    for (int i = 0; i <= step && !is_over; ++i) is_over = !victim.to_next_call();
    victim.kill();
    REQUIRE(victim.went_well());
    check();
    REQUIRE(fault::g_failures == 0);
  }
  return step;
}

// The loader dies before it listens, while it loads, before and after the freeze, and while it
// leaves. The next process loads, and nothing is left.
TEST(SharedWeightsKilled, LoadersAtEachSystemCall) {
  SKIP_UNDER_SANITIZERS("they make system calls of their own");
  IN_CHILD([] {
    const Scene scene(kNbytes);
    (void)must_open(scene);
    const int steps = kill_at_each_call(scene, [&] {
      open_quickly(scene, true, 0);
      CHECK(scene.is_clean());
    });
    CHECK_SAYING(steps > 60, std::to_string(steps));
  });
}

// An opener dies at any step. The server goes on, and does not count it.
TEST(SharedWeightsKilled, OpenersAtEachSystemCall) {
  SKIP_UNDER_SANITIZERS("they make system calls of their own");
  IN_CHILD([] {
    const Scene scene(kNbytes);
    Report& report = *new_shared<Report>();
    const pid_t server = spawn_holder(scene, &report);
    await_weights(report);
    const int steps =
        kill_at_each_call(scene, [&] { open_quickly(scene, false, report.inode.load()); });
    CHECK_SAYING(steps > 40, std::to_string(steps));
    leave_now(server, &report);
    CHECK(scene.is_clean());
  });
}

// The server is killed again and again. A survivor takes over, and every newcomer gets the same
// memory.
TEST(SharedWeightsKilled, ServersWithSurvivors) {
  IN_CHILD([] {
    constexpr size_t kHolders = 4;
    constexpr int kRounds = fault::kSanitized ? 15 : 60;
    using Reports = std::array<Report, kHolders>;
    const Scene scene(kNbytes);
    Reports& reports = *new_shared<Reports>();
    std::array<pid_t, kHolders> children{};
    for (size_t i = 0; i < kHolders; ++i) children[i] = spawn_holder(scene, &reports[i]);
    for (const Report& each : reports) await_weights(each);
    const uint64_t inode = reports[0].inode.load();
    std::vector<int64_t> times;
    for (int round = 0; round < kRounds; ++round) {
      size_t server = kHolders;
      REQUIRE(fault::wait_until([&] {
        server = 0;
        while (server < kHolders && reports[server].serves.load() == 0) ++server;
        return server < kHolders;
      }));
      kill_now(children[server]);
      times.push_back(open_quickly(scene, false, inode));
      new (&reports[server]) Report();
      children[server] = spawn_holder(scene, &reports[server]);
      await_weights(reports[server]);
      CHECK_EQ(reports[server].inode.load(), inode);
      CHECK_EQ(reports[server].loads.load(), 0);
      REQUIRE(fault::g_failures == 0);
    }
    std::ranges::sort(times);
    std::printf("takeover: median %.2f ms, worst %.2f ms\n",
                static_cast<double>(times[times.size() / 2]) / 1e6,
                static_cast<double>(times.back()) / 1e6);
    CHECK(times[times.size() / 2] < 50 * kMillisecond * (fault::kSanitized ? 10 : 1));
    for (size_t i = 0; i < kHolders; ++i) leave_now(children[i], &reports[i]);
    CHECK(scene.is_clean());
  });
}

// Opens, keeps and leaves, until it is killed.
void come_and_go(const Scene& scene, Report* report, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (;;) {
    const Opened opened = must_open(scene);
    const void* const data = opened.data();
    report->loads.fetch_add(opened.info().loaded);
    report->turn.fetch_add(1);
    report->inode.store(inode_at(data));
    if (!scene.has(data)) report->bad.fetch_add(1);
    usleep(static_cast<useconds_t>(random() % 3000));
    report->inode.store(0);
  }
}

// Two processes that have the weights at one moment have one copy.
template <size_t kCount>
void check_one_copy(const std::array<Report, kCount>& reports) {
  for (const Report& one : reports) {
    const uint64_t turn = one.turn.load();
    const uint64_t inode = one.inode.load();
    if (inode == 0) continue;
    for (const Report& other : reports) {
      const uint64_t found = other.inode.load();
      const bool still = one.inode.load() == inode && one.turn.load() == turn;
      if (!CHECK(found == 0 || found == inode || !still)) return;
    }
  }
}

TEST(SharedWeightsKilled, AnyoneAtAnyMoment) {
  IN_CHILD([] {
    constexpr size_t kPeers = 5;
    constexpr int kKills = fault::kSanitized ? 40 : 300;
    using Reports = std::array<Report, kPeers>;
    const Scene scene(kNbytes);
    Reports& reports = *new_shared<Reports>();
    std::mt19937_64 random(test_seed());
    std::array<pid_t, kPeers> children{};
    const pid_t parent = getpid();
    const auto start = [&](size_t i) {
      const uint64_t seed = random();
      children[i] = fault::spawn([&] {
        tenon::test::die_with_parent(parent);
        come_and_go(scene, &reports[i], seed);
      });
    };
    for (size_t i = 0; i < kPeers; ++i) start(i);
    uint64_t turns = 0;
    for (int i = 0; i < kKills; ++i) {
      const int64_t until = now_ns() + static_cast<int64_t>(random() % 6'000'000);
      while (now_ns() < until) {
        check_one_copy(reports);
        usleep(50);
      }
      const size_t victim = random() % kPeers;
      kill_now(children[victim]);
      reports[victim].inode.store(0);
      // A few are stopped for a moment.
      const size_t slow = random() % kPeers;
      if (slow != victim && i % 10 == 0) {
        stop_now(children[slow]);
        usleep(2000);
        kill(children[slow], SIGCONT);
      }
      start(victim);
      REQUIRE(fault::g_failures == 0);
    }
    // Everybody gets the weights still.
    std::array<uint64_t, kPeers> before{};
    for (size_t i = 0; i < kPeers; ++i) before[i] = reports[i].turn.load();
    REQUIRE(fault::wait_until([&] {
      for (size_t i = 0; i < kPeers; ++i)
        if (reports[i].turn.load() < before[i] + 2) return false;
      return true;
    }));
    uint32_t loads = 0;
    for (size_t i = 0; i < kPeers; ++i) {
      kill_now(children[i]);
      turns += reports[i].turn.load();
      loads += reports[i].loads.load();
      CHECK_EQ(reports[i].bad.load(), 0);
    }
    std::printf("%llu openings, %u loads\n", static_cast<unsigned long long>(turns), loads);
    CHECK(turns > loads);
    // The files of the last one that was killed do not matter to the next process.
    open_quickly(scene, true, 0);
    CHECK(scene.is_clean());
  });
}

}  // namespace
}  // namespace sharing

// Subscribers are killed and stopped at random while a publisher publishes, under each policy.
// Another subscriber gets every message in order. Each death is reported once, and names who died.
// All leases come back, and nothing is left.
#include <random>
#include <set>

#include "process/publish/kit.h"
#include "support/seed.h"
#include "support/temporary_directory.h"

namespace publishers {
namespace {

constexpr int kVictims = fault::kSanitized ? 20 : 60;

// A tenth of the messages bring memory that no subscriber knows.
Outcome publish_next(tenon_publisher* publisher, uint64_t number, int64_t timeout_ns) {
  return publish(publisher, number, timeout_ns,
                 number % 10 == 3 ? Crossing::kNew : Crossing::kKnown);
}

// The subscriber that must see everything, until the publisher ends.
void watch_all(const std::string& path, bool may_miss) {
  tenon_subscriber* const subscriber = connect_to(path);
  uint64_t next = 0;
  for (;;) {
    const Numbered received = receive(subscriber);
    if (received.outcome.status == TENON_PEER_GONE) break;
    REQUIRE(received.outcome.ok());
    CHECK(may_miss ? received.number >= next : received.number == next);
    next = received.number + 1;
  }
  CHECK(next > 0);
  tenon_subscriber_release(subscriber);
}

// A subscriber that lives until it is killed. It holds the message before the last.
void be_victim(const std::string& path, int ready) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  tenon_subscriber* const subscriber = connect_to(path);
  REQUIRE(::send(ready, "", 1, 0) == 1);
  tenon_message* kept = nullptr;
  for (uint64_t next = 0;;) {
    const Numbered received = receive(subscriber, &kept);
    if (!received.outcome.ok()) break;
    CHECK(received.number >= next);
    next = received.number + 1;
  }
  pause();
}

// Publishes numbers one after another, and takes note of the deaths that are reported to it.
class Voice {
 public:
  Voice(tenon_publisher* publisher, std::set<pid_t>* stopped)
      : publisher_(publisher), stopped_(*stopped) {}

  void say_next() {
    const int64_t begin = now_ns();
    for (;;) {
      const Outcome outcome = publish_next(publisher_, next_, 2'000'000);
      if (outcome.ok()) break;
      const pid_t pid = outcome.detail("pid").empty() ? 0 : std::stoi(outcome.detail("pid"));
      if (outcome.status == TENON_PEER_GONE) {
        CHECK_SAYING(told.insert(pid).second, "a death was reported twice");
        continue;
      }
      CHECK_SAYING(outcome.status == TENON_TIMEOUT || (outcome.status == TENON_RESOURCE_EXHAUSTED &&
                                                       outcome.detail("limit") == "capacity"),
                   outcome.text());
      REQUIRE(now_ns() - begin < kLong);
      // A subscriber that is named may only be slow. If it is stopped, the publisher has named it.
      if (stopped_.erase(pid) > 0) {
        kill(pid, SIGCONT);
        ++n_named;
      }
      usleep(50);
    }
    ++next_;
  }
  std::set<pid_t> told;
  int n_named = 0;

 private:
  tenon_publisher* publisher_;
  std::set<pid_t>& stopped_;
  uint64_t next_ = 0;
};

void run_storm(tenon_publish_policy policy) {
  const tenon::test::TemporaryDirectory directory(tenon::test::temporary_place() +
                                                  "/tenon-publish-");
  const std::string path = directory.path() + "/storm";
  std::mt19937_64 random(test_seed());
  const fault::Held before = fault::hold();
  {
    auto options = tenon::test::sized<tenon_publisher_options>();
    options.policy = policy;
    options.capacity = 8;
    options.flags = TENON_PUBLISHER_FORGET_LATEST;
    tenon_publisher* publisher = nullptr;
    REQUIRE_OK(tenon_publisher_new(&options, &publisher, err));
    REQUIRE_OK(tenon_publisher_listen(publisher, path.c_str(), 0, err));
    const pid_t watcher =
        fault::spawn([&] { watch_all(path, policy == TENON_PUBLISH_DROP_OLDEST); });
    auto figures = tenon::test::sized<tenon_publisher_stats>();
    while (figures.subscribers < 1) {
      REQUIRE_OK(tenon_publisher_stats_get(publisher, &figures, err));
      usleep(100);
    }
    std::set<pid_t> stopped;
    std::set<pid_t> killed;
    Voice voice(publisher, &stopped);
    for (int i = 0; i < kVictims; ++i) {
      const std::array<int, 2> ends = fault::socket_ends();
      const pid_t victim = fault::spawn([&] { be_victim(path, ends[1]); });
      close(ends[1]);
      char ready = 0;
      REQUIRE(::recv(ends[0], &ready, 1, 0) == 1);
      close(ends[0]);
      for (uint64_t n = random() % 40; n > 0; --n) voice.say_next();
      const bool stops = random() % 2 == 0;
      if (stops) {
        kill(victim, SIGSTOP);
        stopped.insert(victim);
        for (uint64_t n = random() % 40; n > 0; --n) voice.say_next();
      }
      usleep(static_cast<useconds_t>(random() % 300));
      kill(victim, SIGKILL);
      stopped.erase(victim);
      killed.insert(victim);
      fault::wait_for_child(victim);
      for (uint64_t n = random() % 10; n > 0; --n) voice.say_next();
    }
    for (int tries = 0; tries < 1000 && voice.told.size() < killed.size(); ++tries) {
      voice.say_next();
      usleep(1000);
    }
    CHECK(voice.told == killed);
    CHECK(policy != TENON_PUBLISH_BLOCK || voice.n_named > 0);
    REQUIRE_OK(tenon_publisher_stats_get(publisher, &figures, err));
    CHECK_EQ(figures.gone, killed.size());
    CHECK_EQ(figures.subscribers, 1);
    tenon_publisher_release(publisher);
    CHECK_EQ(fault::wait_for_child(watcher), 0);
  }
  for (int tries = 0; tries < fault::kPatienceMs && leases_granted() > 0; ++tries) usleep(1000);
  CHECK_EQ(leases_granted(), 0);
  CHECK_HELD(before);
}

TEST(PublisherStorm, Blocks) {
  IN_CHILD([] { run_storm(TENON_PUBLISH_BLOCK); });
}

TEST(PublisherStorm, DropsTheOldest) {
  IN_CHILD([] { run_storm(TENON_PUBLISH_DROP_OLDEST); });
}

TEST(PublisherStorm, Fails) {
  IN_CHILD([] { run_storm(TENON_PUBLISH_ERROR); });
}

// A publisher is killed at random. Its subscribers get messages without a gap, and then learn that
// it is gone. The next publisher takes the path.
TEST(PublisherStorm, KillsPublishers) {
  IN_CHILD([] {
    const tenon::test::TemporaryDirectory directory(tenon::test::temporary_place() +
                                                    "/tenon-publish-");
    const std::string path = directory.path() + "/storm";
    std::mt19937_64 random(test_seed());
    for (int i = 0; i < kVictims; ++i) {
      const std::array<int, 2> ends = fault::socket_ends();
      const pid_t victim = fault::spawn([&] {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        tenon_publisher* publisher = nullptr;
        REQUIRE_OK(tenon_publisher_new(nullptr, &publisher, err));
        REQUIRE_OK(tenon_publisher_listen(publisher, path.c_str(), 0, err));
        REQUIRE(::send(ends[1], "", 1, 0) == 1);
        char go = 0;
        REQUIRE(::recv(ends[1], &go, 1, 0) == 1);
        for (uint64_t number = 0;; ++number) {
          if (!publish_next(publisher, number, kLong).ok()) break;
        }
      });
      close(ends[1]);
      char ready = 0;
      REQUIRE(::recv(ends[0], &ready, 1, 0) == 1);
      tenon_subscriber* const subscriber = connect_to(path);
      REQUIRE(::send(ends[0], "", 1, 0) == 1);
      const uint64_t wanted = random() % 200;
      for (uint64_t next = 0;; ++next) {
        const Numbered received = receive(subscriber);
        if (received.outcome.status == TENON_PEER_GONE) {
          CHECK_EQ(std::stoi(received.outcome.detail("pid")), victim);
          CHECK(next > wanted);
          break;
        }
        REQUIRE(received.outcome.ok());
        CHECK_EQ(received.number, next);
        if (next == wanted) kill(victim, SIGKILL);
      }
      fault::wait_for_child(victim);
      close(ends[0]);
      tenon_subscriber_release(subscriber);
    }
  });
}

}  // namespace
}  // namespace publishers

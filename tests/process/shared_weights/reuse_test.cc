// A trainer publishes versions into memory that it writes again. A reader never sees a byte of
// another version than its own, whoever is killed, and the memory stays at two buffers as long as
// no reader keeps more.
#include <dirent.h>
#include <sys/stat.h>

#include <array>
#include <set>
#include <string>
#include <vector>

#include "process/shared_weights/kit.h"
#include "process/storm/victim.h"

namespace sharing {
namespace {

constexpr size_t kReusedCount = 6000;

// A tensor "a" of the trainer, all of whose elements are one number.
class Trainer {
 public:
  explicit Trainer(const Scene& scene) : scene_(scene) {
    auto options = tenon::test::sized<tenon_storage_options>();
    REQUIRE_OK(tenon_storage_new(&options, sizeof(uint32_t) * kReusedCount, &storage_, err));
    const int64_t size = kReusedCount;
    auto spec = tenon::test::sized<tenon_tensor_spec>();
    spec.dtype = {TENON_DTYPE_UINT, 32, 1};
    spec.ndim = 1;
    spec.sizes = &size;
    tenon_tensor* tensor = nullptr;
    REQUIRE_OK(tenon_tensor_new(storage_, &spec, &tensor, err));
    REQUIRE_OK(tenon_value_new_tensor(tensor, &value_, err));
    tenon_tensor_release(tensor);
  }
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  ~Trainer() {
    tenon_value_release(value_);
    tenon_storage_release(storage_);
  }
  Opened publish(uint32_t number) {
    const std::vector<uint32_t> elements(kReusedCount, number);
    REQUIRE_OK(
        tenon_storage_write(storage_, 0, elements.data(), sizeof(uint32_t) * kReusedCount, err));
    auto how = tenon::test::sized<tenon_shared_weights_options>();
    how.directory = scene_.directory().c_str();
    how.flags = TENON_SHARED_WEIGHTS_REUSE;
    const char* const name = "a";
    Opened made;
    made.outcome = CALL(tenon_publish_shared_weights_values(&name, &value_, 1, "net", &how, nullptr,
                                                            &made.weights_, err));
    skip_without_json(made);
    if (!CHECK_SAYING(made.outcome.ok(), made.outcome.text())) _exit(1);
    return made;
  }

 private:
  const Scene& scene_;
  tenon_storage* storage_ = nullptr;
  tenon_value* value_ = nullptr;
};

// The number that all elements have. 0: they differ.
uint32_t number_in(const Opened& opened) {
  const auto* const elements = static_cast<const volatile uint32_t*>(opened.data());
  const uint32_t first = elements[0];
  for (size_t i = 1; i < kReusedCount; ++i)
    if (elements[i] != first) return 0;
  return first;
}

bool has_number(const Opened& opened) { return number_in(opened) == opened.info().version; }

size_t buffers_mapped() {
  std::FILE* const maps = std::fopen("/proc/self/maps", "re");
  REQUIRE(maps != nullptr);
  char line[512];
  size_t count = 0;
  while (std::fgets(line, sizeof line, maps) != nullptr)
    count += std::strstr(line, "rw-s") != nullptr && std::strstr(line, "/memfd:") != nullptr;
  std::fclose(maps);
  return count;
}

TEST(SharedWeightsReuse, AlternatesBetweenTwoBuffers) {
  IN_CHILD([] {
    const Scene scene(1);
    Trainer trainer(scene);
    const size_t before = buffers_mapped();
    Opened newest = trainer.publish(1);
    const Opened first = must_attach(scene);
    std::set<uint64_t> inodes;
    for (uint32_t version = 2; version <= 12; ++version) {
      newest = trainer.publish(version);
      CHECK(has_number(newest) && newest.info().version == version);
      inodes.insert(inode_at(newest.data()));
    }
    CHECK_EQ(inodes.size(), 2);
    // Version 1 has no file that its holders lock, so its memory is not written again.
    CHECK(has_number(first) && !inodes.contains(inode_at(first.data())));
    // A version that this process still has is not written.
    {
      const Opened kept = std::move(newest);
      newest = trainer.publish(13);
      const Opened more = trainer.publish(14);
      CHECK(has_number(kept) && has_number(newest) && has_number(more));
      inodes.insert(inode_at(more.data()));
      CHECK_EQ(inodes.size(), 3);
    }
    for (uint32_t version = 15; version <= 17; ++version) newest = trainer.publish(version);
    CHECK(has_number(newest) && inodes.contains(inode_at(newest.data())));
    CHECK_EQ(buffers_mapped(), before + 2);
    newest = Opened();
    CHECK_EQ(buffers_mapped(), before);
  });
}

// Another process, a child of fork and a lent fd keep a version as well.
TEST(SharedWeightsReuse, WritesNothingThatSomebodyHas) {
  IN_CHILD([] {
    const Scene scene(1);
    Trainer trainer(scene);
    const Opened first = trainer.publish(1);
    Opened newest = trainer.publish(2);
    const void* const data = newest.data();
    Report& report = *new_shared<Report>();
    const pid_t parent = getpid();
    const auto watch = [&](bool opens) {
      return fault::spawn([&, opens] {
        tenon::test::die_with_parent(parent);
        const Opened own = opens ? must_attach(scene) : Opened();
        const auto* const elements =
            static_cast<const volatile uint32_t*>(opens ? own.data() : data);
        report.turn.fetch_add(1);
        while (report.go.load() == 0) usleep(100);
        for (size_t i = 0; i < kReusedCount; ++i)
          if (elements[i] != (opens ? 4 : 2)) report.bad.fetch_add(1);
        _exit(fault::g_failures);
      });
    };
    const pid_t child = watch(false);
    newest = trainer.publish(3);
    newest = trainer.publish(4);
    const pid_t reader = watch(true);
    REQUIRE(fault::wait_until([&] { return report.turn.load() == 2; }));
    tenon_value* value = nullptr;
    tenon_tensor* tensor = nullptr;
    REQUIRE_OK(tenon_shared_weights_tensor(newest.weights_, "a", &value, err));
    newest = trainer.publish(5);
    REQUIRE_OK(tenon_value_get_tensor(value, &tensor, err));
    auto handle = tenon::test::sized<tenon_fd_handle>();
    REQUIRE_OK(tenon_share_fd(tenon_tensor_storage(tensor), nullptr, &handle, err));
    tenon_tensor_release(tensor);
    tenon_value_release(value);
    for (uint32_t version = 6; version <= 12; ++version) newest = trainer.publish(version);
    std::vector<uint32_t> lent(kReusedCount);
    CHECK_EQ(pread(handle.fd, lent.data(), 4 * kReusedCount, static_cast<off_t>(handle.offset)),
             4 * kReusedCount);
    CHECK(lent.front() == 4 && lent.back() == 4);
    tenon_fd_handle_close(&handle);
    report.go.store(1);
    CHECK_EQ(fault::wait_for_child(child), 0);
    CHECK_EQ(fault::wait_for_child(reader), 0);
    CHECK_EQ(report.bad.load(), 0);
    newest = trainer.publish(13);
    newest = trainer.publish(14);
    CHECK_EQ(buffers_mapped(), 3);  // two, and the trainer's own tensor
  });
}

size_t descriptors_open() {
  DIR* const folder = opendir("/proc/self/fd");
  REQUIRE(folder != nullptr);
  size_t count = 0;
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

// Follows the versions up to `last`, and looks at each of them when it comes and before it goes.
void follow_reused(const Scene& scene, Report* report, uint64_t last) {
  Opened opened = must_attach(scene);
  for (;;) {
    if (!has_number(opened)) report->bad.fetch_add(1);
    const uint64_t version = opened.info().version;
    report->turn.store(version);
    if (version >= last) return;
    uint64_t newest = 0;
    CHECK(changed(opened, kLong, &newest).ok());
    Opened next = must_attach(scene);
    if (next.info().version < version || !has_number(opened)) report->bad.fetch_add(1);
    opened = std::move(next);
  }
}

TEST(SharedWeightsReuse, IsFlatInAThousandUnderEightReaders) {
  IN_CHILD([] {
    constexpr size_t kReaders = 8;
    constexpr uint32_t kVersions = fault::kSanitized ? 60 : 1000;
    using Reports = std::array<Report, kReaders>;
    const Scene scene(1);
    Reports& reports = *new_shared<Reports>();
    Trainer trainer(scene);
    Opened newest = trainer.publish(1);
    const pid_t parent = getpid();
    std::vector<pid_t> children;
    for (Report& each : reports)
      children.push_back(fault::spawn([&] {
        tenon::test::die_with_parent(parent);
        follow_reused(scene, &each, kVersions);
        _exit(fault::g_failures);
      }));
    std::set<uint64_t> inodes;
    size_t most_buffers = 0;
    size_t descriptors = 0;
    for (uint32_t version = 2; version <= kVersions; ++version) {
      newest = trainer.publish(version);
      REQUIRE(newest.info().version == version);
      inodes.insert(inode_at(newest.data()));
      if (version == kVersions / 10) descriptors = descriptors_open();
      most_buffers = std::max(most_buffers, buffers_mapped());
      // Mostly the readers keep up, as engines do that follow a trainer. At times they do not.
      const auto is_behind = [&](const Report& each) { return each.turn.load() < version; };
      while (version % 16 != 0 && std::ranges::any_of(reports, is_behind)) usleep(50);
    }
    for (const pid_t child : children) CHECK_EQ(fault::wait_for_child(child), 0);
    for (const Report& each : reports) CHECK(each.bad.load() == 0 && each.turn.load() == kVersions);
    std::printf("%zu memfds for %u versions, at most %zu at once\n", inodes.size(), kVersions,
                most_buffers - 1);
    CHECK(inodes.size() < kVersions / 4);
    CHECK(most_buffers < 2 * kReaders);
    CHECK(descriptors_open() <= descriptors + 4);
    newest = Opened();
    CHECK_EQ(buffers_mapped(), 1);  // the trainer's own tensor
    CHECK(scene.is_clean());
  });
}

// A trainer dies before or after each of its system calls while it writes memory again. The reader
// of the version before keeps it whole, and a newcomer gets that version or the new one.
TEST(SharedWeightsReuse, SurvivesItsTrainersDeathAtEachSystemCall) {
  SKIP_UNDER_SANITIZERS("they make system calls of their own");
  IN_CHILD([] {
    const Scene scene(1);
    Opened base;
    {
      Trainer trainer(scene);
      base = trainer.publish(1);
    }
    Report& report = *new_shared<Report>();
    const pid_t parent = getpid();
    // Has the newest version, and says its number.
    const pid_t reader = fault::spawn([&] {
      tenon::test::die_with_parent(parent);
      Opened opened = must_attach(scene);
      while (report.go.load() == 0) {
        const uint32_t number = number_in(opened);
        if (number == 0) report.bad.fetch_add(1);
        report.turn.store(number);
        uint64_t version = 0;
        if (!changed(opened, 2 * kMillisecond, &version).ok()) continue;
        Opened next = must_attach(scene);
        if (number_in(opened) != number) report.bad.fetch_add(1);
        opened = std::move(next);
      }
      _exit(fault::g_failures);
    });
    int step = 0;
    uint64_t reused = 0;
    for (bool is_over = false; !is_over; ++step) {
      const auto number = static_cast<uint32_t>(10 * step + 10);
      std::array<std::atomic<uint64_t>, 2>& inodes =
          *new_shared<std::array<std::atomic<uint64_t>, 2>>();
      Trainer* trainer = nullptr;
      Opened newest;
      storm::Victim victim(
          "reuse",
          [&] {
            trainer = new Trainer(scene);
            newest = trainer->publish(number);
            inodes[0].store(inode_at(newest.data()));
            newest = trainer->publish(number + 1);
            while (report.turn.load() != number + 1) usleep(100);
          },
          [&] {
            newest = trainer->publish(number + 2);
            inodes[1].store(inode_at(newest.data()));
          });
      for (int i = 0; i <= step && !is_over; ++i) is_over = !victim.to_next_call();
      if (is_over) reused = inodes[0].load() == inodes[1].load() ? 1 : 0;
      victim.kill();
      REQUIRE(victim.went_well());
      const Opened opened = must_attach(scene);
      const uint32_t found = number_in(opened);
      CHECK_SAYING(found == number + 1 || found == number + 2, std::to_string(found));
      REQUIRE(fault::g_failures == 0);
      munmap(&inodes, sizeof inodes);
    }
    CHECK_SAYING(step > 100, std::to_string(step));
    CHECK_EQ(reused, 1);
    report.go.store(1);
    CHECK_EQ(fault::wait_for_child(reader), 0);
    CHECK_EQ(report.bad.load(), 0);
    CHECK_EQ(number_in(base), 1);
  });
}

}  // namespace
}  // namespace sharing

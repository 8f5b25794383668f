// The weights of a name get new versions: newcomers have the newest one, processes that have an
// older one keep it and hear of the newer one, and no death takes a name back to an older version
// while a process has a newer one.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "process/shared_weights/kit.h"
#include "process/storm/victim.h"
#include "support/become_user.h"
#include "support/seed.h"

namespace sharing {
namespace {

constexpr uint64_t kVersionNbytes = 20'000;

// The version and the bytes belong together. `first` is the seed of version 1.
bool is_whole(const Scene& scene, const Opened& opened, uint64_t first = 1) {
  return scene.has(opened.data(), first + opened.info().version - 1);
}

uint64_t resident_now() {
  std::FILE* const file = std::fopen("/proc/self/statm", "re");
  unsigned long long whole = 0;
  unsigned long long resident = 0;
  REQUIRE(file != nullptr && std::fscanf(file, "%llu %llu", &whole, &resident) == 2);
  std::fclose(file);
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

int listen_raw(const std::string& path) {
  const int listener = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  REQUIRE(listener >= 0 && path.size() < sizeof name.sun_path);
  std::memcpy(name.sun_path, path.c_str(), path.size());
  REQUIRE(::bind(listener, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0);
  REQUIRE(::listen(listener, 8) == 0);
  return listener;
}

// The packet `refused`, with no file and no label.
std::string refused_packet(char reason) {
  std::string packet(52, '\0');
  packet.replace(0, 12, std::string("TNSW\x01\x00\x04\x00\x34\x00\x00\x00", 12));
  packet[16] = reason;
  return packet;
}

bool is_readable(int fd) {
  pollfd one{fd, POLLIN, 0};
  return poll(&one, 1, 0) == 1;
}

TEST(SharedWeightsVersions, AreHeardOfByHoldersAndGivenToNewcomers) {
  IN_CHILD([] {
    const Scene scene(kVersionNbytes);
    const Opened old = must_open(scene);
    uint64_t version = 0;
    int fd = -1;
    REQUIRE_OK(tenon_shared_weights_changed_fd(old.weights_, &fd, err));
    CHECK(!is_readable(fd));
    CHECK_EQ(changed(old, 0, &version).status, TENON_WOULD_BLOCK);
    CHECK_EQ(changed(old, kMillisecond, &version).status, TENON_TIMEOUT);
    CHECK_EQ(version, 0);
    Report& report = *new_shared<Report>();
    const pid_t parent = getpid();
    const pid_t publisher = fault::spawn([&] {
      tenon::test::die_with_parent(parent);
      Opened second = must_publish(scene, 2);
      CHECK(second.info().version == 2 && second.info().loaded == 1 && second.info().serves == 1);
      report.inode.store(inode_at(second.data()));
      while (report.go.load() < 2) usleep(500);
      second = Opened();
      _exit(fault::g_failures);
    });
    CHECK(changed(old, kLong, &version).ok());
    CHECK_EQ(version, 2);
    CHECK(is_readable(fd));
    CHECK(scene.has(old.data(), 1));
    CHECK(old.info().version == 1 && old.info().serves == 0);
    {
      const Opened newest = must_attach(scene);
      CHECK(newest.info().version == 2 && scene.has(newest.data(), 2));
      CHECK_EQ(inode_at(newest.data()), report.inode.load());
      CHECK_EQ(changed(newest, 0, &version).status, TENON_WOULD_BLOCK);
      const std::string file = scene.file();
      const Opened refused = open_weights(scene, {.path = file.c_str()});
      CHECK_EQ(refused.outcome.status, TENON_PERMISSION);
    }
    // Nobody has version 2 any more, so version 1 is the newest again. Its number stays taken.
    leave_now(publisher, &report);
    {
      const Opened again = must_attach(scene);
      CHECK(again.info().version == 1 && scene.has(again.data(), 1));
      CHECK_EQ(inode_at(again.data()), inode_at(old.data()));
    }
    REQUIRE(fault::wait_until([&] { return !is_readable(fd); }));
    const Opened third = must_publish(scene, 3);
    CHECK_EQ(third.info().version, 3);
    CHECK(changed(old, kLong, &version).ok());
    CHECK_EQ(version, 3);
  });
}

TEST(SharedWeightsVersions, LeaveNoFile) {
  IN_CHILD([] {
    const Scene scene(kVersionNbytes);
    {
      const Opened first = must_publish(scene, 1);
      CHECK(first.info().version == 1 && first.info().holders == 1);
      const Opened second = must_publish(scene, 2);
      const Opened third = must_publish(scene, 3);
      CHECK_EQ(third.info().version, 3);
    }
    CHECK(scene.is_clean());
    // A name that nobody has counts from 1 again.
    CHECK_EQ(must_open(scene).info().version, 1);
    CHECK(scene.is_clean());
    const Opened absent = publish_file(scene, scene.file() + ".absent");
    CHECK_EQ(absent.outcome.status, TENON_NOT_FOUND);
    CHECK(scene.is_clean());
  });
}

// A trainer publishes a step of its weights, with a tensor whose columns it has as rows.
TEST(SharedWeightsVersions, AreMadeOfValues) {
  IN_CHILD([] {
    const Scene scene(kVersionNbytes);
    const std::array<float, 6> numbers{1, 2, 3, 4, 5, 6};
    const std::array<int64_t, 2> sizes{3, 2};
    const std::array<int64_t, 2> strides{1, 3};
    tenon_storage* storage = nullptr;
    auto options = tenon::test::sized<tenon_storage_options>();
    REQUIRE_OK(tenon_storage_new(&options, sizeof numbers, &storage, err));
    REQUIRE_OK(tenon_storage_write(storage, 0, numbers.data(), sizeof numbers, err));
    auto spec = tenon::test::sized<tenon_tensor_spec>();
    spec.dtype = {TENON_DTYPE_FLOAT, 32, 1};
    spec.ndim = 2;
    spec.sizes = sizes.data();
    spec.strides = strides.data();
    tenon_tensor* tensor = nullptr;
    REQUIRE_OK(tenon_tensor_new(storage, &spec, &tensor, err));
    tenon_value* value = nullptr;
    REQUIRE_OK(tenon_value_new_tensor(tensor, &value, err));
    const std::array<tenon_value*, 2> values{value, value};
    const auto publish = [&](std::array<const char*, 2> names, Opened* out) {
      auto how = tenon::test::sized<tenon_shared_weights_options>();
      how.directory = scene.directory().c_str();
      return CALL(tenon_publish_shared_weights_values(names.data(), values.data(), 2, "net", &how,
                                                      nullptr, &out->weights_, err));
    };
    const Opened first = must_open(scene);
    Opened made;
    CHECK_EQ(publish({"a", "a"}, &made).status, TENON_INVALID_ARGUMENT);
    CHECK_EQ(publish({"a", "__metadata__"}, &made).status, TENON_INVALID_ARGUMENT);
    const Outcome published = publish({"a", "quote \" and \n"}, &made);
    if (!CHECK_SAYING(published.ok(), published.text())) _exit(1);
    const Opened found = must_attach(scene);
    CHECK(found.info().version == 2 && found.info().count == 2);
    const std::array<float, 6> expected{1, 4, 2, 5, 3, 6};
    CHECK_EQ(std::memcmp(found.data(), expected.data(), sizeof expected), 0);
    tenon_value* other = nullptr;
    CHECK_OK(tenon_shared_weights_tensor(found.weights_, "quote \" and \n", &other, err));
    tenon_value_release(other);
    tenon_value_release(value);
    tenon_tensor_release(tensor);
    tenon_storage_release(storage);
  });
}

// Reads the newest version until the last one, and follows each switch.
void follow(const Scene& scene, Report* report, uint64_t last) {
  Opened opened = must_attach(scene);
  for (uint64_t seen = 0; seen < last;) {
    const uint64_t version = opened.info().version;
    if (version < seen || !is_whole(scene, opened)) report->bad.fetch_add(1);
    seen = version;
    report->turn.store(seen);
    if (seen >= last) break;
    uint64_t newest = 0;
    CHECK(changed(opened, kLong, &newest).ok());
    if (newest <= version) report->bad.fetch_add(1);
    // The old version stays as it was.
    if (!is_whole(scene, opened)) report->bad.fetch_add(1);
    opened = must_attach(scene);
  }
}

TEST(SharedWeightsVersions, SwitchUnderEightReaders) {
  IN_CHILD([] {
    constexpr size_t kReaders = 8;
    constexpr uint64_t kVersions = fault::kSanitized ? 8 : 30;
    using Reports = std::array<Report, kReaders>;
    const Scene scene(200'000);
    Reports& reports = *new_shared<Reports>();
    Opened newest = must_publish(scene, 1);
    const pid_t parent = getpid();
    std::vector<pid_t> children;
    for (Report& each : reports)
      children.push_back(fault::spawn([&] {
        tenon::test::die_with_parent(parent);
        follow(scene, &each, kVersions);
        _exit(fault::g_failures);
      }));
    for (uint64_t version = 2; version <= kVersions; ++version) {
      newest = must_publish(scene, version);
      CHECK_EQ(newest.info().version, version);
      usleep(static_cast<useconds_t>(version % 3 * 2000));
    }
    for (const pid_t child : children) CHECK_EQ(fault::wait_for_child(child), 0);
    for (const Report& each : reports) CHECK(each.bad.load() == 0 && each.turn.load() == kVersions);
    newest = Opened();
    CHECK(scene.is_clean());
  });
}

TEST(SharedWeightsVersions, OfTwoPublishersHaveNumbersOfTheirOwn) {
  IN_CHILD([] {
    constexpr uint64_t kEach = fault::kSanitized ? 4 : 12;
    const Scene scene(kVersionNbytes);
    (void)scene.version_file(2);
    std::array<std::atomic<uint32_t>, 2 * kEach + 2>& taken =
        *new_shared<std::array<std::atomic<uint32_t>, 2 * kEach + 2>>();
    Opened first = must_open(scene);
    std::array<pid_t, 2> children{};
    for (pid_t& child : children)
      child = fault::spawn([&] {
        Opened mine;
        for (uint64_t i = 0; i < kEach; ++i) {
          mine = must_publish(scene, 2);
          CHECK(scene.has(mine.data(), 2));
          const uint64_t version = mine.info().version;
          if (CHECK(version < taken.size())) taken[version].fetch_add(1);
        }
        mine = Opened();
        _exit(fault::g_failures);
      });
    for (const pid_t child : children) CHECK_EQ(fault::wait_for_child(child), 0);
    // A number is taken twice only if nobody had the name meanwhile.
    for (uint64_t version = 2; version < taken.size(); ++version)
      CHECK_EQ(taken[version].load(), 1);
    first = Opened();
    CHECK(scene.is_clean());
  });
}

// A publisher that is stopped before the switch blocks other publishers only.
TEST(SharedWeightsVersions, WaitForAStoppedPublisher) {
  IN_CHILD([] {
    const Scene scene(kVersionNbytes);
    const std::string file = scene.version_file(2);
    const Opened first = must_open(scene);
    Report& report = *new_shared<Report>();
    const auto stop = [](void* context, uint64_t, uint64_t) {
      static_cast<Report*>(context)->turn.fetch_add(1);
      while (static_cast<Report*>(context)->go.load() == 0) usleep(500);
    };
    const pid_t parent = getpid();
    const pid_t publisher = fault::spawn([&] {
      tenon::test::die_with_parent(parent);
      const Opened second =
          open_weights(scene, {.path = file.c_str(), .progress = stop, .context = &report},
                       &tenon_publish_shared_weights);
      CHECK(second.outcome.ok() && second.info().version == 2);
      report.inode.store(1);
      while (report.go.load() < 2) usleep(500);
      _exit(fault::g_failures);
    });
    REQUIRE(fault::wait_until([&] { return report.turn.load() > 0; }));
    stop_now(publisher);
    CHECK_EQ(must_attach(scene).info().version, 1);
    const Opened late = publish_file(scene, file, 100 * kMillisecond);
    CHECK_EQ(late.outcome.status, TENON_TIMEOUT);
    CHECK_EQ(std::stoi("0" + late.outcome.detail("pid")), publisher);
    CHECK_EQ(publish_file(scene, file, 0).outcome.status, TENON_WOULD_BLOCK);
    kill(publisher, SIGCONT);
    report.go.store(1);
    await_weights(report);
    CHECK_EQ(must_attach(scene).info().version, 2);
    leave_now(publisher, &report);
  });
}

// The publisher and the server of the new version die. While a process has the new version,
// newcomers get that one, and afterwards the old one.
TEST(SharedWeightsVersions, StayWhileAProcessHasThem) {
  IN_CHILD([] {
    const Scene scene(kVersionNbytes);
    Report& old = *new_shared<Report>();
    const pid_t holder = spawn_holder(scene, &old);
    await_weights(old);
    const pid_t parent = getpid();
    std::array<Report, 2>& reports = *new_shared<std::array<Report, 2>>();
    const auto spawn_newer = [&](Report* report, bool publishes) {
      const pid_t child = fault::spawn([&] {
        tenon::test::die_with_parent(parent);
        const Opened opened = publishes ? must_publish(scene, 2) : must_attach(scene);
        CHECK_EQ(opened.info().version, 2);
        report->inode.store(inode_at(opened.data()));
        pause();
      });
      await_weights(*report);
      return child;
    };
    const pid_t publisher = spawn_newer(&reports[0], true);
    const pid_t survivor = spawn_newer(&reports[1], false);
    CHECK_EQ(reports[0].inode.load(), reports[1].inode.load());
    kill_now(publisher);
    for (int i = 0; i < 20; ++i) {
      const Opened opened = must_attach(scene);
      CHECK(opened.info().version == 2 && scene.has(opened.data(), 2));
      CHECK_EQ(inode_at(opened.data()), reports[1].inode.load());
    }
    // A holder of the new version that is stopped has it still. Nobody gets the old one meanwhile.
    stop_now(survivor);
    CHECK_EQ(open_weights(scene, {.timeout_ns = 300 * kMillisecond}).outcome.status, TENON_TIMEOUT);
    CHECK_EQ(old.serves.load(), 0);
    kill_now(survivor);
    {
      const Opened opened = must_attach(scene);
      CHECK(opened.info().version == 1 && scene.has(opened.data(), 1));
      CHECK_EQ(inode_at(opened.data()), old.inode.load());
    }
    leave_now(holder, &old);
    CHECK(scene.is_clean());
  });
}

// A child of fork keeps neither the new version nor the lock of a publisher.
TEST(SharedWeightsVersions, AreNotKeptByAForkedChild) {
  IN_CHILD([] {
    const Scene scene(kVersionNbytes);
    const Opened old = must_open(scene);
    Report& report = *new_shared<Report>();
    const pid_t parent = getpid();
    const pid_t publisher = fault::spawn([&] {
      tenon::test::die_with_parent(parent);
      const Opened second = must_publish(scene, 2);
      const void* const data = second.data();
      const pid_t child = fork();
      if (child == 0) {
        uint64_t version = 0;
        CHECK_EQ(changed(second, 0, &version).status, TENON_UNSUPPORTED);
        CHECK(scene.has(data, 2));
        report.turn.store(1);
        const int64_t end = now_ns() + 2 * kLong;
        while (report.go.load() == 0 && now_ns() < end) usleep(500);
        _exit(fault::g_failures);
      }
      report.inode.store(inode_at(data));
      pause();
    });
    await_weights(report);
    REQUIRE(fault::wait_until([&] { return report.turn.load() != 0; }));
    kill_now(publisher);
    CHECK_EQ(must_attach(scene).info().version, 1);
    CHECK_EQ(must_publish(scene, 3).info().version, 3);
    report.go.store(1);
  });
}

TEST(SharedWeightsVersions, OfAnotherUserAreNotReplaced) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  IN_CHILD([] {
    const Scene scene(kVersionNbytes);
    const std::string file = scene.version_file(2);
    REQUIRE(chmod(file.c_str(), 0644) == 0);
    REQUIRE(chmod(scene.directory().c_str(), 0777) == 0);
    const Opened mine = must_open(scene);
    const auto publish_as_other = [&] {
      const pid_t child = fault::spawn([&] {
        REQUIRE(become_user(65534, 4242));
        const Opened refused = publish_file(scene, file, 2 * kSecond);
        CHECK_SAYING(refused.outcome.status == TENON_PERMISSION, refused.outcome.text());
        _exit(fault::g_failures);
      });
      CHECK_EQ(fault::wait_for_child(child), 0);
    };
    // The mode of the files refuses, and if it does not, the publisher refuses the server.
    publish_as_other();
    for (const char* const leaf : {"/net.sock", "/net.lock", "/net.hold"})
      (void)chmod((scene.directory() + leaf).c_str(), 0666);
    publish_as_other();
    CHECK_EQ(must_attach(scene).info().version, 1);
    CHECK(mine.info().serves == 1);
  });
}

// A server that does not know the request of a publisher hangs up, and keeps its place. So does one
// that has no room.
TEST(SharedWeightsVersions, AreNotPublishedOverAServerThatRefuses) {
  IN_CHILD([] {
    const Scene scene(kVersionNbytes);
    const std::string file = scene.version_file(2);
    (void)must_open(scene);
    const int listener = listen_raw(scene.socket());
    const std::string full = refused_packet('\3');
    for (const bool is_full : {false, true}) {
      const pid_t child = fault::spawn([&] {
        const Opened refused = publish_file(scene, file);
        CHECK_SAYING(
            refused.outcome.status == (is_full ? TENON_RESOURCE_EXHAUSTED : TENON_INCOMPATIBLE),
            refused.outcome.text());
        CHECK(refused.outcome.detail("pid") == std::to_string(getppid()));
        _exit(fault::g_failures);
      });
      for (int i = 0; i < (is_full ? 1 : 3); ++i) {
        const int client = ::accept(listener, nullptr, nullptr);
        char hello[64];
        REQUIRE(client >= 0 && ::recv(client, hello, sizeof hello, 0) == 56);
        if (is_full) REQUIRE(::send(client, full.data(), full.size(), MSG_NOSIGNAL) == 52);
        close(client);
      }
      CHECK_EQ(fault::wait_for_child(child), 0);
    }
    CHECK_EQ(scene.file_count(), 1);  // the socket
  });
}

// A Tenon without versions may win an election, because it knows no NAME.hold.N. A process that has
// a newer version takes its place.
TEST(SharedWeightsVersions, TakeThePlaceOfAServerWithAnOlderOne) {
  IN_CHILD([] {
    const Scene scene(kVersionNbytes);
    const Opened old = must_open(scene);
    const pid_t parent = getpid();
    std::array<Report, 2>& reports = *new_shared<std::array<Report, 2>>();
    std::array<pid_t, 2> children{};
    for (size_t i = 0; i < 2; ++i) {
      children[i] = fault::spawn([&] {
        tenon::test::die_with_parent(parent);
        const Opened opened = i == 0 ? must_publish(scene, 2) : must_attach(scene);
        reports[i].inode.store(inode_at(opened.data()));
        pause();
      });
      await_weights(reports[i]);
    }
    stop_now(children[1]);
    kill_now(children[0]);
    REQUIRE(unlink(scene.socket().c_str()) == 0);
    const int listener = listen_raw(scene.socket());
    struct stat before{};
    REQUIRE(lstat(scene.socket().c_str(), &before) == 0);
    kill(children[1], SIGCONT);
    // The holder of version 1 in this process watches this server too, and is not refused.
    for (bool is_refused = false; !is_refused;) {
      const int client = ::accept(listener, nullptr, nullptr);
      char hello[64];
      REQUIRE(client >= 0 && ::recv(client, hello, sizeof hello, 0) == 56);
      is_refused = hello[48] == 2;
      const std::string refusal = refused_packet('\2');
      if (is_refused) REQUIRE(::send(client, refusal.data(), refusal.size(), MSG_NOSIGNAL) == 52);
      if (is_refused) close(client);
    }
    const auto is_replaced = [&] {
      struct stat now{};
      return lstat(scene.socket().c_str(), &now) == 0 && now.st_ino != before.st_ino;
    };
    REQUIRE(fault::wait_until(is_replaced));
    const Opened opened = must_attach(scene);
    CHECK(opened.info().version == 2 && scene.has(opened.data(), 2));
    CHECK_EQ(inode_at(opened.data()), reports[1].inode.load());
    CHECK_EQ(opened.info().server_pid, children[1]);
    kill_now(children[1]);
    close(listener);
  });
}

// A publisher does not wait for a server that is stopped, which hears of the version afterwards.
TEST(SharedWeightsVersions, TakeThePlaceOfAStoppedServer) {
  IN_CHILD([] {
    const Scene scene(kVersionNbytes);
    Report& report = *new_shared<Report>();
    const pid_t server = spawn_holder(scene, &report);
    await_weights(report);
    stop_now(server);
    const Opened second = must_publish(scene, 2);
    CHECK_EQ(must_attach(scene).info().version, 2);
    kill(server, SIGCONT);
    REQUIRE(fault::wait_until([&] { return report.serves.load() == 0; }));
    leave_now(server, &report);
    CHECK_EQ(must_attach(scene).info().version, 2);
  });
}

// 1,000 versions leave nothing behind in the memory, the fds and the files.
TEST(SharedWeightsVersions, AreFlatInAThousand) {
  IN_CHILD([] {
    constexpr uint64_t kCount = fault::kSanitized ? 100 : 1000;
    const Scene scene(kVersionNbytes);
    (void)scene.version_file(2);
    const auto open_fds = [] {
      size_t count = 0;
      DIR* const fds = opendir("/proc/self/fd");
      REQUIRE(fds != nullptr);
      while (readdir(fds) != nullptr) ++count;
      closedir(fds);
      return count;
    };
    Opened newest = must_open(scene);
    uint64_t rss = 0;
    size_t fds = 0;
    for (uint64_t version = 2; version <= kCount; ++version) {
      newest = must_publish(scene, 2);
      REQUIRE(newest.info().version == version);
      if (version == kCount / 10) {
        rss = resident_now();
        fds = open_fds();
      }
      CHECK(scene.file_count() <= 6);
    }
    CHECK(open_fds() <= fds + 4);
    if (!fault::kSanitized) CHECK(resident_now() < rss + (uint64_t{2} << 20));
    newest = Opened();
    CHECK(scene.is_clean());
  });
}

// A publisher dies before or after each of its system calls, and so before, in and after the
// switch. A newcomer gets version 1 whole, because nobody has another one then.
TEST(SharedWeightsVersions, SurviveTheirPublishersDeathAtEachSystemCall) {
  SKIP_UNDER_SANITIZERS("they make system calls of their own");
  IN_CHILD([] {
    const Scene scene(kVersionNbytes);
    const std::string file = scene.version_file(2);
    Report& report = *new_shared<Report>();
    const pid_t server = spawn_holder(scene, &report);
    await_weights(report);
    int step = 0;
    for (bool is_over = false; !is_over; ++step) {
      storm::Victim victim("publish", [] {}, [&] { (void)publish_file(scene, file); });
      for (int i = 0; i <= step && !is_over; ++i) is_over = !victim.to_next_call();
      victim.kill();
      REQUIRE(victim.went_well());
      const int64_t begin = now_ns();
      const Opened opened = must_attach(scene);
      CHECK(now_ns() - begin < 3 * kSecond);
      CHECK(opened.info().version == 1 && scene.has(opened.data(), 1));
      CHECK_EQ(inode_at(opened.data()), report.inode.load());
      REQUIRE(fault::g_failures == 0);
    }
    CHECK_SAYING(step > 100, std::to_string(step));
    // The next publisher finds the name in order.
    CHECK(must_publish(scene, 2).info().version > 1);
    leave_now(server, &report);
    CHECK(scene.is_clean());
  });
}

// Openers and followers die at each system call while the newest version is not the first.
TEST(SharedWeightsVersions, SurviveTheirOpenersDeathAtEachSystemCall) {
  SKIP_UNDER_SANITIZERS("they make system calls of their own");
  IN_CHILD([] {
    const Scene scene(kVersionNbytes);
    const Opened old = must_open(scene);
    const Opened second = must_publish(scene, 2);
    int step = 0;
    for (bool is_over = false; !is_over; ++step) {
      storm::Victim victim("open", [] {}, [&] { (void)open_weights(scene, {}).outcome; });
      for (int i = 0; i <= step && !is_over; ++i) is_over = !victim.to_next_call();
      victim.kill();
      REQUIRE(victim.went_well());
      CHECK_EQ(must_attach(scene).info().version, 2);
      REQUIRE(fault::g_failures == 0);
    }
    CHECK_SAYING(step > 40, std::to_string(step));
  });
}

// What each process of the storm tells: the version that it certainly has at this moment.
struct Having {
  std::atomic<uint64_t> version;  // 0: perhaps none
  std::atomic<uint64_t> turn;
  std::atomic<uint32_t> bad;
};

using Havings = std::array<Having, 6>;

// Opens the newest version, and keeps it for a while. Two of the processes publish.
void open_and_publish(const Scene& scene, Havings* all, size_t self, uint64_t seed) {
  std::mt19937_64 random(seed);
  Having& mine = (*all)[self];
  for (;;) {
    // A version that a process has before and after the opening is the least that a newcomer gets.
    std::array<uint64_t, 6> before{};
    std::array<uint64_t, 6> turns{};
    for (size_t i = 0; i < all->size(); ++i) {
      turns[i] = (*all)[i].turn.load();
      before[i] = (*all)[i].version.load();
    }
    const bool publishes = self < 2 && random() % 4 == 0;
    const Opened opened = publishes ? must_publish(scene, random() % 5 + 1) : must_attach(scene);
    const uint64_t version = opened.info().version;
    for (size_t i = 0; i < all->size(); ++i) {
      const bool still = (*all)[i].version.load() == before[i] && (*all)[i].turn.load() == turns[i];
      if (before[i] != 0 && still && version < before[i]) mine.bad.fetch_add(1);
    }
    const auto* const bytes = static_cast<const unsigned char*>(opened.data());
    bool is_one = false;
    for (uint64_t each = 1; each <= 5; ++each) is_one = is_one || scene.has(bytes, each);
    if (!is_one) mine.bad.fetch_add(1);
    mine.turn.fetch_add(1);
    mine.version.store(version);
    usleep(static_cast<useconds_t>(random() % 5000));
    mine.version.store(0);
  }
}

TEST(SharedWeightsVersions, NeverGoBackWhoeverIsKilled) {
  IN_CHILD([] {
    constexpr int kKills = fault::kSanitized ? 40 : 300;
    const Scene scene(kVersionNbytes);
    for (uint64_t each = 1; each <= 5; ++each) (void)scene.version_file(each);
    // The storm has a holder of version 1 that nobody kills.
    const Opened first = must_open(scene);
    Havings& all = *new_shared<Havings>();
    std::mt19937_64 random(test_seed());
    std::array<pid_t, 6> children{};
    const pid_t parent = getpid();
    const auto start = [&](size_t i) {
      const uint64_t seed = random();
      children[i] = fault::spawn([&] {
        tenon::test::die_with_parent(parent);
        open_and_publish(scene, &all, i, seed);
      });
    };
    // Stopped, it has what it said. Killed, it has nothing.
    const auto end = [&](size_t i) {
      stop_now(children[i]);
      all[i].version.store(0);
      all[i].turn.fetch_add(1);
      kill_now(children[i]);
    };
    for (size_t i = 0; i < children.size(); ++i) start(i);
    for (int i = 0; i < kKills; ++i) {
      usleep(static_cast<useconds_t>(random() % 6000));
      const size_t victim = random() % children.size();
      end(victim);
      start(victim);
      REQUIRE(fault::g_failures == 0);
    }
    uint64_t turns = 0;
    uint32_t bad = 0;
    for (size_t i = 0; i < children.size(); ++i) {
      const uint64_t before = all[i].turn.load();
      REQUIRE(fault::wait_until([&] { return all[i].turn.load() > before + 1; }));
    }
    for (size_t i = 0; i < children.size(); ++i) {
      end(i);
      turns += all[i].turn.load();
      bad += all[i].bad.load();
    }
    std::printf("%llu openings\n", static_cast<unsigned long long>(turns));
    CHECK_EQ(bad, 0);
    CHECK_EQ(must_attach(scene).info().version, 1);
  });
}

}  // namespace
}  // namespace sharing

// Processes share the weights of a name: exactly one of them loads, each can hand them on, and a
// process that may not have them gets an error that says why.
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "process/shared_weights/kit.h"
#include "support/become_user.h"

namespace sharing {
namespace {

constexpr uint64_t kSmall = 100'000;
constexpr uint64_t kLarge = 20 * fault::kMiB;

TEST(SharedWeights, AreLoadedOnceByEightOpeners) {
  IN_CHILD([] {
    constexpr size_t kOpeners = 8;
    using Reports = std::array<Report, kOpeners>;
    const Scene scene(kLarge);
    for (int round = 0; round < (fault::kSanitized ? 2 : 4); ++round) {
      Reports& reports = *new_shared<Reports>();
      std::vector<pid_t> children;
      for (Report& each : reports) children.push_back(spawn_holder(scene, &each, true));
      for (Report& each : reports) each.go.store(1);
      for (const Report& each : reports) await_weights(each);
      uint32_t loads = 0;
      uint32_t bad = 0;
      for (const Report& each : reports) {
        loads += each.loads.load();
        bad += each.bad.load();
        CHECK_EQ(each.inode.load(), reports[0].inode.load());
      }
      CHECK_EQ(loads, 1);
      CHECK_EQ(bad, 0);
      for (size_t i = 0; i < kOpeners; ++i) leave_now(children[i], &reports[i]);
      CHECK(scene.is_clean());
      munmap(&reports, sizeof reports);
    }
  });
}

TEST(SharedWeights, WaitForTheLoaderWithItsProgress) {
  IN_CHILD([] {
    const Scene scene(kLarge);
    const std::string file = scene.file();
    Report& loader = *new_shared<Report>();
    const pid_t parent = getpid();
    const auto slow = [](void* context, uint64_t, uint64_t) {
      static_cast<Report*>(context)->turn.fetch_add(1);
      while (static_cast<Report*>(context)->go.load() == 0) usleep(500);
    };
    const pid_t child = fault::spawn([&] {
      tenon::test::die_with_parent(parent);
      const Opened opened =
          open_weights(scene, {.path = file.c_str(), .progress = slow, .context = &loader});
      if (opened.outcome.status == TENON_UNSUPPORTED) _exit(0);
      CHECK(opened.info().loaded == 1);
      loader.inode.store(1);
      while (loader.go.load() < 2) usleep(500);
      _exit(fault::g_failures);
    });
    REQUIRE(fault::wait_until([&] { return loader.turn.load() > 0; }));
    // The loader has not begun to read, and answers all the same.
    const Opened early =
        open_weights(scene, {.path = file.c_str(), .timeout_ns = 200 * kMillisecond});
    CHECK_EQ(early.outcome.status, TENON_TIMEOUT);
    CHECK_EQ(std::stoi("0" + early.outcome.detail("pid")), child);
    CHECK_SAYING(early.outcome.message.find("still loading") != std::string::npos,
                 early.outcome.message);
    struct Seen {
      Report* loader;
      uint64_t total;
    } seen{&loader, 0};
    const auto look = [](void* context, uint64_t, uint64_t total) {
      static_cast<Seen*>(context)->total = total;
      static_cast<Seen*>(context)->loader->go.store(1);
    };
    const Opened late =
        open_weights(scene, {.path = file.c_str(), .progress = look, .context = &seen});
    if (CHECK_SAYING(late.outcome.ok(), late.outcome.text())) {
      CHECK(late.info().loaded == 0 && scene.has(late.data()));
      CHECK_EQ(seen.total, late.info().file_nbytes);
    }
    leave_now(child, &loader);
  });
}

TEST(SharedWeights, NameAStoppedServer) {
  IN_CHILD([] {
    const Scene scene(kSmall);
    Report& report = *new_shared<Report>();
    const pid_t server = spawn_holder(scene, &report);
    await_weights(report);
    stop_now(server);
    const std::string file = scene.file();
    for (const char* const path : {file.c_str(), static_cast<const char*>(nullptr)}) {
      const Opened opened = open_weights(scene, {.path = path, .timeout_ns = 100 * kMillisecond});
      CHECK_EQ(opened.outcome.status, TENON_TIMEOUT);
      CHECK_EQ(std::stoi("0" + opened.outcome.detail("pid")), server);
    }
    kill(server, SIGCONT);
    {
      const Opened opened = must_open(scene);
      CHECK(opened.info().loaded == 0);
    }
    leave_now(server, &report);
    CHECK(scene.is_clean());
  });
}

// A child of fork keeps neither the lock nor the connections of its parent.
TEST(SharedWeights, AreNotKeptByAForkedChild) {
  IN_CHILD([] {
    const Scene scene(kSmall);
    Report& report = *new_shared<Report>();
    const pid_t parent = getpid();
    const pid_t server = fault::spawn([&] {
      tenon::test::die_with_parent(parent);
      const Opened opened = must_open(scene);
      const Opened again = must_open(scene);
      const void* const data = opened.data();
      const pid_t child = fork();
      if (child == 0) {
        report.turn.store(static_cast<uint64_t>(getpid()));
        // Its parent is killed, so it ends by itself if the test fails.
        const int64_t end = now_ns() + 2 * kLong;
        while (report.go.load() == 0 && now_ns() < end) usleep(500);
        _exit(scene.has(data) ? 0 : 1);
      }
      report.inode.store(inode_at(data));
      pause();
    });
    await_weights(report);
    REQUIRE(fault::wait_until([&] { return report.turn.load() != 0; }));
    kill_now(server);
    {
      const int64_t begin = now_ns();
      const Opened opened = must_open(scene);
      CHECK(opened.info().loaded == 1);
      CHECK(now_ns() - begin < kSecond * (fault::kSanitized ? 10 : 1));
      CHECK(inode_at(opened.data()) != report.inode.load());
    }
    report.go.store(1);
    CHECK(scene.is_clean());
  });
}

// Connects to a socket with a path.
int connect_raw(const std::string& path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  REQUIRE(path.size() < sizeof name.sun_path);
  std::memcpy(name.sun_path, path.c_str(), path.size());
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  REQUIRE(socket >= 0);
  REQUIRE(::connect(socket, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0);
  return socket;
}

void await_hang_up(int socket) {
  char byte = 0;
  while (::recv(socket, &byte, 1, 0) > 0) {
  }
  close(socket);
}

// The server drops a client that breaks the protocol, and serves the others.
TEST(SharedWeights, DropHostileClients) {
  IN_CHILD([] {
    const Scene scene(kSmall);
    Report& report = *new_shared<Report>();
    const pid_t server = spawn_holder(scene, &report);
    await_weights(report);
    const std::string junk(700, '\x5a');
    std::vector<std::string> packets{"", "x", junk, junk.substr(0, 56)};
    // A whole hello, whose numbers are wrong one after another.
    std::string hello(56, '\0');
    hello.replace(0, 12, std::string("TNSW\x01\x00\x01\x00\x38\x00\x00\x00", 12));
    hello[16] = 1;
    for (const size_t at : {size_t{0}, size_t{4}, size_t{6}, size_t{8}, size_t{12}, size_t{16},
                            size_t{20}, size_t{30}}) {
      packets.push_back(hello);
      packets.back()[at] = '\x7f';
    }
    for (const std::string& packet : packets) {
      const int socket = connect_raw(scene.socket());
      REQUIRE(::send(socket, packet.data(), packet.size(), MSG_NOSIGNAL) >= 0);
      await_hang_up(socket);
    }
    // A second hello is one too many.
    const int twice = connect_raw(scene.socket());
    REQUIRE(::send(twice, hello.data(), hello.size(), MSG_NOSIGNAL) == 56);
    REQUIRE(::send(twice, hello.data(), hello.size(), MSG_NOSIGNAL) == 56);
    await_hang_up(twice);
    {
      const Opened opened = must_open(scene);
      CHECK(opened.info().loaded == 0 && opened.info().holders == 2);
    }
    leave_now(server, &report);
    CHECK(scene.is_clean());
  });
}

// What listens on the socket sends junk, memory that is not frozen, or no memory.
TEST(SharedWeights, AreNotTakenFromAHostileServer) {
  IN_CHILD([] {
    const Scene scene(kSmall);
    (void)must_open(scene);
    const int hold = ::open((scene.directory() + "/net.hold").c_str(), O_CREAT | O_RDWR, 0600);
    REQUIRE(hold >= 0);
    const int listener = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path, scene.socket().c_str(), scene.socket().size());
    REQUIRE(::bind(listener, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0);
    REQUIRE(::listen(listener, 8) == 0);
    const uint64_t segment = kSmall + 4096;
    std::string weights(76, '\0');
    weights.replace(0, 12, std::string("TNSW\x01\x00\x03\x00\x4c\x00\x00\x00", 12));
    weights[16] = 1;
    std::memcpy(weights.data() + 40, &segment, sizeof segment);
    const int writable = fault::foreign_memfd(segment);
    enum class Answer { kJunk, kNoMemory, kWritable, kWrongSize };
    for (const Answer answer :
         {Answer::kJunk, Answer::kNoMemory, Answer::kWritable, Answer::kWrongSize}) {
      const pid_t child = fault::spawn([&] {
        const Opened opened = open_weights(scene, {});
        const tenon_status status = opened.outcome.status;
        CHECK_SAYING(status == TENON_CORRUPT || status == TENON_PERMISSION, opened.outcome.text());
        CHECK(opened.outcome.detail("pid") == std::to_string(getppid()));
        _exit(fault::g_failures);
      });
      const int client = ::accept(listener, nullptr, nullptr);
      char hello[64];
      REQUIRE(client >= 0 && ::recv(client, hello, sizeof hello, 0) == 56);
      std::string packet = answer == Answer::kJunk ? std::string(76, 'j') : weights;
      if (answer == Answer::kWrongSize) packet[41] = '\x7f';
      iovec part{packet.data(), packet.size()};
      alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
      msghdr message{};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      if (answer == Answer::kWritable || answer == Answer::kWrongSize) {
        message.msg_control = control.data();
        message.msg_controllen = control.size();
        cmsghdr* const head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int));
        std::memcpy(CMSG_DATA(head), &writable, sizeof writable);
      }
      REQUIRE(::sendmsg(client, &message, MSG_NOSIGNAL) >= 0);
      CHECK_EQ(fault::wait_for_child(child), 0);
      close(client);
    }
  });
}

// A child of another user opens the weights of root.
TEST(SharedWeights, AreRefusedToOtherUsers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  IN_CHILD([] {
    const Scene scene(kSmall);
    const std::string file = scene.file();
    REQUIRE(chmod(file.c_str(), 0644) == 0);
    const Opened mine = must_open(scene);
    const auto open_as_other = [&](uint32_t group, const auto& judge) {
      const pid_t child = fault::spawn([&] {
        REQUIRE(become_user(65534, 4242));
        const Opened opened =
            open_weights(scene, {.path = file.c_str(), .timeout_ns = 2 * kSecond, .group = group});
        judge(opened);
        _exit(fault::g_failures);
      });
      CHECK_EQ(fault::wait_for_child(child), 0);
    };
    const auto is_refused = [&](const Opened& opened) {
      CHECK_SAYING(opened.outcome.status == TENON_PERMISSION, opened.outcome.text());
      CHECK(!opened.outcome.detail("path").empty());
    };
    // The mode of the socket refuses, and if it does not, the server does.
    open_as_other(0, is_refused);
    REQUIRE(chmod(scene.socket().c_str(), 0666) == 0);
    REQUIRE(chmod((scene.directory() + "/net.hold").c_str(), 0666) == 0);
    open_as_other(0, is_refused);
    open_as_other(4242, is_refused);
    CHECK(mine.info().holders == 1);
  });
}

TEST(SharedWeights, AreSharedWithAGroup) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  IN_CHILD([] {
    const Scene scene(kSmall);
    const std::string file = scene.file();
    REQUIRE(chmod(file.c_str(), 0644) == 0);
    REQUIRE(chown(scene.directory().c_str(), 0, 4242) == 0);
    REQUIRE(chmod(scene.directory().c_str(), 0770) == 0);
    const uint64_t inode = [&] {
      const Opened opened = must_open(scene);
      return inode_at(opened.data());
    }();
    Opened mine = open_weights(scene, {.path = file.c_str(), .group = 4242});
    REQUIRE(mine.outcome.ok() && mine.info().loaded == 1);
    CHECK(inode_at(mine.data()) != inode);
    Report& report = *new_shared<Report>();
    const pid_t member = fault::spawn([&] {
      REQUIRE(become_user(65534, 4242));
      const Opened opened =
          open_weights(scene, {.path = file.c_str(), .timeout_ns = 2 * kSecond, .group = 4242});
      CHECK_SAYING(opened.outcome.ok(), opened.outcome.text());
      if (fault::g_failures != 0) _exit(1);
      CHECK(opened.info().loaded == 0 && scene.has(opened.data()));
      report.inode.store(inode_at(opened.data()));
      while (report.go.load() < 2) {
        report.serves.store(opened.info().serves);
        usleep(500);
      }
      _exit(fault::g_failures);
    });
    await_weights(report);
    CHECK_EQ(report.inode.load(), inode_at(mine.data()));
    // The member of the group takes over, and root comes back to it.
    mine = Opened();
    REQUIRE(fault::wait_until([&] { return report.serves.load() == 1; }));
    mine = open_weights(scene, {.group = 4242});
    CHECK_SAYING(mine.outcome.ok(), mine.outcome.text());
    leave_now(member, &report);
  });
}

}  // namespace
}  // namespace sharing

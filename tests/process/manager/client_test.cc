// These tests run the manager's client with Tenon's manager, with no manager, and with managers
// that lie.
#include "names/manager.h"

#include <sys/file.h>

#include "names/manager_protocol.h"
#include "os/wait.h"
#include "process/manager/kit.h"
#include "support/become_user.h"
#include "support/unix_socket.h"

namespace manager_test {
namespace {

using tenon::Code;
using tenon::Status;
using tenon::names::deallocate_at_manager;
using tenon::names::register_with_manager;
using tenon::names::remove_dead_manager;
using tenon::names::start_manager;

using ManagerClient = ManagerTest;

constexpr int64_t kLongNs = 20'000'000'000;

Status add(const std::string& manager, const std::string& name, int64_t timeout_ns = kLongNs) {
  tenon::os::Waiter waiter({.timeout_ns = timeout_ns});
  return register_with_manager(manager, name, &waiter);
}

// Runs a test's client in a child. Connections are kept as long as the process lives, and a manager
// lives as long as its connections, so a client must end with its test.
void in_child(const std::function<void()>& body, const char* what = "") {
  Child child([&] {
    body();
    return testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(child.end(), 0) << what;
}

TEST_F(ManagerClient, RegistersAndDeallocatesFromManyThreads) {
  start();
  in_child([&] {
    std::vector<std::thread> threads;
    std::atomic<int> failures{0};
    for (int number = 0; number < 8; ++number) {
      threads.emplace_back([&, number] {
        for (int i = 0; i < 200; ++i) {
          const std::string name = "/tenon-" + std::to_string(number) + "-" + std::to_string(i % 3);
          if (!add(socket(), name).is_ok()) ++failures;
          deallocate_at_manager(socket(), name);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(failures, 0);
    EXPECT_LT(count_open_fds(), 29);  // connections are reused
  });
}

TEST_F(ManagerClient, WhatAKilledUserOfItHeldGoes) {
  const Client other = start_with_client();
  const Signal ready;
  Child child([&] {
    const File made = File::make(file("tenon-test"));
    if (!add(socket(), "/tenon-test").is_ok()) return 2;
    return stay(ready);
  });
  ASSERT_TRUE(ready.wait());
  DeletionWatch watch(objects_.path());
  child.end(SIGKILL);
  EXPECT_TRUE(watch.wait(1));
}

TEST_F(ManagerClient, AChildOfForkIsAClientOfItsOwn) {
  const Client witness = start_with_client();
  const Signal ready;
  const Signal go_on;
  DeletionWatch watch(objects_.path());
  Child parent([&] {
    const File mine = File::make(file("tenon-parent"));
    if (!add(socket(), "/tenon-parent").is_ok()) return 2;
    Child child([&] {
      const File made = File::make(file("tenon-child"));
      if (!add(socket(), "/tenon-child").is_ok()) return 3;
      return stay(ready);
    });
    if (!ready.wait()) return 4;
    child.end(SIGKILL);
    if (!watch.wait(1)) return 5;
    if (is_there(file("tenon-child")) || !is_there(file("tenon-parent"))) return 6;
    return add(socket(), "/tenon-parent").is_ok() ? 0 : 7;
  });
  EXPECT_EQ(parent.end(), 0);
  EXPECT_TRUE(wait_until([&] { return !is_there(file("tenon-parent")); }));
}

TEST_F(ManagerClient, AStoppedManagerIsATimeout) {
  start();
  in_child([&] {
    EXPECT_TRUE(add(socket(), "/tenon-1").is_ok());
    manager_->child().signal(SIGSTOP);
    const auto start = Clock::now();
    const Status status = add(socket(), "/tenon-2", 200'000'000);
    EXPECT_LT(ms_since(start), 5000);
    EXPECT_GE(ms_since(start), 200);
    EXPECT_EQ(status.code(), Code::kTimeout) << status.message();
    EXPECT_EQ(status.detail("path"), socket());
    EXPECT_EQ(add(socket(), "/tenon-2", 0).code(), Code::kWouldBlock);
    manager_->child().signal(SIGCONT);
    EXPECT_TRUE(add(socket(), "/tenon-2").is_ok());
  });
}

// Deallocations never wait, and those that find no room are sent later. A lost deallocation would
// be counted against a message in flight.
TEST_F(ManagerClient, NoDeallocationIsLost) {
  const Client witness = start_with_client();
  constexpr int kNames = 1500;
  const auto name = [](int i) { return "tenon-" + std::to_string(i); };
  in_child([&] {
    for (int i = 0; i < kNames; ++i) {
      const File made = File::make(file(name(i)));  // its count of one stands for a message
      ASSERT_TRUE(add(socket(), "/" + name(i)).is_ok());
    }
    manager_->child().signal(SIGSTOP);
    const auto start = Clock::now();
    for (int i = 0; i < kNames; ++i) deallocate_at_manager(socket(), "/" + name(i));
    EXPECT_LT(ms_since(start), 10000);
    manager_->child().signal(SIGCONT);
    EXPECT_TRUE(wait_until([&] { return add(socket(), "/tenon-last").is_ok(); }));
    deallocate_at_manager(socket(), "/tenon-last");
    EXPECT_TRUE(add(socket(), "/tenon-last").is_ok());
  });
  // The manager handles deaths in order, so the death of this second client comes after all before
  // it.
  const Signal ready;
  Child second([&] {
    const File made = File::make(file("tenon-second"));
    if (!add(socket(), "/tenon-second").is_ok()) return 2;
    return stay(ready);
  });
  ASSERT_TRUE(ready.wait());
  DeletionWatch watch(objects_.path());
  second.end(SIGKILL);
  ASSERT_TRUE(watch.wait(1));
  int there = 0;
  for (int i = 0; i < kNames; ++i) {
    if (unlink(file(name(i)).c_str()) == 0) ++there;
  }
  EXPECT_EQ(there, kNames);
}

TEST_F(ManagerClient, SaysWhoIsNotThere) {
  in_child([&] {
    Status status = add(socket(), "/tenon-1");
    EXPECT_EQ(status.code(), Code::kNotFound);
    EXPECT_EQ(status.detail("path"), socket());
    close(open(file("plain").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    status = add(file("plain"), "/tenon-1");
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_EQ(status.detail("path"), file("plain"));
    unlink(file("plain").c_str());
    EXPECT_EQ(add(socket(), "tenon-1").code(), Code::kInvalidArgument);
    EXPECT_EQ(add(socket(), "/" + std::string(59, 'x')).code(), Code::kInvalidArgument);
    deallocate_at_manager(socket(), "/tenon-1");
    deallocate_at_manager(socket(), "no name");
  });
}

TEST_F(ManagerClient, AKilledManagerIsGoneAndAnotherServesOn) {
  start();
  const Signal connected;
  const Signal killed;
  const Signal replaced;
  Child child([&] {
    EXPECT_TRUE(add(socket(), "/tenon-1").is_ok());
    connected.give();
    if (!killed.wait()) return 3;
    deallocate_at_manager(socket(), "/tenon-1");
    const Status status = add(socket(), "/tenon-2");
    // The client that finds the dead manager removes its files, so the second try reports that
    // there is none.
    EXPECT_TRUE(status.code() == Code::kPeerGone || status.code() == Code::kNotFound)
        << status.message();
    EXPECT_EQ(status.detail("path"), socket());
    connected.give();
    if (!replaced.wait()) return 4;
    EXPECT_TRUE(add(socket(), "/tenon-2").is_ok());
    return testing::Test::HasFailure() ? 1 : 0;
  });
  ASSERT_TRUE(connected.wait());
  manager_->child().end(SIGKILL);
  killed.give();
  ASSERT_TRUE(connected.wait());
  start();
  replaced.give();
  EXPECT_EQ(child.end(), 0);
}

// A server that gives a chosen answer.
class Liar {
 public:
  explicit Liar(const std::string& path, std::function<void(int)> answer)
      : answer_(std::move(answer)) {
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (!tenon::test::bind_path(listener_, path) || listen(listener_, 10) != 0) std::abort();
    thread_ = std::thread([this] {
      for (;;) {
        const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        if (fd < 0) return;
        std::array<char, 68> bytes;
        if (recv(fd, bytes.data(), bytes.size(), MSG_WAITALL) > 0) answer_(fd);
        close(fd);
      }
    });
  }
  Liar(const Liar&) = delete;
  Liar& operator=(const Liar&) = delete;
  ~Liar() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }

 private:
  int listener_;
  std::function<void(int)> answer_;
  std::thread thread_;
};

void say(int fd, const char* text) {
  static_cast<void>(send(fd, text, std::strlen(text), MSG_NOSIGNAL));
}
void wait_for_end(int fd) {
  char byte = 0;
  while (recv(fd, &byte, 1, 0) > 0) {
  }
}

TEST_F(ManagerClient, HostileManagers) {
  struct Lie {
    const char* name;
    std::function<void(int)> answer;
    Code code;
  };
  const std::vector<Lie> lies = {
      {"no",
       [](int fd) {
         say(fd, "NO");
         wait_for_end(fd);
       },
       Code::kCorrupt},
      {"too much",
       [](int fd) {
         say(fd, "OKOKOK");
         wait_for_end(fd);
       },
       Code::kCorrupt},
      {"nothing", [](int fd) { wait_for_end(fd); }, Code::kTimeout},
      {"half",
       [](int fd) {
         say(fd, "O");
         wait_for_end(fd);
       },
       Code::kTimeout},
      {"closes", [](int) {}, Code::kPeerGone},
      {"half and closes", [](int fd) { say(fd, "O"); }, Code::kPeerGone},
  };
  for (const Lie& lie : lies) {
    in_child(
        [&] {
          const Liar liar(socket(), lie.answer);
          const long fds = count_open_fds();
          const auto start = Clock::now();
          const Status status =
              add(socket(), "/tenon-1", lie.code == Code::kTimeout ? 300'000'000 : 20'000'000'000);
          EXPECT_EQ(status.code(), lie.code) << status.message();
          EXPECT_EQ(status.detail("path"), socket());
          EXPECT_LT(ms_since(start), 60000);
          EXPECT_TRUE(wait_until([&] { return count_open_fds() == fds; }));
        },
        lie.name);
    unlink(socket().c_str());
  }
}

TEST_F(ManagerClient, FdsFromAHostileManagerAreNotKept) {
  in_child([&] {
    const Liar liar(socket(), [](int fd) { send_with_fds(fd, "OK", {0, 1}); });
    const long fds = count_open_fds();
    EXPECT_TRUE(add(socket(), "/tenon-1").is_ok());
    // Once the liar has closed its end, only the connection that is kept has an fd.
    EXPECT_TRUE(wait_until([&] { return count_open_fds() == fds + 1; }));
  });
  unlink(socket().c_str());
}

TEST_F(ManagerClient, AnotherUsersManagerIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  ASSERT_EQ(chmod(place_.path().c_str(), 0777), 0);
  const Signal ready;
  Child other([&] {
    if (!become_user(12345, 12345)) return 9;
    const Liar liar(socket(), [](int fd) { say(fd, "OK"); });
    return stay(ready);
  });
  ASSERT_TRUE(ready.wait());
  in_child([&] {
    const Status status = add(socket(), "/tenon-1");
    EXPECT_EQ(status.code(), Code::kPermission) << status.message();
    EXPECT_EQ(status.detail("path"), socket());
  });
  other.end(SIGKILL);
  unlink(socket().c_str());
}

tenon::Result<std::string> start_one(const std::string& with = program(),
                                     int64_t timeout_ns = kLongNs) {
  tenon::os::Waiter waiter({.timeout_ns = timeout_ns});
  return start_manager(with, &waiter);
}

class StartManager : public ManagerTest {
 protected:
  void SetUp() override {
    ManagerTest::SetUp();
    setenv("TENON_MANAGER_FOLDER", folder().c_str(), 1);
  }
  void TearDown() override {
    unsetenv("TENON_MANAGER_FOLDER");
    EXPECT_TRUE(wait_until([&] { return !is_there(folder()); })) << "the manager left its folder";
    ManagerTest::TearDown();
  }
  std::string folder() const { return place_.file("tenon-manager"); }
};

TEST_F(StartManager, StartsOneAndKeepsIt) {
  in_child([&] {
    tenon::Result<std::string> path = start_one();
    ASSERT_TRUE(path.is_ok()) << path.status().message();
    EXPECT_EQ(path.value(), folder() + "/manager.sock");
    struct stat info{};
    ASSERT_EQ(stat(folder().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 07777, 0700U);
    // The manager lives as long as its client, even if idle. The sleep is longer than the manager
    // lingers.
    std::this_thread::sleep_for(milliseconds(900));
    EXPECT_TRUE(is_there(path.value()));
    EXPECT_TRUE(start_one().is_ok());
    EXPECT_TRUE(add(path.value(), "/tenon-no-such-name").is_ok());
  });
}

TEST_F(StartManager, ManyAtOnceGetTheSame) {
  std::vector<Child> children;
  const Signal ready;
  for (int i = 0; i < 12; ++i) {
    children.emplace_back([&] {
      tenon::Result<std::string> path = start_one();
      if (!path.is_ok() || path.value() != folder() + "/manager.sock") {
        std::fprintf(stderr, "%s\n", path.status().message().c_str());
        return 2;
      }
      if (!add(path.value(), "/tenon-no-such-name").is_ok()) return 3;
      return stay(ready);
    });
  }
  for (int i = 0; i < 12; ++i) ASSERT_TRUE(ready.wait());
  EXPECT_EQ(names_in(folder()), (std::set<std::string>{"manager.sock", "manager.sock.lock"}));
}

TEST_F(StartManager, StartsAnotherAfterAKill) {
  in_child([&] {
    tenon::Result<std::string> path = start_one();
    ASSERT_TRUE(path.is_ok()) << path.status().message();
    const auto killed = [&] {
      for (const std::string& name : names_in("/proc")) {
        const std::string command = read_text("/proc/" + name + "/cmdline");
        if (command.find(folder()) != std::string::npos &&
            command.find("--own-folder") != std::string::npos)
          return kill(std::stoi(name), SIGKILL) == 0;
      }
      return false;
    }();
    ASSERT_TRUE(killed);
    // The client that finds the manager dead removes its files, once the kernel has released its
    // lock.
    EXPECT_TRUE(wait_until(
        [&] { return !add(path.value(), "/tenon-no-such-name").is_ok() && !is_there(folder()); }));
    path = start_one();
    ASSERT_TRUE(path.is_ok()) << path.status().message();
    EXPECT_TRUE(add(path.value(), "/tenon-no-such-name").is_ok());
  });
}

// One manager ends while another is wanted. The client must still get one.
TEST_F(StartManager, InTheMomentInWhichTheLastOneEnds) {
  for (int round = 0; round < 6; ++round) {
    in_child([&] { EXPECT_TRUE(start_one().is_ok()); });
    std::this_thread::sleep_for(milliseconds(495 + round * 2));
    in_child([&] {
      tenon::Result<std::string> path = start_one();
      ASSERT_TRUE(path.is_ok()) << path.status().message();
      EXPECT_TRUE(add(path.value(), "/tenon-no-such-name").is_ok());
    });
  }
}

TEST_F(StartManager, ProgramsThatAreNone) {
  in_child([&] {
    EXPECT_EQ(start_one(place_.file("missing")).status().code(), Code::kNotFound);
    EXPECT_EQ(start_one(place_.file("missing")).status().detail("path"), place_.file("missing"));
    EXPECT_EQ(start_one("/bin/true").status().code(), Code::kPeerGone);
    EXPECT_EQ(start_one("/bin/echo").status().code(), Code::kCorrupt);
    EXPECT_EQ(start_one("/etc/passwd").status().code(), Code::kPermission);
  });
}

TEST_F(StartManager, AFolderThatOthersCanWriteIsRefused) {
  in_child([&] {
    ASSERT_EQ(mkdir(folder().c_str(), 0700), 0);
    ASSERT_EQ(chmod(folder().c_str(), 0770), 0);
    EXPECT_EQ(start_one().status().code(), Code::kPermission);
    rmdir(folder().c_str());
    ASSERT_EQ(symlink("/tmp", folder().c_str()), 0);
    EXPECT_EQ(start_one().status().code(), Code::kPermission);
    unlink(folder().c_str());
  });
}

TEST_F(StartManager, AFolderThatIsTooLongForPyTorch) {
  in_child([&] {
    setenv("TENON_MANAGER_FOLDER", place_.file(std::string(100, 'x')).c_str(), 1);
    EXPECT_EQ(start_one().status().code(), Code::kInvalidArgument);
  });
}

// Another user has taken the usual folder. This process and the processes that it tells get a
// manager of their own.
TEST_F(StartManager, ASquattedFolderIsLeftAlone) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const uid_t uid = 1000000 + static_cast<uid_t>(getpid());
  const std::string usual = "/dev/shm/tenon-manager-" + std::to_string(uid);
  ASSERT_EQ(mkdir(usual.c_str(), 0755), 0);
  Child child([&] {
    unsetenv("TENON_MANAGER_FOLDER");
    if (!become_user(uid, uid)) return 9;
    if (access(program().c_str(), X_OK) != 0) return 77;
    tenon::Result<std::string> path = start_one();
    EXPECT_TRUE(path.is_ok()) << path.status().message();
    if (path.is_ok()) {
      EXPECT_TRUE(path.value().starts_with(usual + "-")) << path.value();
      EXPECT_TRUE(add(path.value(), "/tenon-no-such-name").is_ok());
      tenon::Result<std::string> again = start_one();
      EXPECT_TRUE(again.is_ok() && again.value() == path.value());
    }
    return testing::Test::HasFailure() ? 1 : 0;
  });
  const int how = child.end();
  rmdir(usual.c_str());
  EXPECT_TRUE(wait_until([&] {
    for (const std::string& name : names_in("/dev/shm")) {
      if (name.starts_with("tenon-manager-" + std::to_string(uid))) return false;
    }
    return true;
  }));
  if (how == 77) GTEST_SKIP() << "another user cannot reach the program";
  EXPECT_EQ(how, 0);
}

TEST_F(StartManager, WhatALivingManagerHasStays) {
  in_child([&] {
    tenon::Result<std::string> path = start_one();
    ASSERT_TRUE(path.is_ok()) << path.status().message();
    remove_dead_manager(path.value());
    EXPECT_TRUE(is_there(path.value()));
    EXPECT_TRUE(add(path.value(), "/tenon-no-such-name").is_ok());
  });
}

}  // namespace
}  // namespace manager_test

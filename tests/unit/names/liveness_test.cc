// These tests check which names are live, in flight or dead, while holders end and other processes
// look.
#include "names/liveness.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "os/local_socket.h"
#include "share/named_file_head.h"
#include "support/must.h"
#include "unit/os/surroundings.h"

namespace tenon::names {
namespace {

// A file in Tenon's layout with one message in flight, held by an fd.
class Held {
 public:
  explicit Held(const std::string& path)
      : fd_(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) {
    EXPECT_GE(fd_, 0);
    EXPECT_EQ(ftruncate(fd_, share::kFilenameHeaderNbytes + 100), 0);
    write_at(offsetof(share::FilenameHeader, count), int32_t{1});
    write_at(offsetof(share::FilenameHeader, magic), share::kFilenameMagic);
    write_at(offsetof(share::FilenameHeader, in_flight), int32_t{1});
    EXPECT_EQ(flock(fd_, LOCK_SH), 0);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { end(); }
  void keep_until(int64_t ns) const {
    write_at(offsetof(share::FilenameHeader, keep_until_ns), ns);
  }
  void end() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  template <typename Value>
  void write_at(size_t offset, const Value& value) const {
    EXPECT_EQ(pwrite(fd_, &value, sizeof value, static_cast<off_t>(offset)),
              static_cast<ssize_t>(sizeof value));
  }
  int fd_;
};

// A holder may write to a file until the kernel says that nobody holds it. So what was read before
// may be out of date.
TEST(Liveness, AHolderThatEndsInOrderWhileItIsLookedAt) {
  const test::ScratchFolder folder;
  const int directory = open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_GE(directory, 0);
  Held held(folder.path() + "/one");
  std::thread ends([&] {
    // The check has begun by now, and waits for the holder.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    held.keep_until(os::real_time_ns() + 30'000'000'000);
    held.end();
  });
  Result<NameReport> report = look_at(directory, "one", {.remove = true, .patience = 20'000});
  ends.join();
  ASSERT_TRUE(report.is_ok()) << report.status().message();
  EXPECT_EQ(report.value().state, NameState::kInFlight) << report.value().why;
  EXPECT_FALSE(report.value().removed);
  EXPECT_EQ(access((folder.path() + "/one").c_str(), F_OK), 0);
  close(directory);
}

TEST(Liveness, AHolderThatIsGoneWithoutAWord) {
  const test::ScratchFolder folder;
  const int directory = open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_GE(directory, 0);
  {
    const Held held(folder.path() + "/one");
    NameReport report = must(look_at(directory, "one", {.remove = true}));
    EXPECT_EQ(report.state, NameState::kLive) << report.why;
  }
  NameReport report = must(look_at(directory, "one", {.remove = true}));
  EXPECT_EQ(report.state, NameState::kDead) << report.why;
  EXPECT_TRUE(report.removed);
  EXPECT_NE(access((folder.path() + "/one").c_str(), F_OK), 0);
  close(directory);
}

// A new lender and the watch of its directory can find a dead lender's socket at the same moment.
// The one that is second to remove the socket must not say that the name is taken.
TEST(Liveness, ADeadLendersNameIsFreeForAllThatFindItTogether) {
  constexpr int kRounds = 100;
  constexpr int kLookers = 4;
  const test::ScratchFolder folder;
  const int directory = open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_GE(directory, 0);
  for (int round = 0; round < kRounds; ++round) {
    // A killed lender leaves such a socket: bound, closed, and not unlinked.
    ASSERT_TRUE(os::listen_local(os::SocketKind::kPackets, folder.path() + "/one", 0600 | S_ISVTX,
                                 static_cast<gid_t>(-1))
                    .is_ok());
    std::atomic<int> ready{0};
    std::atomic<int> taken{0};
    std::vector<std::thread> lookers;
    for (int i = 0; i < kLookers; ++i) {
      lookers.emplace_back([&] {
        for (++ready; ready != kLookers;) std::this_thread::yield();
        if (!remove_dead_namesake(directory, "one")) ++taken;
      });
    }
    for (std::thread& looker : lookers) looker.join();
    ASSERT_EQ(taken, 0) << "in round " << round;
    ASSERT_NE(access((folder.path() + "/one").c_str(), F_OK), 0);
  }
  close(directory);
}

// Plants a file that no process holds, in the form of PyTorch's with a count of 0.
void plant_torch_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(ftruncate(fd, 4096), 0);
  close(fd);
}

TEST(Liveness, ALackOfFdsIsNoAnswer) {
  const test::ScratchFolder folder;
  const int directory = open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_GE(directory, 0);
  {
    const Held held(folder.path() + "/one");
  }
  ASSERT_TRUE(os::listen_local(os::SocketKind::kPackets, folder.path() + "/two", 0600 | S_ISVTX,
                               static_cast<gid_t>(-1))
                  .is_ok());
  for (const char* const leaf : {"one", "two"}) {
    {
      const test::NoFdLeft none;
      EXPECT_EQ(look_at(directory, leaf, {}).status().code(), Code::kResourceExhausted) << leaf;
      EXPECT_FALSE(sweep_name(directory, leaf)) << leaf;
      EXPECT_FALSE(remove_dead_namesake(directory, leaf)) << leaf;
      // remove_if_dead() is not for sockets.
      EXPECT_EQ(remove_if_dead(directory, leaf), leaf == std::string("two")) << leaf;
    }
    EXPECT_EQ(access((folder.path() + "/" + leaf).c_str(), F_OK), 0);
    EXPECT_TRUE(sweep_name(directory, leaf)) << leaf;
    EXPECT_NE(access((folder.path() + "/" + leaf).c_str(), F_OK), 0);
  }
  close(directory);
}

// Root opens every file, so another user looks.
TEST(Liveness, AFileThatCannotBeOpenedIsUnsure) {
  const test::ScratchFolder folder;
  ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);
  test::ForkChild child([&](int) {
    if (geteuid() == 0) {
      EXPECT_EQ(setresgid(65534, 65534, 65534), 0);
      EXPECT_EQ(setresuid(65534, 65534, 65534), 0);
    }
    for (const char* const leaf : {"/tenon-closed", "/torch_1_2_3", "/.tenon-new-1", "/other"}) {
      const std::string path = folder.path() + leaf;
      {
        const Held held(path);
      }
      EXPECT_EQ(chmod(path.c_str(), 0), 0);
    }
    std::vector<std::string> seen;
    EXPECT_TRUE(look_at_all(folder.path(), {}, [&](const NameReport& report) {
                  EXPECT_EQ(report.state, NameState::kUnsure) << report.leaf;
                  EXPECT_FALSE(report.why.empty()) << report.leaf;
                  EXPECT_EQ(report.kind,
                            report.leaf == "tenon-closed" ? NameKind::kFile : NameKind::kTorchFile);
                  seen.push_back(report.leaf);
                  return true;
                }).is_ok());
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen, (std::vector<std::string>{"tenon-closed", "torch_1_2_3"}));
    for (const char* const leaf : {"/tenon-closed", "/torch_1_2_3", "/.tenon-new-1", "/other"})
      EXPECT_EQ(unlink((folder.path() + leaf).c_str()), 0);
    std::fflush(nullptr);
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  });
  EXPECT_EQ(child.reap(), 0);
}

TEST(Liveness, ADeadNamesakeThatStaysIsNotFree) {
  const test::ScratchFolder folder;
  const int directory = open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_GE(directory, 0);
  const std::string leaf = "torch_" + std::to_string(getpid()) + "_3735928559_0";
  plant_torch_file(folder.path() + "/" + leaf);
  Result<NameReport> report = look_at(directory, leaf, {});
  ASSERT_TRUE(report.is_ok());
  EXPECT_EQ(report.value().state, NameState::kDead) << report.value().why;
  // Such files are PyTorch's to remove.
  EXPECT_FALSE(remove_dead_namesake(directory, leaf));
  EXPECT_EQ(access((folder.path() + "/" + leaf).c_str(), F_OK), 0);
  {
    const Held held(folder.path() + "/one");
  }
  EXPECT_TRUE(remove_dead_namesake(directory, "one"));
  EXPECT_NE(access((folder.path() + "/one").c_str(), F_OK), 0);
  EXPECT_TRUE(remove_dead_namesake(directory, "one"));
  const Held held(folder.path() + "/two");
  EXPECT_FALSE(remove_dead_namesake(directory, "two"));
  close(directory);
}

}  // namespace
}  // namespace tenon::names

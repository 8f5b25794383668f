// These tests check how the manager starts, which rights it gives up, and what it leaves behind.
#include "os/confine.h"
#include "process/manager/kit.h"

namespace manager_test {
namespace {

using Started = ManagerTest;

// A manager that is started as PyTorch starts its own: without arguments, and with the path on
// stdout.
struct LikeTorch {
  explicit LikeTorch(const std::string& temporary, int stderr_fd = -1)
      : process({{}, {{"TMPDIR", temporary}}, 0, stderr_fd}) {}
  Process process;
};

TEST_F(Started, LikePyTorchsOwn) {
  LikeTorch manager(place_.path());
  const std::string path = manager.process.line();
  EXPECT_TRUE(path.starts_with(place_.path() + "/torch-shm-dir-")) << path;
  EXPECT_TRUE(path.ends_with("/manager.sock")) << path;
  struct stat info{};
  ASSERT_EQ(stat(path.substr(0, path.rfind('/')).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700U);
  EXPECT_EQ(getsid(manager.process.pid()), manager.process.pid());
  {
    const Client client(path);
    EXPECT_TRUE(client.add("/torch_1_2_3"));
  }
  EXPECT_TRUE(manager.process.child().ended_in_time());
  EXPECT_EQ(manager.process.child().end(), 0);
}

TEST_F(Started, ALongTemporaryFolderIsNoTrouble) {
  const std::string deep = place_.file(std::string(120, 'd'));
  ASSERT_EQ(mkdir(deep.c_str(), 0700), 0);
  LikeTorch manager(deep);
  EXPECT_TRUE(manager.process.line().starts_with("/dev/shm/torch-shm-dir-"))
      << manager.process.line();
  EXPECT_LT(manager.process.line().size(), 108U);
  {
    const Client client(manager.process.line());
    EXPECT_TRUE(client.add("/torch_1_2_3"));
  }
  EXPECT_TRUE(manager.process.child().ended_in_time());
  EXPECT_FALSE(is_there(manager.process.line().substr(0, manager.process.line().rfind('/'))));
  rmdir(deep.c_str());
}

TEST_F(Started, SaysWhyItCannotStart) {
  LikeTorch manager(place_.file("missing"));
  EXPECT_TRUE(manager.process.line().starts_with("ERROR: ")) << manager.process.line();
  EXPECT_TRUE(manager.process.line().find("missing") != std::string::npos)
      << manager.process.line();
  EXPECT_NE(manager.process.child().end(), 0);
}

// A process that waits for the end of a client's stderr must not wait for the client's manager. The
// manager must not keep an fd open that the client forgot to close.
TEST_F(Started, HoldsNothingOfWhoStartedIt) {
  int errors[2];
  int forgotten[2];
  ASSERT_EQ(pipe2(errors, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(forgotten, 0), 0);
  LikeTorch manager(place_.path(), errors[1]);
  const Client client(manager.process.line());
  ASSERT_TRUE(client.add("/torch_1_2_3"));
  close(errors[1]);
  close(forgotten[1]);
  for (const int fd : {errors[0], forgotten[0]}) {
    pollfd polled{fd, POLLIN, 0};
    EXPECT_EQ(poll(&polled, 1, static_cast<int>(kPatience.count())), 1);
    char byte = 0;
    EXPECT_EQ(read(fd, &byte, 1), 0);
    close(fd);
  }
  manager.process.child().signal(SIGTERM);
  EXPECT_EQ(manager.process.child().end(), 0);
}

TEST_F(Started, GivesUpItsPrivileges) {
  const Client client = start_with_client();
  EXPECT_EQ(status_number(manager_->pid(), "NoNewPrivs"), 1);
  EXPECT_EQ(status_number(manager_->pid(), "CapEff", 16), 0);
  EXPECT_EQ(status_number(manager_->pid(), "CapPrm", 16), 0);
  EXPECT_EQ(status_number(manager_->pid(), "Threads"), 1);
  // The manager is not dumpable, so its files in /proc belong to root.
  struct stat info{};
  ASSERT_EQ(stat(("/proc/" + std::to_string(manager_->pid()) + "/fd").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 0U);
}

TEST_F(Started, ConfinedAProcessReachesOnlyItsPlaces) {
  const std::string inside = file("inside");
  const std::string elsewhere = place_.file("elsewhere");
  for (const std::string& path : {inside, elsewhere})
    close(open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  Child child([&] {
    const tenon::os::AllowedPlace place{
        .path = objects_.path(), .read = true, .remove_files = true};
    tenon::Result<bool> landlocked = tenon::os::confine(std::span(&place, 1));
    if (!landlocked.is_ok()) return 2;
    if (!landlocked.value()) return 77;
    if (open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 || errno != EACCES) return 3;
    if (unlink(elsewhere.c_str()) == 0 || errno != EACCES) return 4;
    if (open(file("new").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600) >= 0) return 5;
    if (open(inside.c_str(), O_RDWR | O_CLOEXEC) >= 0) return 6;
    if (open(inside.c_str(), O_RDONLY | O_CLOEXEC) < 0) return 7;
    if (rename(inside.c_str(), file("other").c_str()) == 0) return 8;
    if (execl("/bin/true", "true", nullptr) == 0 || errno != EACCES) return 9;
    return unlink(inside.c_str()) == 0 ? 0 : 10;
  });
  const int how = child.end();
  unlink(elsewhere.c_str());
  unlink(inside.c_str());
  if (how == 77) GTEST_SKIP() << "this kernel has no Landlock";
  EXPECT_EQ(how, 0);
}

TEST_F(Started, ASecondOneLeavesTheFirstInPeace) {
  const Client client = start_with_client();
  Process second({{"--socket", socket(), "--foreground"}, {}, 0, -1});
  EXPECT_EQ(second.line(), socket());
  EXPECT_EQ(second.child().end(), 0);
  EXPECT_TRUE(client.add("/torch_1_2_4"));
}

TEST_F(Started, TakesTheKilledOnesPlace) {
  start();
  manager_->child().end(SIGKILL);
  EXPECT_TRUE(is_there(socket()));
  start();
  const Client client(socket());
  EXPECT_TRUE(client.add("/torch_1_2_3"));
}

TEST_F(Started, ManyAtOnceMakeOne) {
  std::vector<Process> processes;
  processes.reserve(12);
  for (int i = 0; i < 12; ++i) {
    processes.emplace_back(
        Start{{"--socket", file("folder/manager.sock"), "--own-folder", "--linger-ms", "2000"},
              {},
              0,
              -1});
  }
  for (Process& process : processes) {
    EXPECT_EQ(process.line(), file("folder/manager.sock"));
    EXPECT_EQ(process.child().end(), 0);
  }
  Client client(file("folder/manager.sock"));
  ASSERT_TRUE(client.add("/torch_1_2_3"));
  EXPECT_EQ(names_in(file("folder")), (std::set<std::string>{"manager.sock", "manager.sock.lock"}));
  client.hang_up();
  EXPECT_TRUE(wait_until([&] { return !is_there(file("folder")); }));
}

TEST_F(Started, AFileInItsPlaceStays) {
  close(open(socket().c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  Process process({{"--socket", socket(), "--foreground"}, {}, 0, -1});
  EXPECT_TRUE(process.line().starts_with("ERROR: ")) << process.line();
  EXPECT_NE(process.child().end(), 0);
  EXPECT_TRUE(is_there(socket()));
  unlink(socket().c_str());
}

// Anybody can know the folder's name beforehand. Another user who made the folder first could put
// another socket into it.
TEST_F(Started, AFolderThatOthersCanWriteIsNoPlace) {
  const std::string folder = file("folder");
  const std::string wanted = folder + "/manager.sock";
  const auto expect_refusal = [&](const std::string& words) {
    Process process({{"--socket", wanted, "--own-folder"}, {}, 0, -1});
    EXPECT_TRUE(process.line().starts_with("ERROR: ")) << process.line();
    EXPECT_NE(process.line().find(words), std::string::npos) << process.line();
    EXPECT_NE(process.child().end(), 0);
    EXPECT_EQ(names_in(folder), std::set<std::string>());
  };
  ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  ASSERT_EQ(chmod(folder.c_str(), 0777), 0);
  expect_refusal("mode 0777");
  if (geteuid() == 0) {
    ASSERT_EQ(chmod(folder.c_str(), 0700), 0);
    ASSERT_EQ(chown(folder.c_str(), 65534, 65534), 0);
    expect_refusal("belongs to user 65534");
  }
  rmdir(folder.c_str());
}

TEST_F(Started, RefusesWhatItDoesNotKnow) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--linger-ms", "x", "--socket", socket()},
        {"--nothing"},
        {"word"},
        {"--own-folder"},
        {"--socket", "relative"}}) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    Process process({arguments, {}, 0, null});
    close(null);
    EXPECT_NE(process.child().end(), 0) << arguments[0];
  }
  Process help({{"--help"}, {}, 0, -1});
  EXPECT_TRUE(help.line().starts_with("usage: tenon-manager")) << help.line();
  EXPECT_EQ(help.child().end(), 0);
  Process version({{"--version"}, {}, 0, -1});
  EXPECT_TRUE(version.line().starts_with("tenon-manager ")) << version.line();
  EXPECT_EQ(version.child().end(), 0);
}

}  // namespace
}  // namespace manager_test

// These tests read facts about processes, find the holders of files, and run programs for their
// first line of output.
#include "os/process.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "support/become_user.h"
#include "unit/os/guards.h"
#include "unit/os/surroundings.h"

namespace tenon::os {
namespace {

class ProcessTest : public test::Guarded {};
class HoldersTest : public test::Guarded {};
class RunForLineTest : public test::Guarded {};

constexpr int64_t kGenerous = 30'000'000'000;

bool has_ended(const Fd& pidfd) {
  return Waiter(Wait{0, nullptr, false}).until_ready(pidfd.get(), POLLIN, "it").is_ok();
}

TEST_F(ProcessTest, PidfdTellsTheEnd) {
  test::ForkChild child([](int) { ::pause(); });
  const pid_t pid = child.pid();
  const Fd pidfd = open_pidfd(pid);
  ASSERT_TRUE(pidfd.is_open());
  EXPECT_NE(::fcntl(pidfd.get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_FALSE(has_ended(pidfd));
  child.kill();
  EXPECT_TRUE(Waiter(Wait{}).until_ready(pidfd.get(), POLLIN, "it").is_ok());
  child.reap();
  EXPECT_TRUE(has_ended(pidfd));
  EXPECT_FALSE(open_pidfd(pid).is_open());
  for (const pid_t nobody : {0, -1, -pid}) EXPECT_FALSE(open_pidfd(nobody).is_open());
}

// Starts a process with this command line, and returns its facts.
std::optional<ProcessFacts> facts_of(std::vector<std::string> words, uid_t uid = ::geteuid()) {
  test::ForkChild child([&](int) {
    if (uid != ::geteuid() && ::setuid(uid) != 0) ::_exit(70);
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    int ends[2];
    // sh waits for input that never comes, because sh itself holds the other end of the pipe.
    if (::pipe(ends) != 0 || ::dup2(ends[0], 0) != 0) ::_exit(70);
    ::execv("/bin/sh", arguments.data());
    ::_exit(70);
  });
  child.await_ready();  // the exec closed the fd
  return process_facts(child.pid());
}

TEST_F(ProcessTest, FactsOfAProcess) {
  const auto facts = facts_of({"sh", "-c", "read x", "two words", ""});
  ASSERT_TRUE(facts.has_value());
  EXPECT_EQ(facts->command, "sh -c read x two words");
  EXPECT_EQ(facts->uid, ::geteuid());
  const auto own = process_facts(::getpid());
  ASSERT_TRUE(own.has_value());
  EXPECT_EQ(own->pid, ::getpid());
  EXPECT_NE(own->command.find("process"), std::string::npos);
  if (::geteuid() == 0) EXPECT_EQ(facts_of({"sh", "-c", "read x"}, 54321)->uid, 54321U);
}

TEST_F(ProcessTest, CommandsAreTextOnly) {
  const auto told = [](const std::string& word) {
    return facts_of({"sh", "-c", "read x", word})->command.substr(13);
  };
  EXPECT_EQ(told("\x1b[31mred\n\r\t\x7f"), "?[31mred????");
  EXPECT_EQ(told("gr\xc3\xbc\xc3\x9f"
                 "e \xe2\x82\xac \xf0\x9f\x98\x80"),
            "gr\xc3\xbc\xc3\x9f"
            "e \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_EQ(told("\xc2\x9b[31m"), "??[31m") << "a control character of two bytes";
  EXPECT_EQ(told("\xff\xc0\x80\xe0\x80\x80\xed\xa0\x80\xf4\x90\x80\x80\xc3"), std::string(14, '?'))
      << "not UTF-8";
  EXPECT_EQ(told(std::string(10000, 'x')), std::string(187, 'x'));
  EXPECT_EQ(told(std::string(186, 'x') + "\xe2\x82\xac"), std::string(186, 'x'))
      << "cut between characters";
}

TEST_F(ProcessTest, AZombieHasItsNameOnly) {
  test::ForkChild child([](int) { ::_exit(0); });
  const Fd pidfd = open_pidfd(child.pid());
  ASSERT_TRUE(Waiter(Wait{}).until_ready(pidfd.get(), POLLIN, "it").is_ok());
  const auto facts = process_facts(child.pid());
  ASSERT_TRUE(facts.has_value());
  EXPECT_EQ(facts->command.front(), '[');
  EXPECT_EQ(facts->command.back(), ']');
  EXPECT_EQ(facts->command.find('\n'), std::string::npos);
  const pid_t pid = child.pid();
  child.reap();
  EXPECT_FALSE(process_facts(pid).has_value());
  for (const pid_t nobody : {0, -1}) EXPECT_FALSE(process_facts(nobody).has_value());
}

TEST_F(ProcessTest, ListOfProcesses) {
  test::ForkChild child([](int) { ::pause(); });
  const pid_t pid = child.pid();
  auto pids = list_processes();
  EXPECT_TRUE(std::is_sorted(pids.begin(), pids.end()));
  EXPECT_TRUE(std::binary_search(pids.begin(), pids.end(), pid));
  EXPECT_TRUE(std::binary_search(pids.begin(), pids.end(), ::getpid()));
  child.end();
  pids = list_processes();
  EXPECT_FALSE(std::binary_search(pids.begin(), pids.end(), pid));
}

TEST_F(ProcessTest, OwnFolderIsThisPrograms) {
  EXPECT_EQ(own_folder(), std::filesystem::read_symlink("/proc/self/exe").parent_path());
  const test::NoFdLeft limit;
  EXPECT_EQ(own_folder(), "");
}

FileId id_of(const std::string& path) {
  struct stat info{};
  EXPECT_EQ(::stat(path.c_str(), &info), 0);
  return {info.st_dev, info.st_ino};
}

Fd open_file(const std::string& path) {
  return Fd(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
}

void* map_file(const Fd& fd) {
  void* address = ::ftruncate(fd.get(), 4096) == 0
                      ? ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd.get(), 0)
                      : MAP_FAILED;
  if (address == MAP_FAILED) ::_exit(70);
  return address;
}

TEST_F(HoldersTest, ByMappingOnlyByFdOnlyAndNotAtAll) {
  const test::ScratchFolder folder;
  const std::string mapped = folder / "mapped file\nwith a newline";
  const std::string opened = folder / "opened";
  const std::string unheld = folder / "unheld";
  for (const std::string& path : {mapped, opened, unheld}) open_file(path).reset();
  test::ForkChild mapper([&](int ready) {
    {
      const Fd file = open_file(mapped);
      map_file(file);
    }
    test::say_ready(ready);
    ::pause();
  });
  test::ForkChild opener([&](int ready) {
    const Fd file = open_file(opened);
    const Fd same = open_file(opened);
    test::say_ready(ready);
    ::pause();
  });
  test::ForkChild both([&](int ready) {
    const Fd file = open_file(mapped);
    map_file(file);
    const Fd other = open_file(opened);
    test::say_ready(ready);
    ::pause();
  });
  for (test::ForkChild* child : {&mapper, &opener, &both}) child->await_ready();
  const std::vector<FileId> wanted{id_of(mapped), id_of(unheld), id_of(opened), id_of(mapped)};
  std::vector<Holders> found = find_holders(wanted);
  ASSERT_EQ(found.size(), 4U);
  const auto sorted = [](std::vector<pid_t> pids) {
    std::sort(pids.begin(), pids.end());
    return pids;
  };
  EXPECT_EQ(sorted(found[0].pids), sorted({mapper.pid(), both.pid()}));
  EXPECT_TRUE(found[1].pids.empty());
  EXPECT_EQ(sorted(found[2].pids), sorted({opener.pid(), both.pid()}));
  EXPECT_EQ(found[3].pids, found[0].pids);
  const Fd own = open_file(unheld);
  mapper.end();
  opener.end();
  found = find_holders(wanted);
  EXPECT_EQ(found[0].pids, std::vector<pid_t>{both.pid()});
  EXPECT_EQ(found[1].pids, std::vector<pid_t>{::getpid()}) << "this process too";
  EXPECT_EQ(found[2].pids, std::vector<pid_t>{both.pid()});
  EXPECT_TRUE(find_holders({}).empty());
}

TEST_F(HoldersTest, AnotherDeviceWithTheSameInodeIsAnotherFile) {
  const test::ScratchFolder folder;
  const Fd file = open_file(folder / "file");
  FileId id = id_of(folder / "file");
  EXPECT_EQ(find_holders({id})[0].pids, std::vector<pid_t>{::getpid()});
  id.device ^= 1;
  const auto pids = find_holders({id})[0].pids;
  EXPECT_EQ(std::count(pids.begin(), pids.end(), ::getpid()), 0);
}

// A process whose maps this process may not read could hold any file. So it is counted for every
// file.
TEST_F(HoldersTest, WhoCannotBeSeenIsCounted) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  const test::ScratchFolder folder;
  const Fd file = open_file(folder / "file");
  const FileId id = id_of(folder / "file");
  test::ForkChild other([&](int) {
    if (!become_user(54321, 54321)) ::_exit(70);
    const auto found = find_holders({id, FileId{1, 1}});
    const bool right = found[0].pids == std::vector<pid_t>{::getpid()} &&
                       found[0].unreadable >= 1 && found[1].unreadable == found[0].unreadable &&
                       found[0].unreadable < list_processes().size();
    ::_exit(right ? 0 : 1);
  });
  EXPECT_EQ(other.reap(), 0);
}

constexpr char kShell[] = "/bin/sh";

Result<std::string> run_script(const std::string& script, int64_t timeout_ns = kGenerous,
                               const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{"-c", script};
  arguments.insert(arguments.end(), more.begin(), more.end());
  Waiter waiter(Wait{timeout_ns, nullptr, false});
  return run_for_line(kShell, arguments, &waiter);
}

void expect_line(const std::string& script, const std::string& line) {
  auto got = run_script(script);
  ASSERT_TRUE(got.is_ok()) << script << ": " << got.status().message();
  EXPECT_EQ(got.value(), line) << script;
}

// Returns a text that appears in the command lines of one test's processes and in no others.
std::string mark() {
  static int number = 0;
  return "9" + std::to_string(::getpid()) + "." + std::to_string(++number);
}

bool any_process_with(const std::string& text) {
  for (const pid_t pid : list_processes()) {
    const auto facts = process_facts(pid);
    if (pid != ::getpid() && facts && facts->command.find(text) != std::string::npos) return true;
  }
  return false;
}

// A killed process that is not a child of this process disappears only after a moment.
void expect_no_process_with(const std::string& text) {
  const int64_t deadline = test::now_ns() + kGenerous;
  while (any_process_with(text) && test::now_ns() < deadline) ::usleep(2000);
  EXPECT_FALSE(any_process_with(text));
}

TEST_F(RunForLineTest, GivesTheFirstLine) {
  expect_line("echo one; echo two", "one");
  expect_line("echo", "");
  expect_line("printf 'in '; printf 'parts\\n'; exit 3", "in parts");
  auto got = run_script("printf '%s|' \"$@\"; echo", kGenerous, {"name", "two words", "", "*"});
  ASSERT_TRUE(got.is_ok());
  EXPECT_EQ(got.value(), "two words||*|");
  auto longest = run_script("printf '%04095d\\n' 7");
  ASSERT_TRUE(longest.is_ok());
  EXPECT_EQ(longest.value().size(), 4095U);
}

TEST_F(RunForLineTest, WaitsForTheFirstProcessAndNotForTheOneBehindIt) {
  const std::string text = mark();
  auto got = run_script("sleep " + text + " & echo $!");
  ASSERT_TRUE(got.is_ok()) << got.status().message();
  const pid_t pid = std::stoi(got.value());
  const Fd pidfd = open_pidfd(pid);
  ASSERT_TRUE(pidfd.is_open());
  EXPECT_FALSE(has_ended(pidfd));
  EXPECT_LT(::waitpid(-1, nullptr, WNOHANG), 0) << "a child is left";
  EXPECT_EQ(errno, ECHILD);
  ::kill(pid, SIGKILL);
  EXPECT_TRUE(Waiter(Wait{}).until_ready(pidfd.get(), POLLIN, "it").is_ok());
}

TEST_F(RunForLineTest, AnEndBeforeTheLineIsPeerGone) {
  const Status ended = run_script("printf half; exit 3").status();
  EXPECT_EQ(ended.code(), Code::kPeerGone);
  EXPECT_NE(ended.message().find("exit status 3"), std::string::npos) << ended.message();
  EXPECT_EQ(ended.detail("path"), kShell);
  const Status killed = run_script("kill -TERM $$").status();
  EXPECT_EQ(killed.code(), Code::kPeerGone);
  EXPECT_NE(killed.message().find("signal 15"), std::string::npos) << killed.message();
}

TEST_F(RunForLineTest, WhatCannotBeStarted) {
  const test::ScratchFolder folder;
  open_file(folder / "file").reset();
  for (const auto& [program, code] : {std::pair{folder / "none", Code::kNotFound},
                                      {folder / "file", Code::kPermission},
                                      {folder.path(), Code::kPermission}}) {
    Waiter waiter(Wait{});
    const Status status = run_for_line(program, {}, &waiter).status();
    EXPECT_EQ(status.code(), code) << program;
    EXPECT_EQ(status.detail("path"), program);
  }
  const test::NoFdLeft limit;
  const Status status = run_script("echo").status();
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_EQ(status.detail("limit_value"), limit.limit());
}

TEST_F(RunForLineTest, TooLongALineIsCorrupt) {
  const std::string text = mark();
  EXPECT_EQ(run_script("printf '%04096d' 7; sleep " + text).status().code(), Code::kCorrupt);
  expect_no_process_with(text);
}

// However the wait ends, no process is left in the group that the program started with.
TEST_F(RunForLineTest, AWaitThatFailsLeavesNoProcess) {
  const std::string text = mark();
  for (const std::string& script : {format("sleep %s & sleep %s", text.c_str(), text.c_str()),
                                    format("echo line; sleep %s", text.c_str())}) {
    const int64_t start = test::now_ns();
    const Status late = run_script(script, 50'000'000).status();
    EXPECT_EQ(late.code(), Code::kTimeout);
    EXPECT_EQ(late.detail("path"), kShell);
    EXPECT_GE(test::now_ns() - start, 50'000'000);
    expect_no_process_with(text);
    EXPECT_EQ(run_script(script, 0).status().code(), Code::kWouldBlock);
    expect_no_process_with(text);
    {
      auto cancel = Cancel::create();
      ASSERT_TRUE(cancel.is_ok());
      std::thread other([&] { cancel.value()->trigger(); });
      Waiter waiter(Wait{-1, cancel.value().get(), false});
      EXPECT_EQ(run_for_line(kShell, {"-c", script}, &waiter).status().code(), Code::kCancelled);
      other.join();
      Waiter again(Wait{-1, cancel.value().get(), false});
      EXPECT_EQ(run_for_line(kShell, {"-c", script}, &again).status().code(), Code::kCancelled);
    }
    expect_no_process_with(text);
    {
      const test::SignalStorm storm(2'000'000);
      Waiter waiter(Wait{-1, nullptr, true});
      EXPECT_EQ(run_for_line(kShell, {"-c", script}, &waiter).status().code(), Code::kInterrupted);
    }
    expect_no_process_with(text);
  }
  EXPECT_LT(::waitpid(-1, nullptr, WNOHANG), 0) << "a child is left";
}

TEST_F(RunForLineTest, TheProgramHasNoFdsOfOurs) {
  const Fd stray(::fcntl(0, F_DUPFD, 57));  // not close-on-exec
  ASSERT_GE(stray.get(), 57);
  expect_line(
      "for i in /proc/$$/fd/*; do if [ -e \"$i\" ]; then printf '%s ' \"${i##*/}\"; fi; done; echo",
      "0 1 2 ");
  expect_line("echo $(readlink /proc/$$/fd/0) $(readlink /proc/$$/fd/2)", "/dev/null /dev/null");
  expect_line(
      "read -r pid name state parent group session rest < /proc/$$/stat; echo $((pid == session && "
      "pid == $$))",
      "1");
}

TEST_F(RunForLineTest, TheProgramHasNoneOfOurWaysWithSignals) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::sigdelset(&all, SIGALRM);  // the watchdog uses it
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  struct sigaction ignore{}, old{};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGUSR2, &ignore, &old);
  for (const char* line : {"s/^SigBlk:[[:space:]]*//p", "s/^SigIgn:[[:space:]]*//p"}) {
    Waiter waiter(Wait{kGenerous, nullptr, false});
    auto got = run_for_line("/bin/sed", {"-n", line, "/proc/self/status"}, &waiter);
    ASSERT_TRUE(got.is_ok()) << got.status().message();
    // glibc keeps two signals below SIGRTMIN for itself, and posix_spawn leaves them ignored.
    const uint64_t glibcs = uint64_t{1} << 31 | uint64_t{1} << 32;
    EXPECT_EQ(std::stoull(got.value(), nullptr, 16) & ~glibcs, 0U) << line << ": " << got.value();
  }
  ::sigaction(SIGUSR2, &old, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST_F(RunForLineTest, IgnoredChildrenAreNoTrouble) {
  struct sigaction ignore{}, old{};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGCHLD, &ignore, &old);
  expect_line("echo line", "line");
  const std::string text = mark();
  EXPECT_EQ(run_script("sleep " + text, 20'000'000).status().code(), Code::kTimeout);
  EXPECT_EQ(run_script("exit 3").status().code(), Code::kPeerGone);
  ::sigaction(SIGCHLD, &old, nullptr);
  expect_no_process_with(text);
}

// Without stdio, the pipe gets the numbers 0, 1 or 2.
TEST_F(RunForLineTest, InAProcessWithoutStdio) {
  for (int keep = 0; keep < 8; ++keep) {
    test::ForkChild child([&](int) {
      for (int fd = 0; fd < 3; ++fd) {
        if ((keep & 1 << fd) == 0) ::close(fd);
      }
      auto got = run_script("echo $(readlink /proc/$$/fd/0) $(readlink /proc/$$/fd/2)");
      ::_exit(got.is_ok() && got.value() == "/dev/null /dev/null" ? 0 : 1);
    });
    EXPECT_EQ(child.reap(), 0) << keep;
  }
}

}  // namespace
}  // namespace tenon::os

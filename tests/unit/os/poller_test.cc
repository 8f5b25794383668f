// These tests check the poller, the watch of directories, and the threads that start_thread()
// makes.
#include "os/poller.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <thread>
#include <utility>

#include "os/wait.h"
#include "support/become_user.h"
#include "unit/os/guards.h"
#include "unit/os/surroundings.h"

namespace tenon::os {
namespace {

class PollerTest : public test::Guarded {};
class DirectoryWatchTest : public test::Guarded {};
class ThreadTest : public test::Guarded {};

std::pair<Fd, Fd> make_nonblocking_sockets() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

Poller make_poller() {
  auto made = Poller::create();
  if (!made.is_ok()) std::abort();
  return std::move(made).value();
}

TEST_F(PollerTest, EventsCarryTheirKeysUntilTheyAreSeenTo) {
  Poller poller = make_poller();
  auto [a, b] = make_nonblocking_sockets();
  auto [c, d] = make_nonblocking_sockets();
  constexpr uint64_t kFirst = 0;
  constexpr uint64_t kSecond = UINT64_MAX - 1;
  ASSERT_TRUE(poller.add(a.get(), kFirst, true, false).is_ok());
  ASSERT_TRUE(poller.add(c.get(), kSecond, true, true).is_ok());
  std::array<Poller::Event, 8> room;
  ASSERT_EQ(poller.wait(0, room), 1U);
  EXPECT_EQ(room[0].key, kSecond);
  EXPECT_TRUE(room[0].writable);
  EXPECT_FALSE(room[0].readable);
  ASSERT_EQ(::send(b.get(), "x", 1, 0), 1);
  ASSERT_EQ(::send(d.get(), "x", 1, 0), 1);
  for (int again = 0; again < 2; ++again) {
    ASSERT_EQ(poller.wait(-1, room), 2U);
    std::map<uint64_t, Poller::Event> seen{{room[0].key, room[0]}, {room[1].key, room[1]}};
    ASSERT_EQ(seen.size(), 2U);
    EXPECT_TRUE(seen[kFirst].readable);
    EXPECT_FALSE(seen[kFirst].writable);
    EXPECT_TRUE(seen[kSecond].readable);
    EXPECT_TRUE(seen[kSecond].writable);
    EXPECT_FALSE(seen[kFirst].hung_up || seen[kSecond].hung_up);
  }
  ASSERT_TRUE(poller.change(c.get(), 7, true, false).is_ok());
  poller.remove(a.get());
  ASSERT_EQ(poller.wait(-1, room), 1U);
  EXPECT_EQ(room[0].key, 7U);
  EXPECT_FALSE(room[0].writable);
  poller.remove(c.get());
  EXPECT_EQ(poller.wait(0, room), 0U);
}

TEST_F(PollerTest, HangUpIsToldWhateverIsWaitedFor) {
  Poller poller = make_poller();
  auto [a, b] = make_nonblocking_sockets();
  ASSERT_TRUE(poller.add(a.get(), 1, false, false).is_ok());
  std::array<Poller::Event, 2> room;
  EXPECT_EQ(poller.wait(0, room), 0U);
  ASSERT_EQ(::shutdown(b.get(), SHUT_WR), 0);
  ASSERT_EQ(poller.wait(-1, room), 1U);
  EXPECT_TRUE(room[0].hung_up);
  b.reset();
  ASSERT_EQ(poller.wait(-1, room), 1U);
  EXPECT_TRUE(room[0].hung_up);
}

TEST_F(PollerTest, MoreEventsThanRoomComeLater) {
  Poller poller = make_poller();
  std::vector<std::pair<Fd, Fd>> sockets;
  for (uint64_t key = 0; key < 100; ++key) {
    sockets.push_back(make_nonblocking_sockets());
    ASSERT_TRUE(poller.add(sockets.back().first.get(), key, false, true).is_ok());
  }
  for (const size_t most : {size_t{1}, size_t{3}, size_t{1000}}) {
    std::vector<Poller::Event> room(most);
    std::vector<bool> seen(sockets.size());
    for (size_t calls = 0; std::count(seen.begin(), seen.end(), true) != 100; ++calls) {
      ASSERT_LT(calls, 1000U);
      const size_t count = poller.wait(-1, room);
      ASSERT_GE(count, 1U);
      ASSERT_LE(count, most);
      for (size_t i = 0; i < count; ++i) seen[room[i].key] = true;
    }
  }
  EXPECT_EQ(poller.wait(-1, {}), 0U);
}

TEST_F(PollerTest, WakeEndsAWaitOnce) {
  Poller poller = make_poller();
  std::array<Poller::Event, 2> room;
  poller.wake();
  poller.wake();
  EXPECT_EQ(poller.wait(-1, room), 0U);
  {
    std::thread other([&] { poller.wake(); });
    EXPECT_EQ(poller.wait(-1, room), 0U);
    other.join();
  }
  const int64_t start = test::now_ns();
  EXPECT_EQ(poller.wait(10'000'000, room), 0U) << "the wakes are used up";
  EXPECT_GE(test::now_ns() - start, 10'000'000);
  // A wake that comes together with an event does not hide the event.
  auto [a, b] = make_nonblocking_sockets();
  ASSERT_TRUE(poller.add(a.get(), 5, false, true).is_ok());
  poller.wake();
  ASSERT_EQ(poller.wait(-1, room), 1U);
  EXPECT_EQ(room[0].key, 5U);
}

Poller* poller_of_handler = nullptr;

TEST_F(PollerTest, WakeFromASignalHandler) {
  Poller poller = make_poller();
  poller_of_handler = &poller;
  const test::SignalStorm storm(2'000'000, [] { poller_of_handler->wake(); });
  std::array<Poller::Event, 1> room;
  EXPECT_EQ(poller.wait(-1, room), 0U);
}

TEST_F(PollerTest, SignalsDoNotShortenAWait) {
  Poller poller = make_poller();
  std::array<Poller::Event, 1> room;
  const test::SignalStorm storm(1'000'000);
  for (const int64_t timeout : {int64_t{1}, int64_t{1'500'000}, int64_t{30'000'000}}) {
    const int64_t start = test::now_ns();
    EXPECT_EQ(poller.wait(timeout, room), 0U);
    EXPECT_GE(test::now_ns() - start, timeout);
  }
  EXPECT_GE(test::SignalStorm::hits(), 2);
  // These timeouts are larger than the kernel's call or the clock can hold.
  for (const int64_t timeout : {INT64_MAX, INT64_MAX / 2, int64_t{5'000'000'000'000'000}}) {
    auto ends = make_nonblocking_sockets();
    ASSERT_TRUE(poller.add(ends.first.get(), 1, true, false).is_ok());
    std::thread other([&] { ends.second.reset(); });
    EXPECT_EQ(poller.wait(timeout, room), 1U) << timeout;
    other.join();
  }
}

TEST_F(PollerTest, WhatCannotBeWatchedIsRefused) {
  Poller poller = make_poller();
  auto [a, b] = make_nonblocking_sockets();
  EXPECT_EQ(poller.add(a.get(), UINT64_MAX, true, false).code(), Code::kInvalidArgument);
  EXPECT_EQ(poller.add(-1, 1, true, false).code(), Code::kInvalidArgument);
  const test::ScratchFolder folder;
  const Fd file(::open((folder / "file").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  const Status status = poller.add(file.get(), 1, true, false);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.detail("fd"), std::to_string(file.get()));
  EXPECT_EQ(poller.change(a.get(), 1, true, false).code(), Code::kNotFound);
  poller.remove(a.get());
  const test::NoFdLeft limit;
  const Status none = Poller::create().status();
  EXPECT_EQ(none.code(), Code::kResourceExhausted);
  EXPECT_EQ(none.detail("limit_value"), limit.limit());
}

// Returns the names that a watch reports, up to the name `last`.
std::vector<std::string> names_until(DirectoryWatch* watch, const std::string& last) {
  std::vector<std::string> names;
  bool overflowed = false;
  while (names.empty() || names.back() != last) {
    if (!Waiter(Wait{30'000'000'000, nullptr, false})
             .until_ready(watch->fd(), POLLIN, "it")
             .is_ok()) {
      ADD_FAILURE() << "no event for " << last;
      break;
    }
    watch->read([&](int, const char* leaf) {
      leaf == nullptr ? void(overflowed = true) : void(names.emplace_back(leaf));
    });
  }
  EXPECT_FALSE(overflowed);
  return names;
}

struct OneWatched {
  explicit OneWatched(const std::string& path)
      : watch(DirectoryWatch::create().value()), number(watch.add(path, true).value()) {}
  DirectoryWatch watch;
  int number;
};

Fd make_file(const std::string& path) {
  return Fd(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
}

TEST_F(DirectoryWatchTest, TellsWhatIsLetGoMovedAndRemoved) {
  const test::ScratchFolder folder;
  OneWatched watched(folder.path());
  DirectoryWatch& watch = watched.watch;
  EXPECT_NE(::fcntl(watch.fd(), F_GETFD) & FD_CLOEXEC, 0);
  const auto nothing = [](int, const char* leaf) {
    ADD_FAILURE() << (leaf == nullptr ? "overflow" : leaf);
  };
  watch.read(nothing);

  Fd file = make_file(folder / "file");
  {
    const Fd reader(::open((folder / "file").c_str(), O_RDONLY | O_CLOEXEC));
  }
  make_file(folder / "mark").reset();
  EXPECT_EQ(names_until(&watch, "mark"), (std::vector<std::string>{"mark"}))
      << "neither making nor reading is told";
  file.reset();
  EXPECT_EQ(names_until(&watch, "file"), (std::vector<std::string>{"file"}));
  const std::string longest(255, 'n');
  ASSERT_EQ(::rename((folder / "file").c_str(), (folder / longest).c_str()), 0);
  EXPECT_EQ(names_until(&watch, longest), (std::vector<std::string>{"file", longest}));
  ASSERT_EQ(::unlink((folder / longest).c_str()), 0);
  EXPECT_EQ(names_until(&watch, longest), (std::vector<std::string>{longest}));
}

TEST_F(DirectoryWatchTest, EachDirectoryHasANumber) {
  const test::ScratchFolder one;
  const test::ScratchFolder other;
  OneWatched watched(one.path());
  const int second = watched.watch.add(other.path(), true).value();
  EXPECT_NE(second, watched.number);
  EXPECT_EQ(watched.watch.add(other.path() + "/.", true).value(), second) << "by another path";
  make_file(one / "a").reset();
  make_file(other / "b").reset();
  std::vector<std::pair<int, std::string>> told;
  watched.watch.read([&](int number, const char* leaf) {
    told.emplace_back(number, leaf == nullptr ? "overflow" : leaf);
  });
  EXPECT_EQ(told, (std::vector<std::pair<int, std::string>>{{watched.number, "a"}, {second, "b"}}));
  watched.watch.remove(watched.number);
  make_file(one / "c").reset();
  make_file(other / "d").reset();
  told.clear();
  watched.watch.read([&](int number, const char* leaf) {
    told.emplace_back(number, leaf == nullptr ? "overflow" : leaf);
  });
  EXPECT_EQ(told, (std::vector<std::pair<int, std::string>>{{watched.number, "overflow"},
                                                            {second, "d"}}));
}

// The watch exists for this case: a process holds a file only by a mapping, and is killed.
TEST_F(DirectoryWatchTest, AKilledProcessLetsGoOfWhatItMapped) {
  const test::ScratchFolder folder;
  OneWatched watched(folder.path());
  test::ForkChild child([&](int ready) {
    Fd file = make_file(folder / "held");
    if (::ftruncate(file.get(), 4096) != 0) ::_exit(1);
    if (::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0) == MAP_FAILED)
      ::_exit(1);
    file.reset();
    test::say_ready(ready);
    ::pause();
  });
  child.await_ready();
  make_file(folder / "mark").reset();
  EXPECT_EQ(names_until(&watched.watch, "mark"), (std::vector<std::string>{"mark"}));
  child.kill();
  EXPECT_EQ(names_until(&watched.watch, "held"), (std::vector<std::string>{"held"}));
}

TEST_F(DirectoryWatchTest, ManyNamesInOneRead) {
  const test::ScratchFolder folder;
  OneWatched watched(folder.path());
  // The names have all lengths, so that events end at every place in the buffer.
  std::vector<std::string> names;
  for (size_t length = 1; length <= 255; ++length) names.emplace_back(length, 'a');
  for (const std::string& name : names) make_file(folder / name).reset();
  EXPECT_EQ(names_until(&watched.watch, names.back()), names);
}

TEST_F(DirectoryWatchTest, ARemovedDirectoryIsToldAsOverflow) {
  const test::ScratchFolder folder;
  const std::string inner = folder / "inner";
  ASSERT_EQ(::mkdir(inner.c_str(), 0700), 0);
  OneWatched watched(inner);
  ASSERT_EQ(::rmdir(inner.c_str()), 0);
  ASSERT_TRUE(Waiter(Wait{}).until_ready(watched.watch.fd(), POLLIN, "it").is_ok());
  bool overflowed = false;
  watched.watch.read([&](int number, const char* leaf) {
    EXPECT_EQ(number, watched.number);
    EXPECT_EQ(leaf, nullptr);
    overflowed = true;
  });
  EXPECT_TRUE(overflowed);
}

TEST_F(DirectoryWatchTest, WhatIsNoDirectoryIsRefused) {
  const test::ScratchFolder folder;
  make_file(folder / "file").reset();
  DirectoryWatch watch = DirectoryWatch::create().value();
  const Status missing = watch.add(folder / "none", true).status();
  EXPECT_EQ(missing.code(), Code::kNotFound);
  EXPECT_EQ(missing.detail("path"), folder / "none");
  EXPECT_EQ(watch.add(folder / "file", true).status().code(), Code::kInvalidArgument);
  const test::NoFdLeft limit;
  const Status status = DirectoryWatch::create().status();
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_EQ(status.detail("limit"), "RLIMIT_NOFILE");
  EXPECT_EQ(status.detail("limit_value"), limit.limit());
}

// The child reaches the limits of inotify in its own user namespace, so that no other process is
// affected.
TEST_F(DirectoryWatchTest, InotifyLimitsAreNamed) {
  constexpr int kNoNamespaces = 77;
  const auto limit_met = [](const char* setting, const std::string& path) -> std::string {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const Fd reader(ends[0]);
    Fd writer(ends[1]);
    test::ForkChild child([&](int) {
      if (::unshare(CLONE_NEWUSER) != 0) ::_exit(kNoNamespaces);
      const Fd file(::open(setting, O_WRONLY | O_CLOEXEC));
      if (!file.is_open() || ::write(file.get(), "0", 1) != 1) ::_exit(kNoNamespaces);
      Result<DirectoryWatch> watch = DirectoryWatch::create();
      const Status status = watch.is_ok() ? watch.value().add(path, true).status() : watch.status();
      const std::string text =
          std::string(code_name(status.code())) + " " + std::string(status.detail("limit"));
      if (status.detail("limit_value").empty()) ::_exit(1);
      if (::write(writer.get(), text.data(), text.size()) < 0) ::_exit(1);
    });
    writer.reset();
    char text[128];
    const ssize_t got = ::read(reader.get(), text, sizeof text);
    const int how = child.reap();
    if (how == kNoNamespaces) return "skip";
    EXPECT_EQ(how, 0);
    return {text, static_cast<size_t>(std::max<ssize_t>(got, 0))};
  };
  const test::ScratchFolder folder;
  const std::string instances = limit_met("/proc/sys/user/max_inotify_instances", folder.path());
  if (instances == "skip") GTEST_SKIP() << "no user namespaces here";
  EXPECT_EQ(instances, "RESOURCE_EXHAUSTED fs.inotify.max_user_instances");
  EXPECT_EQ(limit_met("/proc/sys/user/max_inotify_watches", folder.path()),
            "RESOURCE_EXHAUSTED fs.inotify.max_user_watches");
}

// What a thread of start_thread() saw of itself. It writes the result to the fd that is its
// argument.
struct Seen {
  sigset_t mask;
  char name[32];
  size_t stack_nbytes;
};

void look_around(void* tell_fd) noexcept {
  Seen seen{};
  pthread_attr_t attributes;
  if (::pthread_getattr_np(::pthread_self(), &attributes) != 0) std::abort();
  ::pthread_attr_getstacksize(&attributes, &seen.stack_nbytes);
  ::pthread_attr_destroy(&attributes);
  ::pthread_sigmask(SIG_BLOCK, nullptr, &seen.mask);
  ::pthread_getname_np(::pthread_self(), seen.name, sizeof seen.name);
  if (::write(*static_cast<int*>(tell_fd), &seen, sizeof seen) != sizeof seen) std::abort();
}

TEST_F(ThreadTest, AllSignalsAreMaskedAndItHasItsName) {
  auto [reader, writer] = make_nonblocking_sockets();
  ASSERT_EQ(::fcntl(reader.get(), F_SETFL, 0), 0);
  int tell_fd = writer.get();
  sigset_t before, after;
  ::sigemptyset(&before);
  ::sigaddset(&before, SIGUSR2);
  sigset_t old;
  ::pthread_sigmask(SIG_SETMASK, &before, &old);
  // One name is as long as a name can be, and one has to be cut.
  for (const auto& [name, shown] : {std::pair{"tenon", "tenon"},
                                    {"tenon-123456789", "tenon-123456789"},
                                    {"tenon-1234567890", "tenon-123456789"}}) {
    ASSERT_TRUE(start_thread(name, Stack::kSmall, look_around, &tell_fd).is_ok());
    Seen seen{};
    ASSERT_EQ(::read(reader.get(), &seen, sizeof seen), static_cast<ssize_t>(sizeof seen));
    EXPECT_STREQ(seen.name, shown);
    for (int signal = 1; signal <= SIGRTMAX; ++signal) {
      if (signal == SIGKILL || signal == SIGSTOP || (signal > 31 && signal < SIGRTMIN)) continue;
      EXPECT_EQ(::sigismember(&seen.mask, signal), 1) << signal;
    }
  }
  size_t stack_nbytes[2] = {};
  for (const Stack stack : {Stack::kSmall, Stack::kUsual}) {
    ASSERT_TRUE(start_thread("tenon", stack, look_around, &tell_fd).is_ok());
    Seen seen{};
    ASSERT_EQ(::read(reader.get(), &seen, sizeof seen), static_cast<ssize_t>(sizeof seen));
    stack_nbytes[static_cast<size_t>(stack)] = seen.stack_nbytes;
  }
  EXPECT_LE(stack_nbytes[0], stack_nbytes[1]);  // equal under a sanitizer
  EXPECT_GE(stack_nbytes[1], size_t{1} << 20);
  ::pthread_sigmask(SIG_SETMASK, &old, &after);
  for (int signal = 1; signal <= 31; ++signal)
    EXPECT_EQ(::sigismember(&after, signal), signal == SIGUSR2 ? 1 : 0) << "the caller's own";
}

TEST_F(ThreadTest, NoMoreThreadsIsAnError) {
  test::ForkChild child([&](int) {
    if (::geteuid() == 0 && !become_user(54321, 54321)) ::_exit(70);
    const rlimit none{0, 0};
    if (::setrlimit(RLIMIT_NPROC, &none) != 0) ::_exit(71);
    const Status status = start_thread("tenon", Stack::kSmall, [](void*) noexcept {}, nullptr);
    ::_exit(status.code() == Code::kResourceExhausted && status.detail("limit") == "threads" ? 0
                                                                                             : 1);
  });
  EXPECT_EQ(child.reap(), 0);
}

}  // namespace
}  // namespace tenon::os

// These tests check the service: its handlers, ticks and work, with and without its thread, and in
// forked children.
#include "os/service.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/threads.h"
#include "unit/os/guards.h"
#include "unit/os/surroundings.h"

namespace tenon::os {
namespace {

// Each test runs in a process of its own, because the service lasts as long as its process.
class ServiceTest : public test::Guarded {};

void in_child(const std::function<void()>& body) {
  std::fflush(nullptr);
  test::ForkChild child([&](int) {
    body();
    std::fflush(nullptr);
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  });
  EXPECT_EQ(child.reap(), 0);
}

// Two connected sockets. The service stops serving `near` before `far` is closed, so that the
// handler gets no hang-up.
struct Sockets {
  Sockets(Fd one, Fd other) noexcept : near(std::move(one)), far(std::move(other)) {}
  Sockets(Sockets&&) noexcept = default;
  Sockets& operator=(Sockets&&) = delete;
  ~Sockets() { stop_serving_fd(near.get()); }
  Fd near;
  Fd far;
};

Sockets make_near_and_far() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) std::abort();
  return {Fd(ends[0]), Fd(ends[1])};
}

void send_byte(const Fd& fd) { ASSERT_EQ(::send(fd.get(), "x", 1, MSG_NOSIGNAL), 1); }

bool is_readable(int fd) {
  pollfd polled{fd, POLLIN, 0};
  return ::poll(&polled, 1, 0) == 1;
}

// Handlers, ticks and slices of work get no context pointer, so they record their calls in these
// variables.
struct Call {
  int fd = -1;
  bool readable = false;
  bool hung_up = false;
};
std::mutex calls_mutex;
std::vector<Call> all_calls;
std::counting_semaphore<> happened{0};
std::binary_semaphore hold{0};

std::vector<Call> calls_so_far() {
  const std::lock_guard<std::mutex> lock(calls_mutex);
  return all_calls;
}

void note(Call call) noexcept {
  const std::lock_guard<std::mutex> lock(calls_mutex);
  all_calls.push_back(call);
}

void take_byte(int fd, bool readable, bool hung_up) noexcept {
  char byte = 0;
  if (readable) (void)::recv(fd, &byte, 1, 0);
  if (hung_up) stop_serving_fd(fd);
  note({fd, readable, hung_up});
  happened.release();
}

void say_happened() noexcept { happened.release(); }
// Blocks the service thread: it releases `happened`, and waits for `hold`.
void stand_still() noexcept {
  happened.release();
  hold.acquire();
}

// Waits until the thread has done everything that was due before this call.
void let_pass() {
  call_later(&say_happened, 0);
  happened.acquire();
}

TEST_F(ServiceTest, HandlersAreCalledUntilTheyAreStopped) {
  in_child([] {
    auto [a, b] = make_near_and_far();
    auto [c, d] = make_near_and_far();
    ASSERT_TRUE(serve_fd(a.get(), &take_byte).is_ok());
    ASSERT_TRUE(serve_fd(c.get(), &take_byte).is_ok());
    ASSERT_TRUE(serve_fd(c.get(), &take_byte).is_ok()) << "twice is once";
    send_byte(b);
    happened.acquire();
    send_byte(d);
    happened.acquire();
    stop_serving_fd(a.get());
    stop_serving_fd(a.get());
    send_byte(b);
    let_pass();
    let_pass();
    const std::vector<Call> seen = calls_so_far();
    ASSERT_EQ(seen.size(), 2U);
    EXPECT_EQ(seen[0].fd, a.get());
    EXPECT_EQ(seen[1].fd, c.get());
    for (const Call& call : seen) EXPECT_TRUE(call.readable && !call.hung_up);
    ASSERT_TRUE(serve_fd(a.get(), &take_byte).is_ok());
    happened.acquire();
    EXPECT_EQ(calls_so_far().size(), 3U) << "what came in between is still there";
  });
}

TEST_F(ServiceTest, HangUpIsTold) {
  in_child([] {
    auto [a, b] = make_near_and_far();
    ASSERT_TRUE(serve_fd(a.get(), &take_byte).is_ok());
    b.reset();
    happened.acquire();
    ASSERT_EQ(calls_so_far().size(), 1U);
    EXPECT_TRUE(calls_so_far()[0].hung_up);
    let_pass();
    EXPECT_EQ(calls_so_far().size(), 1U) << "it stopped serving itself";
  });
}

// Two fds have hung up. The handler that runs first closes the other fd, and gives its number to a
// socket that is well.
std::array<int, 2> both_fds{-1, -1};
int well = -1;
void take_the_other_number(int fd, bool, bool hung_up) noexcept {
  note({fd, false, hung_up});
  stop_serving_fd(fd);
  if (well < 0) return;
  const int other = fd == both_fds[0] ? both_fds[1] : both_fds[0];
  stop_serving_fd(other);
  if (::dup2(std::exchange(well, -1), other) != other) std::abort();
  if (!serve_fd(other, &take_the_other_number).is_ok()) std::abort();
}

TEST_F(ServiceTest, AnEventOfAClosedFdIsNotTheNextOnes) {
  in_child([] {
    auto [a, b] = make_near_and_far();
    auto [c, d] = make_near_and_far();
    const auto [e, f] = make_near_and_far();
    both_fds = {a.get(), c.get()};
    well = e.get();
    ASSERT_TRUE(serve_fd(a.get(), &take_the_other_number).is_ok());
    ASSERT_TRUE(serve_fd(c.get(), &take_the_other_number).is_ok());
    call_later(&stand_still, 0);
    happened.acquire();
    b.reset();
    d.reset();
    hold.release();
    let_pass();
    let_pass();
    const std::vector<Call> seen = calls_so_far();
    ASSERT_EQ(seen.size(), 1U);
    EXPECT_TRUE(seen[0].hung_up);
  });
}

TEST_F(ServiceTest, TicksComeInTheOrderOfTheirTimes) {
  static std::vector<int> order;
  in_child([] {
    const int64_t start = test::now_ns();
    static int64_t last = 0;
    call_later(&stand_still, 0);
    happened.acquire();
    call_later([]() noexcept { order.push_back(3); }, 40'000'000);
    call_later([]() noexcept { order.push_back(1); }, 10'000'000);
    call_later([]() noexcept { order.push_back(2); }, 20'000'000);
    call_later([]() noexcept { order.push_back(0); }, -1);
    call_later([]() noexcept { std::abort(); }, INT64_MAX);
    call_later(
        []() noexcept {
          last = test::now_ns();
          call_later(
              []() noexcept {
                order.push_back(5);
                happened.release();
              },
              0);
          order.push_back(4);
        },
        50'000'000);
    hold.release();
    happened.acquire();
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5}));
    EXPECT_GE(last - start, 50'000'000);
  });
}

void spin(int64_t ns) noexcept {
  for (const int64_t end = test::now_ns() + ns; test::now_ns() < end;) {
  }
}

std::atomic<int> slices{0};
bool long_work() noexcept {
  spin(500'000);
  if (++slices < 1000) return true;
  happened.release();
  return false;
}

std::atomic<int> served_after{0};
std::binary_semaphore served{0};
void tell_when(int fd, bool, bool) noexcept {
  char byte = 0;
  (void)::recv(fd, &byte, 1, 0);
  served_after = slices.load();
  served.release();
}

TEST_F(ServiceTest, EventsAreServedBetweenSlicesOfWork) {
  in_child([] {
    auto [a, b] = make_near_and_far();
    ASSERT_TRUE(serve_fd(a.get(), &tell_when).is_ok());
    ASSERT_TRUE(add_work(&long_work).is_ok());
    for (int i = 0; i < 21; ++i) {
      send_byte(b);
      // The delay is counted in slices, because the time also depends on other processes.
      const int sent_after = slices;
      served.acquire();
      EXPECT_LE(served_after - sent_after, 3);
    }
    EXPECT_LT(slices, 1000) << "the work was over before the events were served";
    happened.acquire();
    EXPECT_EQ(slices, 1000);
  });
}

std::string turns;
bool first_work() noexcept {
  return std::count(turns.begin(), turns.end(), 'a') < 3 && !(turns += 'a').empty();
}
bool second_work() noexcept {
  turns += 'b';
  if (turns.size() < 6) return true;
  happened.release();
  return false;
}
// Adds itself again before it reports that it is done.
bool third_work() noexcept {
  turns += 'c';
  if (turns.size() == 7 && !add_work(&third_work).is_ok()) std::abort();
  happened.release();
  return false;
}

TEST_F(ServiceTest, WorksTakeTurnsAndAreQueuedOnce) {
  in_child([] {
    call_later(&stand_still, 0);
    happened.acquire();
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(add_work(&first_work).is_ok());
      ASSERT_TRUE(add_work(&second_work).is_ok());
    }
    hold.release();
    happened.acquire();
    let_pass();
    EXPECT_EQ(turns, "ababab");
    ASSERT_TRUE(add_work(&third_work).is_ok());
    happened.acquire();
    happened.acquire();
    let_pass();
    EXPECT_EQ(turns, "abababcc");
  });
}

TEST_F(ServiceTest, OneThreadWithAllSignalsMasked) {
  in_child([] {
    EXPECT_EQ(count_threads("tenon"), 0U);
    std::vector<Sockets> sockets;
    sockets.reserve(8);
    while (sockets.size() < 8) sockets.push_back(make_near_and_far());
    {
      std::vector<std::jthread> threads;
      threads.reserve(sockets.size());
      for (const auto& [a, b] : sockets) {
        threads.emplace_back([fd = a.get()] {
          call_later(&say_happened, 0);
          if (!serve_fd(fd, &take_byte).is_ok()) std::abort();
        });
      }
    }
    for (size_t i = 0; i < sockets.size(); ++i) happened.acquire();
    EXPECT_EQ(count_threads("tenon"), 1U);
    uint64_t masked = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::ifstream status(task.path() / "status");
      std::string name;
      std::string word;
      while (status >> word) {
        if (word == "Name:") status >> name;
        if (word == "SigBlk:" && name == "tenon") status >> std::hex >> masked;
      }
    }
    for (int signal = 1; signal <= 64; ++signal) {
      // The last two signals belong to the C library.
      if (signal == SIGKILL || signal == SIGSTOP || (signal > 31 && signal < SIGRTMIN)) continue;
      EXPECT_NE(masked & uint64_t{1} << (signal - 1), 0U) << signal;
    }
  });
}

TEST_F(ServiceTest, WhatCannotBeServedIsRefusedAndTheRestGoesOn) {
  in_child([] {
    auto [a, b] = make_near_and_far();
    {
      const test::NoFdLeft limit;
      const Status none = serve_fd(a.get(), &take_byte);
      EXPECT_EQ(none.code(), Code::kResourceExhausted);
      EXPECT_EQ(none.detail("limit"), "RLIMIT_NOFILE");
      EXPECT_EQ(add_work(&first_work).code(), Code::kResourceExhausted);
      call_later(&say_happened, 0);
    }
    const test::ScratchFolder folder;
    const Fd file(::open((folder / "file").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(serve_fd(file.get(), &take_byte).code(), Code::kInvalidArgument);
    happened.acquire();  // the tick that had been queued without a thread
    ASSERT_TRUE(serve_fd(a.get(), &take_byte).is_ok());
    send_byte(b);
    happened.acquire();
    EXPECT_EQ(calls_so_far().size(), 1U);
  });
}

size_t count_pollers() {
  size_t count = 0;
  for (const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    count += std::filesystem::read_symlink(fd.path(), error) == "anon_inode:[eventpoll]" ? 1 : 0;
  }
  return count;
}

TEST_F(ServiceTest, AForkedChildHasNothingOfItAndCanStartItsOwn) {
  in_child([] {
    auto [a, b] = make_near_and_far();
    auto [c, d] = make_near_and_far();
    ASSERT_TRUE(serve_fd(a.get(), &take_byte).is_ok());
    call_later(&stand_still, 0);
    happened.acquire();
    call_later([]() noexcept { turns += 'p'; }, 0);
    ASSERT_TRUE(add_work(&second_work).is_ok());
    send_byte(b);
    // The parent's thread is blocked, so all this work is still pending when the child is made.
    std::fflush(nullptr);
    test::ForkChild child([&](int) {
      EXPECT_EQ(count_threads("tenon"), 0U);
      EXPECT_EQ(count_pollers(), 0U);
      ASSERT_TRUE(serve_fd(c.get(), &take_byte).is_ok());
      send_byte(d);
      happened.acquire();
      EXPECT_EQ(count_threads("tenon"), 1U);
      let_pass();
      ASSERT_EQ(calls_so_far().size(), 1U);
      EXPECT_EQ(calls_so_far()[0].fd, c.get());
      slices = 998;
      ASSERT_TRUE(add_work(&long_work).is_ok());
      happened.acquire();
      EXPECT_EQ(turns, "");
      std::fflush(nullptr);
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    });
    EXPECT_EQ(child.reap(), 0);
    hold.release();
    happened.acquire();
    happened.acquire();
    ASSERT_EQ(calls_so_far().size(), 1U);
    EXPECT_EQ(calls_so_far()[0].fd, a.get());
    EXPECT_EQ(std::count(turns.begin(), turns.end(), 'p'), 1);
    EXPECT_EQ(std::count(turns.begin(), turns.end(), 'b'), 5);
  });
}

TEST_F(ServiceTest, TheChoiceOfNoThreadComesBeforeTheThread) {
  in_child([] {
    EXPECT_FALSE(has_no_thread());
    EXPECT_EQ(service_fd().status().code(), Code::kInvalidArgument);
    EXPECT_EQ(poll_service().code(), Code::kInvalidArgument);
    call_later(&say_happened, 0);
    happened.acquire();
    const Status late = use_no_thread();
    EXPECT_EQ(late.code(), Code::kInvalidArgument);
    EXPECT_EQ(late.message(), "the thread runs already");
    EXPECT_FALSE(has_no_thread());
  });
}

TEST_F(ServiceTest, WithoutAThreadTheUserPolls) {
  in_child([] {
    ASSERT_TRUE(use_no_thread().is_ok());
    ASSERT_TRUE(use_no_thread().is_ok());
    EXPECT_TRUE(has_no_thread());
    auto [a, b] = make_near_and_far();
    ASSERT_TRUE(serve_fd(a.get(), &take_byte).is_ok());
    const int fd = service_fd().value();
    EXPECT_EQ(service_fd().value(), fd);
    EXPECT_FALSE(is_readable(fd));
    EXPECT_TRUE(poll_service().is_ok());
    EXPECT_TRUE(calls_so_far().empty());

    send_byte(b);
    EXPECT_TRUE(is_readable(fd));
    ASSERT_TRUE(poll_service().is_ok());
    ASSERT_EQ(calls_so_far().size(), 1U);
    EXPECT_TRUE(calls_so_far()[0].readable);
    EXPECT_FALSE(is_readable(fd));

    b.reset();
    EXPECT_TRUE(is_readable(fd));
    ASSERT_TRUE(poll_service().is_ok());
    ASSERT_EQ(calls_so_far().size(), 2U);
    EXPECT_TRUE(calls_so_far()[1].hung_up);
    EXPECT_FALSE(is_readable(fd));
    EXPECT_EQ(count_threads("tenon"), 0U);
  });
}

TEST_F(ServiceTest, WithoutAThreadTimersAndWorkMakeTheFdReadable) {
  in_child([] {
    ASSERT_TRUE(use_no_thread().is_ok());
    const int64_t start = test::now_ns();
    call_later([]() noexcept { turns += '2'; }, 20'000'000);
    call_later([]() noexcept { turns += '1'; }, 10'000'000);
    const int fd = service_fd().value();
    pollfd polled{fd, POLLIN, 0};
    while (turns.size() < 2) {  // one poll finds both events on a busy machine
      ASSERT_EQ(::poll(&polled, 1, -1), 1);
      ASSERT_TRUE(poll_service().is_ok());
    }
    EXPECT_EQ(turns, "12");
    EXPECT_GE(test::now_ns() - start, 20'000'000);
    EXPECT_FALSE(is_readable(fd));

    turns.clear();
    slices = 0;
    ASSERT_TRUE(add_work(&long_work).is_ok());
    size_t polls = 0;
    while (::poll(&polled, 1, 0) == 1 || slices < 1000) {
      const int before = slices;
      ASSERT_TRUE(poll_service().is_ok());
      EXPECT_LE(slices - before, 2) << "1 ms, in slices of half of it";
      ++polls;
    }
    EXPECT_GE(polls, 500U);
    EXPECT_EQ(slices, 1000);
    EXPECT_FALSE(is_readable(fd));
    EXPECT_EQ(count_threads("tenon"), 0U);
  });
}

TEST_F(ServiceTest, OfPollsAtOnceOneWorks) {
  in_child([] {
    ASSERT_TRUE(use_no_thread().is_ok());
    call_later(&stand_still, 0);
    {
      const std::jthread other([] { EXPECT_TRUE(poll_service().is_ok()); });
      happened.acquire();
      call_later(&say_happened, 0);
      EXPECT_TRUE(poll_service().is_ok());
      EXPECT_FALSE(happened.try_acquire()) << "the other one works";
      hold.release();
    }
    EXPECT_TRUE(is_readable(service_fd().value()));
    EXPECT_TRUE(poll_service().is_ok());
    EXPECT_TRUE(happened.try_acquire());
  });
}

TEST_F(ServiceTest, AForkedChildInheritsTheChoice) {
  in_child([] {
    ASSERT_TRUE(use_no_thread().is_ok());
    auto [a, b] = make_near_and_far();
    ASSERT_TRUE(serve_fd(a.get(), &take_byte).is_ok());
    send_byte(b);
    std::fflush(nullptr);
    test::ForkChild child([](int) {
      EXPECT_TRUE(has_no_thread());
      EXPECT_EQ(count_pollers(), 0U);
      const int fd = service_fd().value();
      EXPECT_FALSE(is_readable(fd));
      auto [c, d] = make_near_and_far();
      ASSERT_TRUE(serve_fd(c.get(), &take_byte).is_ok());
      send_byte(d);
      EXPECT_TRUE(is_readable(fd));
      EXPECT_TRUE(poll_service().is_ok());
      ASSERT_EQ(calls_so_far().size(), 1U);
      EXPECT_EQ(calls_so_far()[0].fd, c.get());
      EXPECT_EQ(count_threads("tenon"), 0U);
      std::fflush(nullptr);
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    });
    EXPECT_EQ(child.reap(), 0);
    EXPECT_TRUE(poll_service().is_ok());
    ASSERT_EQ(calls_so_far().size(), 1U);
    EXPECT_EQ(calls_so_far()[0].fd, a.get());
  });
}

}  // namespace
}  // namespace tenon::os

// These tests use fds that other processes made, and files whose server does not answer.
#include "os/foreign.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "os/memfd.h"
#include "os/socket.h"
#include "os/token.h"
#include "support/child_status.h"
#include "unit/os/guards.h"
#include "unit/os/silent_server.h"

namespace tenon::os {
namespace {

using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

class Foreign : public test::Guarded {};

bool is_open(int number) { return ::fcntl(number, F_GETFD) >= 0; }

// Returns whether the fd is closed within a second. The closing of the next fd does not wait behind
// a close that hangs.
bool closes_soon(int number) {
  for (int i = 0; i < 100 && is_open(number); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return !is_open(number);
}

void expect_closed_at_once(int number) {
  ASSERT_GE(number, 0);
  Fd fd(number);
  fd.mark_foreign();
  fd.reset();
  EXPECT_FALSE(is_open(number));
}

TEST_F(Foreign, WhatWaitsForNobodyIsClosedAtOnce) {
  expect_closed_at_once(::memfd_create("file", MFD_CLOEXEC));
  expect_closed_at_once(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  expect_closed_at_once(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  expect_closed_at_once(ends[0]);
  expect_closed_at_once(ends[1]);
}

// The thread that closes these fds may have to wait on a busy machine.
TEST_F(Foreign, WhatCouldWaitForAServerIsClosedSoon) {
  for (const int number : {::open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
                           ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)}) {
    ASSERT_GE(number, 0);
    Fd fd(number);
    fd.mark_foreign();
    fd.reset();
    EXPECT_TRUE(closes_soon(number));
  }
}

TEST_F(Foreign, ManyAreClosedWhenTheCallReturns) {
  const long fds = test::count_open_fds();
  ReceivedFds received;
  for (int i = 0; i < 200; ++i) received.add(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  received.clear();
  EXPECT_EQ(test::count_open_fds(), fds);
}

TEST_F(Foreign, AMovedFdIsClosedOnce) {
  Fd one(::memfd_create("file", MFD_CLOEXEC));
  one.mark_foreign();
  const int number = one.get();
  Fd other(std::move(one));
  EXPECT_FALSE(one.is_open());  // NOLINT(bugprone-use-after-move)
  other = Fd();
  EXPECT_FALSE(is_open(number));
}

// Returns a connected network socket whose close takes a second: it has bytes that `peer` never
// reads, and SO_LINGER makes the close wait for them. -1: there is no network here.
int lingering_socket(Fd* peer) {
  const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  Fd made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::bind(listener.get(), name, size) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), name, &size) != 0 || ::connect(made.get(), name, size) != 0)
    return -1;
  *peer = Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const std::array<char, 65536> bytes{};
  while (::send(made.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
  }
  const linger one_second{1, 1};
  ::setsockopt(made.get(), SOL_SOCKET, SO_LINGER, &one_second, sizeof one_second);
  return made.detach();
}

// The child's copy of the condition variable counts the parent's thread that waits on it.
TEST_F(Foreign, AForkWhileAThreadWaitsForACloseLeavesTheChildAbleToClose) {
  Fd peer;
  const int slow = lingering_socket(&peer);
  if (slow < 0) GTEST_SKIP() << "no network here";
  std::thread waiting([slow] { close_foreign(slow); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // a quarter of the grace period
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    for (int i = 0; i < 4; ++i) close_foreign(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ::_exit(0);
  }
  EXPECT_EQ(test::wait_for_child(child), 0);
  waiting.join();
}

TEST_F(Foreign, ASilentServerHoldsNobody) {
  std::optional<SilentServer> mounted(std::in_place);
  SilentServer& server = *mounted;
  if (!server.is_mounted()) GTEST_SKIP() << "no FUSE here";
  const long fds = test::count_open_fds();
  Fd file(::open(server.path().c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(file.is_open());
  Fd readable(::open(server.path().c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(readable.is_open());
  for (Fd* each : {&file, &readable}) each->mark_foreign();
  const Fd handle(::open(server.path().c_str(), O_PATH | O_CLOEXEC));
  ASSERT_TRUE(handle.is_open());
  server.fall_silent();

  auto before = Clock::now();
  EXPECT_FALSE(is_token(file.get()));
  EXPECT_FALSE(is_of_huge_pages(file.get()));
  const Result<FileInfo> seen = inspect_file(readable.get());
  EXPECT_TRUE(seen.is_ok()) << seen.status().message();
  EXPECT_LT(Clock::now() - before, seconds(1));
  if (seen.is_ok()) EXPECT_FALSE(inspect_file(readable.get()).value().in_memory);

  before = Clock::now();
  for (Fd* each : {&file, &readable}) {
    const int number = each->get();
    each->reset();
    EXPECT_TRUE(closes_soon(number));
  }
  EXPECT_LT(Clock::now() - before, seconds(1));

  before = Clock::now();
  const Status refused = open_handle(handle, false, "opening a file").status();
  EXPECT_EQ(refused.code(), Code::kWouldBlock);
  EXPECT_NE(refused.message().find("has not answered"), std::string::npos) << refused.message();
  EXPECT_LT(Clock::now() - before, seconds(4));
  // The thread that still opens the file now gets its error, and releases its handle.
  mounted.reset();
  for (int i = 0; i < 200 && test::count_open_fds() > fds; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

}  // namespace
}  // namespace tenon::os

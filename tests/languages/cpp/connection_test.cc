// Tests of lends over a socket between processes, of waits, and of what ends a wait.
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include <csignal>
#include <cstdint>
#include <optional>

#include "kit.h"

namespace {

using kit::kPatience;
using namespace std::chrono_literals;
using Connections = kit::Leaves;
using Waits = kit::Leaves;

TEST_F(Connections, LendAndModify) {
  kit::Sockets sockets;
  kit::Child borrower([&] {
    tenon::Connection connection = tenon::Connection::make(sockets.keep_there(), {.ring = true});
    const tenon::Message message = connection.recv({.timeout = kPatience});
    tenon::Tensor weight = message["weight"];
    weight.view_mut<float>()[7] = 42;
    tenon::Message answer = tenon::Message::make();
    answer.set_user_bytes(std::as_bytes(std::span("done", 4)));
    connection.send(answer, {.timeout = kPatience});
    return true;
  });
  tenon::Connection connection = tenon::Connection::make(sockets.keep_here(), {.ring = true});
  const tenon::Tensor weight = tenon::zeros<float>({8});
  connection.send(tenon::Message::of({{"weight", weight}}), {.timeout = kPatience});
  const tenon::Message answer = connection.recv({.timeout = kPatience});
  EXPECT_EQ(answer.user_bytes().size(), 4U);
  EXPECT_EQ(weight.view<float>()[7], 42.0F);
  EXPECT_EQ(borrower.wait(), 0);
  EXPECT_CODE(kPeerGone, connection.try_recv({.timeout = kPatience}));
}

TEST_F(Connections, ReadOnlyLend) {
  kit::Sockets sockets;
  kit::Child borrower([&] {
    tenon::Connection connection = tenon::Connection::make(sockets.keep_there());
    const tenon::Message message = connection.recv({.timeout = kPatience});
    tenon::Tensor weight = message["weight"];
    try {
      weight.view_mut<float>()[0] = 1;
    } catch (const tenon::PermissionDenied&) {
      return weight.view<float>()[0] == 2.5F && weight.is_read_only();
    }
    return false;
  });
  tenon::Connection connection = tenon::Connection::make(sockets.keep_here());
  const std::vector<float> values{2.5F};
  const tenon::Tensor weight =
      tenon::Tensor::make_from<float>(values, {1}, {.mode = tenon::Mode::kFrozen});
  connection.send(tenon::Message::of({{"weight", weight}}), {.timeout = kPatience});
  EXPECT_EQ(borrower.wait(), 0);
}

TEST_F(Connections, ANamedFileIsTakenIfTheBorrowerSaysSo) {
  tenon::Storage storage = tenon::make_filename(32, {.directory = kit::Folder::path()});
  for (const bool named_files : {false, true}) {
    kit::Sockets sockets;
    kit::Child borrower([&] {
      storage.close();  // a borrower that inherits the storage would get it from the identity cache
      tenon::Connection connection =
          tenon::Connection::make(sockets.keep_there(), {.named_files = named_files});
      const tenon::Code wanted = named_files ? tenon::Code::kOk : tenon::Code::kPermission;
      return connection.try_recv({.timeout = kPatience}).code() == wanted;
    });
    tenon::Connection connection = tenon::Connection::make(sockets.keep_here());
    const tenon::Tensor weight = tenon::Tensor::over(storage, {8}, tenon::kDtypeOf<float>);
    connection.send(tenon::Message::of({{"weight", weight}}), {.timeout = kPatience});
    EXPECT_EQ(borrower.wait(), 0) << named_files;
  }
}

TEST_F(Connections, AKilledBorrower) {
  kit::Sockets sockets;
  kit::Child borrower([&] {
    tenon::Connection connection = tenon::Connection::make(sockets.keep_there());
    const tenon::Message message = connection.recv({.timeout = kPatience});
    tenon::Tensor weight = message["weight"];
    weight.view_mut<float>()[0] = 1;
    connection.send(tenon::Message::make(), {.timeout = kPatience});
    pause();
    return false;
  });
  tenon::Connection connection = tenon::Connection::make(sockets.keep_here());
  tenon::Tensor weight = tenon::zeros<float>({8});
  connection.send(tenon::Message::of({{"weight", weight}}), {.timeout = kPatience});
  (void)connection.recv({.timeout = kPatience});
  kill(borrower.pid(), SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(borrower.wait()));
  kit::thrown_by<tenon::PeerGone>([&] { (void)connection.recv({.timeout = kPatience}); });
  EXPECT_EQ(weight.view<float>()[0], 1.0F);
  weight.view_mut<float>()[0] = 2;
}

TEST_F(Connections, MemoryOfAKilledLenderIsDropped) {
  kit::Sockets sockets;
  kit::Child lender([&] {
    tenon::Connection connection = tenon::Connection::make(sockets.keep_there());
    tenon::Tensor weight = tenon::zeros<float>({8});
    weight.view_mut<float>()[7] = 5;
    connection.send(tenon::Message::of({{"weight", weight}}), {.timeout = kPatience});
    pause();
    return false;
  });
  tenon::Connection connection =
      tenon::Connection::make(sockets.keep_here(), {.on_lender_gone = tenon::LenderGone::kDrop});
  const tenon::Message message = connection.recv({.timeout = kPatience});
  tenon::Tensor weight = message["weight"];
  const std::span<const float> before = weight.view<float>();
  pollfd gone{connection.gone_fd(), POLLIN, 0};
  EXPECT_EQ(poll(&gone, 1, 0), 0);
  kill(lender.pid(), SIGKILL);
  EXPECT_EQ(poll(&gone, 1, 60'000), 1);
  EXPECT_EQ(before[7], 5.0F);  // opened memory stays valid
  EXPECT_EQ(weight.view().sizes()[0], 8);
  kit::thrown_by<tenon::PeerGone>([&] { (void)weight.view<float>(); });
  kit::thrown_by<tenon::PeerGone>([&] { (void)weight.view_mut<float>(); });
  const tenon::Storage storage = weight.storage();
  kit::thrown_by<tenon::PeerGone>([&] { (void)storage.bytes(); });
  kit::thrown_by<tenon::PeerGone>([&] { (void)connection.recv({.timeout = kPatience}); });
}

TEST_F(Connections, BadSockets) {
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)tenon::Connection::make(-1); });
  const kit::Sockets sockets;
  tenon::Connection connection = tenon::Connection::make(
      sockets.here, {.open = {.access = tenon::Access::kReadOnly}, .max_tensors = 1});
  EXPECT_EQ(connection.fd(), sockets.here);
  const tenon::Message empty;
  EXPECT_NE(kit::thrown_by<tenon::InvalidArgument>([&] { connection.send(empty); }).find("empty"),
            std::string::npos);
  connection.flush();
  // An adopted socket is closed with the connection.
  const int copy = dup(sockets.there);
  tenon::Connection adopted = tenon::Connection::make(copy, {.adopt_socket = true});
  adopted.close();
  EXPECT_EQ(fcntl(copy, F_GETFD), -1);
}

TEST_F(Connections, AChildMayNotUseIt) {
  const kit::Sockets sockets;
  tenon::Connection connection = tenon::Connection::make(sockets.here);
  kit::Child child([&] {
    if (connection.try_recv({.timeout = 0s}).code() != tenon::Code::kUnsupported) return false;
    connection.close();
    return true;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(Waits, TimeoutAndWouldBlock) {
  const kit::Sockets sockets;
  tenon::Connection connection = tenon::Connection::make(sockets.here);
  kit::thrown_by<tenon::WouldBlock>([&] { (void)connection.recv({.timeout = 0s}); });
  kit::thrown_by<tenon::Timeout>([&] { (void)connection.recv({.timeout = 1ms}); });
  EXPECT_NE(kit::thrown_by<tenon::InvalidArgument>([&] {
              (void)connection.recv({.timeout = -1ns});
            }).find("negative"),
            std::string::npos);
}

TEST_F(Waits, CancelFromAnotherThread) {
  const kit::Sockets sockets;
  tenon::Connection connection = tenon::Connection::make(sockets.here);
  const tenon::Cancel cancel = tenon::Cancel::make();
  std::thread other([&] { cancel.trigger(); });
  kit::thrown_by<tenon::Cancelled>([&] { (void)connection.recv({.cancel = &cancel}); });
  other.join();
  kit::thrown_by<tenon::Cancelled>(
      [&] { (void)connection.recv({.timeout = kPatience, .cancel = &cancel}); });
  cancel.reset();
  kit::thrown_by<tenon::Timeout>(
      [&] { (void)connection.recv({.timeout = 1ms, .cancel = &cancel}); });
}

void on_alarm(int) {}

TEST_F(Waits, InterruptedByASignal) {
  const kit::Sockets sockets;
  tenon::Connection connection = tenon::Connection::make(sockets.here);
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = on_alarm;
  ASSERT_EQ(sigaction(SIGALRM, &action, &before), 0);
  // The alarm repeats, because an alarm before the wait begins does not end the wait.
  const itimerval every{{0, 5000}, {0, 5000}};
  const itimerval none{};
  setitimer(ITIMER_REAL, &every, nullptr);
  kit::thrown_by<tenon::Interrupted>(
      [&] { (void)connection.recv({.timeout = kPatience, .interruptible = true}); });
  setitimer(ITIMER_REAL, &none, nullptr);
  sigaction(SIGALRM, &before, nullptr);
}

TEST_F(Waits, HalfSentGoesOn) {
  const kit::Sockets sockets;
  tenon::Connection lender = tenon::Connection::make(sockets.here);
  tenon::Connection borrower = tenon::Connection::make(sockets.there);
  tenon::Message large = tenon::Message::make();
  const std::vector<std::byte> bytes(TENON_MESSAGE_MAX_USER_NBYTES, std::byte{5});
  large.set_user_bytes(bytes);
  std::size_t sent = 0;
  tenon::Code code = tenon::Code::kOk;
  while (code == tenon::Code::kOk && sent < 1000) {
    code = lender.try_send(large, {.timeout = 0s}).code();
    ++sent;
  }
  ASSERT_EQ(code, tenon::Code::kWouldBlock);
  std::size_t received = 0;
  while (received < sent) {
    const tenon::Result<tenon::Message> message = borrower.try_recv({.timeout = 0s});
    if (message) {
      EXPECT_EQ(message->user_bytes().size(), bytes.size());
      ++received;
    } else {
      ASSERT_EQ(message.code(), tenon::Code::kWouldBlock);
      const tenon::Code flushed = lender.try_flush({.timeout = 0s}).code();
      ASSERT_TRUE(flushed == tenon::Code::kOk || flushed == tenon::Code::kWouldBlock);
    }
  }
}

TEST_F(Connections, ThePeerOfAPairMadeIt) {
  const kit::Sockets sockets;
  const tenon::Connection connection = tenon::Connection::make(sockets.here, {.same_user = true});
  const tenon::Peer peer = connection.peer();
  EXPECT_EQ(peer.pid, getpid());
  EXPECT_EQ(peer.uid, geteuid());
  EXPECT_EQ(peer.gid, getegid());
  EXPECT_CODE(kInvalidArgument, tenon::Connection().try_peer());
}

TEST_F(Connections, AnotherUsersPeer) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  std::optional<kit::Sockets> sockets;
  // A direct system call changes the user of one thread. The libc function would change all
  // threads.
  std::thread([&] {
    const gid_t groups[] = {65532, 65533};
    const bool became = syscall(SYS_setgroups, 2, groups) == 0 &&
                        syscall(SYS_setresgid, -1, 65534, -1) == 0 &&
                        syscall(SYS_setresuid, -1, 65534, -1) == 0;
    if (became) sockets.emplace();
  }).join();
  ASSERT_TRUE(sockets);
  for (const tenon::ConnectionOptions& options :
       {tenon::ConnectionOptions{.same_user = true},
        tenon::ConnectionOptions{.group = std::uint32_t{65531}}}) {
    const tenon::Result<tenon::Connection> refused =
        tenon::Connection::try_make(sockets->here, options);
    ASSERT_EQ(refused.code(), tenon::Code::kPermission);
    EXPECT_EQ(refused.error().detail("uid"), "65534");
    EXPECT_EQ(refused.error().detail("pid"), std::to_string(getpid()));
  }
  for (const tenon::ConnectionOptions& options :
       {tenon::ConnectionOptions{}, tenon::ConnectionOptions{.group = std::uint32_t{65533}}}) {
    const tenon::Peer peer = tenon::Connection::make(sockets->here, options).peer();
    EXPECT_EQ(peer.uid, 65534U);
    EXPECT_EQ(peer.gid, 65534U);
  }
}

}  // namespace

// These tests bind, connect and accept sockets at paths: their names, modes, queues and errors.
#include "os/local_socket.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "support/become_user.h"
#include "unit/os/guards.h"
#include "unit/os/surroundings.h"

namespace tenon::os {
namespace {

class LocalSocketTest : public test::Guarded {};

constexpr mode_t kMode = 0600;
constexpr gid_t kNoGroup = static_cast<gid_t>(-1);

Result<Fd> connect_now(SocketKind kind, const std::string& path) {
  Waiter waiter(Wait{0, nullptr, false});
  return connect_local(kind, path, &waiter);
}

Result<Fd> listen_at(SocketKind kind, const std::string& path) {
  return listen_local(kind, path, kMode, kNoGroup);
}

void expect_quiet_and_private(const Fd& fd) {
  EXPECT_NE(::fcntl(fd.get(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
}

void expect_talk(SocketKind kind, const std::string& path) {
  auto listener = listen_at(kind, path);
  ASSERT_TRUE(listener.is_ok()) << listener.status().message();
  auto nobody = accept_local(listener.value().get());
  ASSERT_TRUE(nobody.is_ok());
  EXPECT_FALSE(nobody.value().is_open());
  auto client = connect_now(kind, path);
  ASSERT_TRUE(client.is_ok()) << client.status().message();
  auto server = accept_local(listener.value().get());
  ASSERT_TRUE(server.is_ok());
  ASSERT_TRUE(server.value().is_open());
  for (const Fd* fd : {&listener.value(), &client.value(), &server.value()})
    expect_quiet_and_private(*fd);
  EXPECT_EQ(::send(client.value().get(), "hello", 5, MSG_NOSIGNAL), 5);
  char room[8];
  EXPECT_EQ(::recv(server.value().get(), room, sizeof room, 0), 5);
  int type = 0;
  socklen_t size = sizeof type;
  ASSERT_EQ(::getsockopt(client.value().get(), SOL_SOCKET, SO_TYPE, &type, &size), 0);
  EXPECT_EQ(type, kind == SocketKind::kStream ? SOCK_STREAM : SOCK_SEQPACKET);
}

TEST_F(LocalSocketTest, BothKindsTalk) {
  const test::ScratchFolder folder;
  expect_talk(SocketKind::kStream, folder / "stream");
  expect_talk(SocketKind::kPackets, folder / "packets");
  EXPECT_EQ(folder.names().size(), 2U) << "nothing but the two names";
}

TEST_F(LocalSocketTest, PathsOfAnyLength) {
  const test::ScratchFolder folder;
  std::string deep = folder.path();
  for (int i = 0; i < 3; ++i) {
    deep += "/" + std::string(100, 'd');
    ASSERT_EQ(::mkdir(deep.c_str(), 0700), 0);
  }
  expect_talk(SocketKind::kPackets, deep + "/short");
  expect_talk(SocketKind::kPackets, deep + "/" + std::string(255, 'l'));
  expect_talk(SocketKind::kStream, folder / std::string(255, 'l'));
  // The lengths go past the room in sockaddr_un, for both the final name and the random one.
  for (size_t length = 80; length < 115; ++length)
    expect_talk(SocketKind::kStream, folder / std::string(length - folder.path().size() - 1, 'x'));
  for (const std::string& path : {deep + "/none", deep + "/short/x"}) {
    const Status status = connect_now(SocketKind::kStream, path).status();
    EXPECT_EQ(status.code(), Code::kNotFound);
    EXPECT_EQ(status.detail("path"), path);
  }
  EXPECT_EQ(connect_now(SocketKind::kStream, deep + "/short").status().code(), Code::kPeerGone);
  EXPECT_EQ(connect_now(SocketKind::kStream, deep).status().code(), Code::kCorrupt);
  EXPECT_EQ(listen_at(SocketKind::kStream, folder / std::string(256, 'l')).status().code(),
            Code::kInvalidArgument);
}

TEST_F(LocalSocketTest, RelativePaths) {
  const test::ScratchFolder folder;
  const Fd before(::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(::chdir(folder.path().c_str()), 0);
  expect_talk(SocketKind::kStream, "socket");
  ASSERT_EQ(::fchdir(before.get()), 0);
  EXPECT_EQ(folder.names().size(), 1U);
}

TEST_F(LocalSocketTest, TakenPathsStayAsTheyAre) {
  const test::ScratchFolder folder;
  const std::string file = folder / "file";
  const std::string link = folder / "link";
  const std::string socket = folder / "socket";
  {
    const Fd made(::open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0640));
  }
  ASSERT_EQ(::symlink("nowhere", link.c_str()), 0);
  auto first = listen_at(SocketKind::kPackets, socket);
  ASSERT_TRUE(first.is_ok());
  for (const std::string& path : {file, link, socket}) {
    struct stat before{}, after{};
    ASSERT_EQ(::lstat(path.c_str(), &before), 0);
    const Status status = listen_at(SocketKind::kPackets, path).status();
    EXPECT_EQ(status.code(), Code::kPermission);
    EXPECT_EQ(status.detail("path"), path);
    EXPECT_EQ(status.detail("errno"), std::to_string(EEXIST));
    ASSERT_EQ(::lstat(path.c_str(), &after), 0);
    EXPECT_EQ(before.st_ino, after.st_ino);
    EXPECT_EQ(before.st_mode, after.st_mode);
  }
  EXPECT_TRUE(connect_now(SocketKind::kPackets, socket).is_ok()) << "the first one still listens";
  EXPECT_EQ(folder.names().size(), 3U);
}

TEST_F(LocalSocketTest, RefusedPathsLeaveNothing) {
  const test::ScratchFolder folder;
  const Status missing = listen_at(SocketKind::kStream, folder / "no/socket").status();
  EXPECT_EQ(missing.code(), Code::kNotFound);
  EXPECT_EQ(missing.detail("path"), folder / "no/socket");
  for (const std::string& path :
       {std::string(), folder.path() + "/", folder / ".", folder / "..", std::string("/")}) {
    EXPECT_EQ(listen_at(SocketKind::kStream, path).status().code(), Code::kInvalidArgument) << path;
  }
  if (::geteuid() != 0) {
    EXPECT_EQ(listen_local(SocketKind::kStream, folder / "group", kMode, 54321).status().code(),
              Code::kPermission);
  }
  {
    const test::NoFdLeft limit;
    const Status status = listen_at(SocketKind::kStream, folder / "socket").status();
    EXPECT_EQ(status.code(), Code::kResourceExhausted);
    EXPECT_EQ(status.detail("limit"), "RLIMIT_NOFILE");
    EXPECT_EQ(status.detail("limit_value"), limit.limit());
  }
  EXPECT_EQ(folder.names().size(), 0U);
}

TEST_F(LocalSocketTest, ModeAndGroupAreAsAskedWhateverTheUmask) {
  const test::ScratchFolder folder;
  const gid_t group = ::geteuid() == 0 ? 54321 : ::getegid();
  for (const mode_t umask_now : {0U, 077U, 0777U}) {
    for (const mode_t mode : {0600U, 0660U, 0666U}) {
      const std::string path = folder / std::to_string(umask_now * 1000 + mode);
      const mode_t before = ::umask(umask_now);
      auto listener = listen_local(SocketKind::kPackets, path, mode, group);
      ::umask(before);
      ASSERT_TRUE(listener.is_ok()) << listener.status().message();
      struct stat info{};
      ASSERT_EQ(::lstat(path.c_str(), &info), 0);
      EXPECT_TRUE(S_ISSOCK(info.st_mode));
      EXPECT_EQ(info.st_mode & 07777, mode);
      EXPECT_EQ(info.st_gid, group);
      EXPECT_EQ(info.st_uid, ::geteuid());
      EXPECT_EQ(info.st_nlink, 1U);
    }
  }
}

TEST_F(LocalSocketTest, ModeKeepsOthersOut) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  const test::ScratchFolder folder;
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  const auto code_of_another = [](const std::string& path) {
    test::ForkChild child([&](int) {
      if (!become_user(54321, 54321)) ::_exit(70);
      ::_exit(static_cast<int>(connect_now(SocketKind::kPackets, path).status().code()));
    });
    return static_cast<Code>(child.reap());
  };
  auto closed = listen_local(SocketKind::kPackets, folder / "closed", 0600, kNoGroup);
  auto open = listen_local(SocketKind::kPackets, folder / "open", 0666, kNoGroup);
  auto grouped = listen_local(SocketKind::kPackets, folder / "grouped", 0660, 54321);
  ASSERT_TRUE(closed.is_ok() && open.is_ok() && grouped.is_ok());
  EXPECT_EQ(code_of_another(folder / "closed"), Code::kPermission);
  EXPECT_EQ(code_of_another(folder / "open"), Code::kOk);
  EXPECT_EQ(code_of_another(folder / "grouped"), Code::kOk);
}

TEST_F(LocalSocketTest, DeadSocketIsPeerGone) {
  const test::ScratchFolder folder;
  for (const SocketKind kind : {SocketKind::kStream, SocketKind::kPackets}) {
    const std::string path = folder / (kind == SocketKind::kStream ? "stream" : "packets");
    test::ForkChild child([&](int ready) {
      auto listener = listen_at(kind, path);
      if (!listener.is_ok()) ::_exit(1);
      test::say_ready(ready);
      ::pause();
    });
    child.await_ready();
    EXPECT_TRUE(connect_now(kind, path).is_ok());
    child.end();
    const Status status = connect_now(kind, path).status();
    EXPECT_EQ(status.code(), Code::kPeerGone);
    EXPECT_EQ(status.detail("path"), path);
    EXPECT_NE(status.message().find("nobody listens"), std::string::npos);
  }
}

TEST_F(LocalSocketTest, WhatIsNoSocketIsCorrupt) {
  const test::ScratchFolder folder;
  auto listener = listen_at(SocketKind::kPackets, folder / "socket");
  ASSERT_TRUE(listener.is_ok());
  {
    const Fd made(::open((folder / "file").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  }
  ASSERT_EQ(::symlink("socket", (folder / "link").c_str()), 0);
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const char* leaf : {"file", "link", "pipe", "."}) {
    const Status status = connect_now(SocketKind::kPackets, folder / leaf).status();
    EXPECT_EQ(status.code(), Code::kCorrupt) << leaf;
    EXPECT_EQ(status.detail("path"), folder / leaf);
  }
  EXPECT_EQ(connect_now(SocketKind::kStream, folder / "socket").status().code(), Code::kCorrupt)
      << "the other kind";
  EXPECT_EQ(connect_now(SocketKind::kStream, folder / "none").status().code(), Code::kNotFound);
  EXPECT_EQ(connect_now(SocketKind::kStream, folder / "file/none").status().code(),
            Code::kNotFound);
}

class FullQueue : public LocalSocketTest, public ::testing::WithParamInterface<SocketKind> {};

INSTANTIATE_TEST_SUITE_P(Kinds, FullQueue,
                         ::testing::Values(SocketKind::kStream, SocketKind::kPackets));

TEST_P(FullQueue, WaitsAsTheWaiterSays) {
  const test::ScratchFolder folder;
  const std::string path = folder / "socket";
  auto listener = listen_at(GetParam(), path);
  ASSERT_TRUE(listener.is_ok());
  const int number = listener.value().get();
  ASSERT_EQ(::listen(number, 1), 0);  // makes the long queue short
  std::vector<Fd> clients;
  Status full;
  while (full.is_ok()) {
    ASSERT_LT(clients.size(), 100U);
    auto client = connect_now(GetParam(), path);
    full = client.status();
    if (client.is_ok()) clients.push_back(std::move(client).value());
  }
  EXPECT_EQ(full.code(), Code::kWouldBlock);
  EXPECT_EQ(full.detail("path"), path);
  EXPECT_GE(clients.size(), 1U);

  const int64_t start = test::now_ns();
  Waiter brief(Wait{30'000'000, nullptr, false});
  const Status late = connect_local(GetParam(), path, &brief).status();
  EXPECT_EQ(late.code(), Code::kTimeout);
  EXPECT_EQ(late.detail("path"), path);
  EXPECT_GE(test::now_ns() - start, 30'000'000);

  auto cancel = Cancel::create();
  ASSERT_TRUE(cancel.is_ok());
  {
    std::thread other([&] { cancel.value()->trigger(); });
    Waiter waiter(Wait{-1, cancel.value().get(), false});
    EXPECT_EQ(connect_local(GetParam(), path, &waiter).status().code(), Code::kCancelled);
    other.join();
  }
  {
    const test::SignalStorm storm(1'000'000);
    Waiter waiter(Wait{-1, nullptr, true});
    EXPECT_EQ(connect_local(GetParam(), path, &waiter).status().code(), Code::kInterrupted);
    Waiter deaf(Wait{20'000'000, nullptr, false});
    EXPECT_EQ(connect_local(GetParam(), path, &deaf).status().code(), Code::kTimeout);
  }
  {
    std::thread other([&] {
      auto server = accept_local(number);
      EXPECT_TRUE(server.is_ok() && server.value().is_open());
    });
    Waiter waiter(Wait{});
    EXPECT_TRUE(connect_local(GetParam(), path, &waiter).is_ok());
    other.join();
  }
  {
    std::thread other([&] { listener.value().reset(); });
    Waiter waiter(Wait{});
    EXPECT_EQ(connect_local(GetParam(), path, &waiter).status().code(), Code::kPeerGone)
        << "the listener closed";
    other.join();
  }
}

TEST_F(LocalSocketTest, TheQueueIsLong) {
  const test::ScratchFolder folder;
  auto listener = listen_at(SocketKind::kStream, folder / "socket");
  ASSERT_TRUE(listener.is_ok());
  std::vector<Fd> clients;
  for (int i = 0; i < 200; ++i) {
    auto client = connect_now(SocketKind::kStream, folder / "socket");
    ASSERT_TRUE(client.is_ok()) << i << ": " << client.status().message();
    clients.push_back(std::move(client).value());
  }
}

TEST_F(LocalSocketTest, CancelComesFirst) {
  const test::ScratchFolder folder;
  auto listener = listen_at(SocketKind::kStream, folder / "socket");
  auto cancel = Cancel::create();
  ASSERT_TRUE(listener.is_ok() && cancel.is_ok());
  cancel.value()->trigger();
  Waiter waiter(Wait{-1, cancel.value().get(), false});
  EXPECT_EQ(connect_local(SocketKind::kStream, folder / "socket", &waiter).status().code(),
            Code::kCancelled);
}

TEST_F(LocalSocketTest, FdLimitIsNamed) {
  const test::ScratchFolder folder;
  auto listener = listen_at(SocketKind::kStream, folder / "socket");
  auto client = connect_now(SocketKind::kStream, folder / "socket");
  ASSERT_TRUE(listener.is_ok() && client.is_ok());
  {
    const test::NoFdLeft limit;
    for (const Status& status :
         {accept_local(listener.value().get()).status(),
          connect_now(SocketKind::kStream, folder / "socket").status(),
          connect_now(SocketKind::kStream, folder / std::string(200, 'x')).status()}) {
      EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.message();
      EXPECT_EQ(status.detail("limit"), "RLIMIT_NOFILE");
      EXPECT_EQ(status.detail("limit_value"), limit.limit());
    }
  }
  auto server = accept_local(listener.value().get());
  ASSERT_TRUE(server.is_ok());
  EXPECT_TRUE(server.value().is_open()) << "the client was still in the queue";
}

TEST_F(LocalSocketTest, AcceptsFromNothing) {
  EXPECT_EQ(accept_local(-1).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace tenon::os

// These tests fetch memory from a process whose pid came in another process's bytes.
#include "os/host.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "os/process.h"
#include "support/become_user.h"
#include "unit/os/guards.h"

namespace tenon::os {
namespace {

class RemoteFd : public test::Guarded {};

struct Memory {
  Nonce nonce{};
  Fd fd;
  RemoteFile file;
};

Memory memory_of(int32_t pid) {
  Memory memory;
  memory.nonce = random_nonce().value();
  memory.fd = create_memfd(memory.nonce, 4096).value();
  const FileInfo info = stat_file(memory.fd.get()).value();
  memory.file = {pid, memory.fd.get(), info.device, info.inode, info.nbytes, memory.nonce};
  return memory;
}

// A child of another user, which holds copies of this process's fds. It ends when the object is
// destroyed.
struct OtherUser {
  OtherUser() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const Fd from(ends[0]);
    Fd to(ends[1]);
    pid = ::fork();
    if (pid == 0) {
      if (!become_user(65534, 65534)) ::_exit(1);
      const char ready = 1;
      if (::write(to.get(), &ready, 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    to.reset();
    char byte = 0;
    EXPECT_EQ(::read(from.get(), &byte, 1), 1);
  }
  ~OtherUser() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  OtherUser(const OtherUser&) = delete;
  OtherUser& operator=(const OtherUser&) = delete;
  pid_t pid = -1;
};

TEST_F(RemoteFd, OpensWhatTheBytesName) {
  const Memory memory = memory_of(process_id());
  const Result<Fd> opened = open_remote_fd(memory.file, true);
  EXPECT_TRUE(opened.is_ok()) << opened.status().message();
}

TEST_F(RemoteFd, ComparesTheNonceAlways) {
  const Memory memory = memory_of(process_id());
  for (const Nonce& wrong : {Nonce{}, Nonce{1}}) {
    RemoteFile file = memory.file;
    file.nonce = wrong;
    EXPECT_EQ(open_remote_fd(file, true).status().code(), Code::kPeerGone);
  }
  // The name of a memfd of PyTorch has no nonce. Its nonce in the bytes is zero, and no other nonce
  // matches it.
  const Fd plain(::memfd_create("tenon-", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(plain.get(), 4096), 0);
  const FileInfo info = stat_file(plain.get()).value();
  RemoteFile file{process_id(), plain.get(), info.device, info.inode, info.nbytes, {}};
  EXPECT_TRUE(open_remote_fd(file, true).is_ok());
  file.nonce = memory.nonce;
  EXPECT_EQ(open_remote_fd(file, true).status().code(), Code::kPeerGone);
}

TEST_F(RemoteFd, IsOfOurOwnUserUnlessTheCallerSaysOtherwise) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const Memory memory = memory_of(0);
  const OtherUser other;
  RemoteFile file = memory.file;
  file.pid = other.pid;
  const Status refused = open_remote_fd(file, true).status();
  EXPECT_EQ(refused.code(), Code::kPermission);
  EXPECT_NE(refused.message().find("of user 65534"), std::string::npos) << refused.message();
  EXPECT_EQ(refused.detail("option"), "OTHER_USER");
  EXPECT_EQ(refused.detail("uid"), "65534");
  file.other_user = true;
  EXPECT_TRUE(open_remote_fd(file, true).is_ok());

  const Fd pidfd = open_pidfd(other.pid);
  EXPECT_EQ(check_user(pidfd, other.pid, "TENON_CUDA_OTHER_USER").code(), Code::kPermission);
  const Fd own = open_pidfd(process_id());
  EXPECT_TRUE(check_user(own, process_id(), "TENON_CUDA_OTHER_USER").is_ok());
}

TEST_F(RemoteFd, DoesNotWaitForTheHolderOfALease) {
  Memory memory = memory_of(process_id());
  // A process can take a lease only on a file that nobody else has open.
  char path[40];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", memory.fd.get());
  Fd alone(::open(path, O_RDWR | O_CLOEXEC));
  memory.fd.reset();
  ASSERT_EQ(::fcntl(alone.get(), F_SETSIG, SIGURG), 0);  // ignored, unlike SIGIO
  ASSERT_EQ(::fcntl(alone.get(), F_SETLEASE, F_WRLCK), 0);
  memory.file.fd = alone.get();
  const auto before = std::chrono::steady_clock::now();
  const Status refused = open_remote_fd(memory.file, false).status();
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(1));
  EXPECT_EQ(refused.code(), Code::kWouldBlock);
  EXPECT_NE(refused.message().find("F_SETLEASE"), std::string::npos) << refused.message();
  ASSERT_EQ(::fcntl(alone.get(), F_SETLEASE, F_UNLCK), 0);
  EXPECT_TRUE(open_remote_fd(memory.file, false).is_ok());
}

}  // namespace
}  // namespace tenon::os

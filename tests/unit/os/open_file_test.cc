// These tests ask whether two fds come from one open(). They try each of the kernel's ways to find
// out, because the filter of a container may forbid some of them.
#include "os/open_file.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "unit/os/guards.h"

namespace tenon::os {
namespace {

constexpr int kDupfdQuery = 1024 + 3;

struct Denied {
  bool query = false;
  bool kcmp = false;
  const char* what;
};
constexpr Denied kEach[] = {
    {false, false, "all"}, {true, false, "kcmp"}, {true, true, "the signal"}};

// Forbids these system calls for the rest of the process, as the runtime of a container does.
void deny(const Denied& denied) {
  std::vector<sock_filter> code;
  const auto load = [&](size_t offset) {
    code.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)));
  };
  const auto unless = [&](uint32_t value, uint8_t skip) {
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skip));
  };
  const auto give = [&](uint32_t what) { code.push_back(BPF_STMT(BPF_RET | BPF_K, what)); };
  if (denied.kcmp) {
    load(offsetof(seccomp_data, nr));
    unless(SYS_kcmp, 1);
    give(SECCOMP_RET_ERRNO | EPERM);
  }
  if (denied.query) {
    load(offsetof(seccomp_data, nr));
    unless(SYS_fcntl, 3);
    load(offsetof(seccomp_data, args[1]));
    unless(kDupfdQuery, 1);
    give(SECCOMP_RET_ERRNO | EINVAL);
  }
  give(SECCOMP_RET_ALLOW);
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  ASSERT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
  if (denied.query) {
    EXPECT_EQ(::fcntl(0, kDupfdQuery, 0), -1);
  }
  if (denied.kcmp) {
    EXPECT_EQ(::syscall(SYS_kcmp, ::getpid(), ::getpid(), 0, 0, 0), -1);
  }
}

class OpenFile : public test::Guarded {
 protected:
  // Runs the body in a child for each way. Failures in the child fail the test.
  template <typename Body>
  static void by_each(const Body& body) {
    for (const Denied& denied : kEach) {
      SCOPED_TRACE(std::string("by ") + denied.what);
      std::fflush(nullptr);
      const pid_t child = ::fork();
      if (child == 0) {
        deny(denied);
        body();
        std::fflush(nullptr);
        std::_Exit(HasFailure() ? 1 : 0);
      }
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }
  }
};

void expect_told_apart(int one, int other) {
  const Fd copy(::fcntl(one, F_DUPFD_CLOEXEC, 0));
  ASSERT_TRUE(copy.is_open());
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(is_same_open_file(one, copy.get()));
    EXPECT_TRUE(is_same_open_file(copy.get(), one));
    EXPECT_TRUE(is_same_open_file(one, one));
    EXPECT_FALSE(is_same_open_file(one, other));
    EXPECT_FALSE(is_same_open_file(other, copy.get()));
  }
}

TEST_F(OpenFile, IsToldFromOneThatLooksLikeIt) {
  by_each([] {
    const Fd memory(::memfd_create("memory", MFD_CLOEXEC));
    const Fd again(
        ::open(("/proc/self/fd/" + std::to_string(memory.get())).c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(memory.is_open() && again.is_open());
    expect_told_apart(memory.get(), again.get());
    const Fd device(::open("/dev/null", O_RDWR | O_CLOEXEC));
    const Fd same_device(::open("/dev/null", O_RDWR | O_CLOEXEC));
    expect_told_apart(device.get(), same_device.get());
    const Fd counter(::eventfd(0, EFD_CLOEXEC));
    const Fd other_counter(::eventfd(0, EFD_CLOEXEC));
    expect_told_apart(counter.get(), other_counter.get());
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    const Fd here(pair[0]);
    const Fd there(pair[1]);
    expect_told_apart(here.get(), there.get());
  });
}

TEST_F(OpenFile, IsLeftAsItWas) {
  by_each([] {
    const Fd one(::memfd_create("one", MFD_CLOEXEC));
    const Fd other(::memfd_create("other", MFD_CLOEXEC));
    const Fd copy(::fcntl(one.get(), F_DUPFD_CLOEXEC, 0));
    for (const int signal : {0, SIGIO, SIGUSR1}) {
      ASSERT_EQ(::fcntl(one.get(), F_SETSIG, signal), 0);
      ASSERT_EQ(::fcntl(other.get(), F_SETSIG, signal), 0);
      EXPECT_TRUE(is_same_open_file(one.get(), copy.get()));
      EXPECT_FALSE(is_same_open_file(one.get(), other.get()));
      EXPECT_EQ(::fcntl(one.get(), F_GETSIG), signal);
      EXPECT_EQ(::fcntl(other.get(), F_GETSIG), signal);
    }
  });
}

// The kernel tells nothing about these fds, so each two count as different.
TEST_F(OpenFile, ThatIsNotThereIsNoneOther) {
  by_each([] {
    const Fd file(::memfd_create("a file", MFD_CLOEXEC));
    EXPECT_FALSE(is_same_open_file(file.get(), -1));
    EXPECT_FALSE(is_same_open_file(-1, file.get()));
    EXPECT_FALSE(is_same_open_file(-1, -1));
    const Fd place(::open("/dev/shm", O_PATH | O_CLOEXEC));
    const Fd same_place(::open("/dev/shm", O_PATH | O_CLOEXEC));
    ASSERT_TRUE(place.is_open() && same_place.is_open());
    EXPECT_FALSE(is_same_open_file(place.get(), same_place.get()));
  });
}

// The last way changes a signal number that all holders of an open file share. Threads take turns,
// and processes that disturb each other ask again.
TEST_F(OpenFile, IsAskedAboutByManyAtOnce) {
  by_each([] {
    const Fd one(::memfd_create("one", MFD_CLOEXEC));
    const Fd copy(::fcntl(one.get(), F_DUPFD_CLOEXEC, 0));
    const Fd other(::memfd_create("other", MFD_CLOEXEC));
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int round = 0; round < 500; ++round) {
          if (!is_same_open_file(one.get(), copy.get())) ++wrong;
          if (is_same_open_file(copy.get(), other.get())) ++wrong;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(::fcntl(one.get(), F_GETSIG), 0);
    EXPECT_EQ(::fcntl(other.get(), F_GETSIG), 0);
  });
}

}  // namespace
}  // namespace tenon::os

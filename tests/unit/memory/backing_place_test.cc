// These tests check on which node pages lie, and whether they are locked: each alone, under limits,
// and where the filter of a container forbids the system calls.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include "memory/backing.h"
#include "os/mapping.h"
#include "os/memory_lock.h"
#include "os/numa.h"
#include "os/smaps.h"
#include "support/become_user.h"
#include "unit/memory/backing_kit.h"

namespace tenon {
namespace {

using memory::Backing;
using memory::BackingRequest;
using memory::Mode;
using memory::Pages;
using test::Backed;
using test::kMiB;
using test::text_of;

class Nodes : public test::Guarded {};
class Locks : public test::Guarded {};

BackingRequest on_node(int32_t node, bool exact = true) {
  BackingRequest request;
  request.pages = Pages::kSmall;
  request.numa_node = node;
  request.exact = exact;
  return request;
}

BackingRequest locked(bool exact = true) {
  BackingRequest request;
  request.pages = Pages::kSmall;
  request.lock = true;
  request.exact = exact;
  return request;
}

// Makes these system calls fail with this errno, for the rest of this process.
void forbid(const std::vector<unsigned>& calls, int error) {
  std::vector<sock_filter> program = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const unsigned call : calls) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog filter = {static_cast<unsigned short>(program.size()), program.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    test::skip("no seccomp");
}

void limit_locks(rlim_t nbytes) {
  const rlimit limit{nbytes, nbytes};
  ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &limit), 0);
}

TEST_F(Nodes, NoSuchNode) {
  for (const int32_t node : {4095, 1023, -2, INT32_MAX}) {
    for (const bool exact : {true, false}) {
      const Result<Backing> result = memory::choose_pages(on_node(node, exact), Mode::kShared);
      ASSERT_EQ(result.status().code(), Code::kInvalidArgument) << text_of(result.status());
      EXPECT_EQ(result.status().detail("numa_node"), std::to_string(node));
      std::string nodes;
      for (const int32_t known : os::numa_nodes())
        nodes += (nodes.empty() ? "" : ",") + std::to_string(known);
      EXPECT_EQ(result.status().detail("nodes"), nodes.empty() ? "unknown" : nodes);
    }
  }
  Backed memory;
  ASSERT_TRUE(memory.make(locked(false), kMiB).is_ok());
  Backing got;
  EXPECT_EQ(memory::apply_backing(memory.base, memory.nbytes, on_node(4095), &got).code(),
            Code::kInvalidArgument);
  EXPECT_EQ(os::bind_to_node(memory.base, memory.nbytes, 900).code(), Code::kInvalidArgument)
      << "the kernel itself";
}

TEST_F(Nodes, EachNodeIsBoundAndTold) {
  const std::vector<int32_t> nodes = os::numa_nodes();
  if (nodes.empty()) GTEST_SKIP() << "neither /sys nor /proc tells of nodes";
  Backed free_memory;
  ASSERT_TRUE(free_memory.make(BackingRequest(), kMiB).is_ok());
  EXPECT_EQ(free_memory.got.numa_node, -1);
  EXPECT_EQ(free_memory.describe().numa_node, -1);
  for (const int32_t node : nodes) {
    Backed memory;
    const Status made = memory.make(on_node(node), 4 * kMiB);
    ASSERT_TRUE(made.is_ok()) << text_of(made);
    EXPECT_EQ(memory.got.numa_node, node);
    const Status grown = memory.grow(0, kMiB);
    ASSERT_TRUE(grown.is_ok()) << text_of(grown);
    std::memset(memory.base, 1, kMiB);
    EXPECT_EQ(memory.describe().numa_node, node);
    // The line is the kernel's own: "7f… bind=static:0 file=… N0=256"
    char address[40];
    std::snprintf(address, sizeof address, "%llx ",
                  static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(memory.base)));
    const std::string maps = test::read_text("/proc/self/numa_maps");
    const size_t at = maps.find(address);
    if (at == std::string::npos) continue;  // the kernel has no CONFIG_NUMA
    const std::string line = maps.substr(at, maps.find('\n', at) - at);
    EXPECT_NE(line.find("bind=static:" + std::to_string(node) + " "), std::string::npos) << line;
    EXPECT_NE(line.find(" N" + std::to_string(node) + "=256"), std::string::npos) << line;
  }
}

TEST_F(Nodes, AFullNodeIsAnErrorBeforeItIsAKill) {
  const std::vector<int32_t> nodes = os::numa_nodes();
  if (nodes.empty() ||
      test::read_text("/sys/devices/system/node/node" + std::to_string(nodes.front()) + "/meminfo")
          .empty())
    GTEST_SKIP() << "nothing is known of nodes";
  EXPECT_TRUE(os::ask_node_headroom(nodes.front(), kMiB).is_ok());
  const Status refused = os::ask_node_headroom(nodes.front(), uint64_t{1} << 60);
  EXPECT_EQ(refused.code(), Code::kResourceExhausted);
  EXPECT_EQ(refused.detail("limit"), "memory node " + std::to_string(nodes.front()));
  EXPECT_GT(std::strtoull(std::string(refused.detail("limit_value")).c_str(), nullptr, 10), 0U);
}

TEST_F(Nodes, AContainersFilter) {
  for (const int error : {EPERM, ENOSYS}) {
    IN_FORK_CHILD([error] {
      forbid({SYS_mbind, SYS_get_mempolicy}, error);
      const std::vector<int32_t> nodes = os::numa_nodes();
      if (nodes.empty()) test::skip("neither /sys nor /proc tells of nodes");
      Backed memory;
      const Status made = memory.make(on_node(nodes.front(), false), kMiB);
      ASSERT_TRUE(made.is_ok()) << text_of(made);
      Backed strict;
      const Status exact = strict.make(on_node(nodes.front()), kMiB);
      if (nodes.size() == 1) {  // the pages can lie nowhere else
        EXPECT_EQ(memory.got.numa_node, nodes.front());
        EXPECT_TRUE(exact.is_ok()) << text_of(exact);
      } else {
        EXPECT_EQ(memory.got.numa_node, -1);
        EXPECT_EQ(memory.got.numa_refused.code(),
                  error == EPERM ? Code::kPermission : Code::kUnsupported);
        EXPECT_EQ(exact.code(), memory.got.numa_refused.code());
      }
      EXPECT_EQ(memory.describe().numa_node, memory.got.numa_node);
      EXPECT_EQ(os::bind_to_node(memory.base, memory.nbytes, nodes.front()).code(),
                error == EPERM ? Code::kPermission : Code::kUnsupported);
    });
  }
}

TEST_F(Locks, TheRangeIsLockedAsItGrows) {
  Backed memory;
  const Status made = memory.make(locked(), 16 * kMiB);
  ASSERT_TRUE(made.is_ok()) << text_of(made);
  EXPECT_TRUE(memory.got.locked);
  EXPECT_EQ(memory.allocated(), 0U) << "locking made pages";
  ASSERT_TRUE(memory.grow(0, 128 * 1024).is_ok());
  std::memset(memory.base, 1, 128 * 1024);
  EXPECT_TRUE(memory.describe().locked);
  const test::Smaps seen = test::read_smaps(memory.base, 128 * 1024);
  EXPECT_NE(seen.flags.find(" lo "), std::string::npos) << seen.flags;
  EXPECT_EQ(os::inspect_pages(memory.base, memory.nbytes).locked_nbytes, 128 * 1024U);
  // describe() notices that one page is no longer locked. The test makes the system call itself,
  // because a sanitizer's munlock does nothing.
  ASSERT_EQ(::syscall(SYS_munlock, memory.base, os::page_nbytes()), 0);
  EXPECT_FALSE(memory.describe().locked);
}

TEST_F(Locks, NotLockedIsTold) {
  Backed memory;
  BackingRequest request;
  request.pages = Pages::kSmall;
  ASSERT_TRUE(memory.make(request, kMiB).is_ok());
  ASSERT_TRUE(memory.grow(0, kMiB).is_ok());
  std::memset(memory.base, 1, kMiB);
  EXPECT_FALSE(memory.got.locked);
  EXPECT_FALSE(memory.describe().locked);
}

TEST_F(Locks, TheLimitIsNamed) {
  constexpr rlim_t kLimit = 256 * 1024;
  for (const bool exact : {true, false}) {
    IN_FORK_CHILD([exact] {
      limit_locks(kLimit);
      ASSERT_TRUE(become_unprivileged());
      Backed memory;
      // Address space that was only reserved does not count towards the limit.
      const Status made = memory.make(locked(exact), 16 * kMiB);
      ASSERT_TRUE(made.is_ok()) << text_of(made);
      EXPECT_TRUE(memory.got.locked);
      ASSERT_TRUE(memory.grow(0, kLimit / 2).is_ok());
      const Status refused = memory.grow(kLimit / 2, kMiB);
      ASSERT_EQ(refused.code(), Code::kResourceExhausted) << text_of(refused);
      EXPECT_EQ(refused.detail("limit"), "RLIMIT_MEMLOCK");
      EXPECT_EQ(refused.detail("limit_value"), std::to_string(kLimit));
      EXPECT_EQ(refused.detail("wanted"), std::to_string(kMiB));
      EXPECT_EQ(memory.allocated(), kLimit / 2) << "memory was taken for what is refused";
      EXPECT_TRUE(memory.grow(kLimit / 2, kLimit / 2).is_ok());
      std::memset(memory.base, 1, kLimit);
      EXPECT_TRUE(memory.describe().locked);
    });
    IN_FORK_CHILD([exact] {
      limit_locks(0);
      ASSERT_TRUE(become_unprivileged());
      Backed memory;
      const Status made = memory.make(locked(exact), kMiB);
      ASSERT_EQ(made.code(), Code::kResourceExhausted) << text_of(made);
      EXPECT_EQ(made.detail("limit"), "RLIMIT_MEMLOCK");
      EXPECT_EQ(made.detail("limit_value"), "0");
    });
  }
}

TEST_F(Locks, RootHasNoLimit) {
  if (::geteuid() != 0) GTEST_SKIP() << "not root";
  IN_FORK_CHILD([] {
    limit_locks(4096);
    // Root of a user namespace has the same limit as other users.
    void* const page = ::mmap(nullptr, 4 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (::syscall(SYS_mlock2, page, 4 * 4096, 1) != 0) test::skip("no CAP_IPC_LOCK");
    ::munmap(page, 4 * 4096);
    Backed memory;
    ASSERT_TRUE(memory.make(locked(), 16 * kMiB).is_ok());
    ASSERT_TRUE(memory.grow(0, 8 * kMiB).is_ok());
    std::memset(memory.base, 1, 8 * kMiB);
    EXPECT_TRUE(memory.describe().locked);
  });
}

TEST_F(Locks, AContainersFilter) {
  for (const int error : {EPERM, ENOSYS}) {
    IN_FORK_CHILD([error] {
      if (os::memory_lock_limit() == 0) test::skip("RLIMIT_MEMLOCK is 0");
      forbid({SYS_mlock2}, error);
      const Code code = error == EPERM ? Code::kPermission : Code::kUnsupported;
      Backed memory;
      const Status made = memory.make(locked(false), kMiB);
      ASSERT_TRUE(made.is_ok()) << text_of(made);
      EXPECT_FALSE(memory.got.locked);
      EXPECT_EQ(memory.got.lock_refused.code(), code) << text_of(memory.got.lock_refused);
      ASSERT_TRUE(memory.grow(0, kMiB).is_ok());
      std::memset(memory.base, 1, kMiB);
      EXPECT_FALSE(memory.describe().locked);
      Backed strict;
      EXPECT_EQ(strict.make(locked(), kMiB).code(), code);
    });
  }
}

// Huge pages stay whole, although the locked range ends inside the mapping.
TEST_F(Locks, LockedHugePagesAreStillHuge) {
  IN_FORK_CHILD([] {
    BackingRequest request = locked();
    request.pages = Pages::kThp;
    Backed memory;
    const Status made = memory.make(request, 64 * kMiB);
    if (made.code() == Code::kUnsupported || made.detail("limit") == "RLIMIT_MEMLOCK")
      test::skip(text_of(made));
    ASSERT_TRUE(made.is_ok()) << text_of(made);
    const uint64_t page = memory.got.page_nbytes;
    const Status grown = memory.grow(0, 3 * page);
    if (grown.detail("limit") == "RLIMIT_MEMLOCK") test::skip(text_of(grown));
    ASSERT_TRUE(grown.is_ok()) << text_of(grown);
    test::skip_without_huge_memory(memory, 3 * page);
    ASSERT_NE(memory.base, nullptr);
    std::memset(memory.base, 1, 3 * page);
    EXPECT_TRUE(memory.describe().locked);
    EXPECT_EQ(memory.describe().huge_nbytes, 3 * page);
  });
}

}  // namespace
}  // namespace tenon

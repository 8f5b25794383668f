// These tests ask how much memory the machine has left. They replace its meminfo and its cgroups
// with files of their own.
#include "os/limits.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "unit/os/guards.h"
#include "unit/os/surroundings.h"

namespace {

// Maps the paths that open() replaces, for the whole program. The map is never destroyed, because
// AtTheEnd still uses it.
std::map<std::string, std::string>& stand_ins() {
  static auto* const paths = new std::map<std::string, std::string>;
  return *paths;
}

}  // namespace

// This definition replaces libc's open(), also for the library.
extern "C" int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & (O_CREAT | O_TMPFILE)) != 0) {
    va_list more;
    va_start(more, flags);
    mode = va_arg(more, mode_t);
    va_end(more);
  }
  const auto found = stand_ins().find(path);
  const char* const name = found == stand_ins().end() ? path : found->second.c_str();
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, name, flags, mode));
}

namespace tenon::os {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// A machine with one memory cgroup, of version 2.
class World {
 public:
  World() {
    put("mountinfo", "30 1 0:30 / " + folder_.path() + " rw - cgroup2 cgroup rw\n");
    put("cgroup", "0::/mine\n");
    put("meminfo", "MemAvailable: 1048576 kB\n");
    stand_ins()["/proc/self/mountinfo"] = folder_ / "mountinfo";
    stand_ins()["/proc/self/cgroup"] = folder_ / "cgroup";
    stand_ins()["/proc/meminfo"] = folder_ / "meminfo";
    std::filesystem::create_directory(cgroup());
    put("mine/memory.max", std::to_string(64 * kMiB));
    put("mine/memory.stat", "inactive_file 0\nactive_file 0\n");
    set_used(0);
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World() { stand_ins().clear(); }
  void set_used(uint64_t nbytes) { put("mine/memory.current", std::to_string(nbytes)); }
  std::string cgroup() const { return folder_ / "mine"; }

 private:
  void put(const std::string& leaf, const std::string& text) {
    std::ofstream(folder_ / leaf) << text;
  }
  test::ScratchFolder folder_;
};

class LimitsTest : public test::Guarded {};

// The body runs in a child, because a process looks for its cgroups at most once a second.
TEST_F(LimitsTest, ACgroupRefusesByName) {
  World world;
  test::ForkChild child([&](int) {
    EXPECT_TRUE(ask_headroom(32 * kMiB).is_ok());
    world.set_used(48 * kMiB);
    const Status refused = ask_headroom(32 * kMiB);
    EXPECT_EQ(refused.code(), Code::kResourceExhausted);
    EXPECT_EQ(refused.detail("limit"), "memory cgroup " + world.cgroup());
    std::fflush(nullptr);
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  });
  EXPECT_EQ(child.reap(), 0);
}

TEST_F(LimitsTest, OnlyAStatusOfTheFdLimitGetsTheValueOfThatLimit) {
  const std::string value = std::to_string(fd_limit());
  EXPECT_EQ(with_fd_limit(errno_status(EMFILE, "an fd")).detail("limit_value"), value);
  for (const int error : {ENOMEM, ENFILE, ENOSPC, EACCES})
    EXPECT_EQ(with_fd_limit(errno_status(error, "an fd")).detail("limit_value"), "") << error;
}

// This object is made before any static object of the library, so its destructor runs after theirs.
struct AtTheEnd {
  std::string expected;  // empty: the destructor does nothing
  ~AtTheEnd() {
    if (expected.empty()) return;
    const Status refused = ask_headroom(100 * kMiB);
    const bool good =
        refused.code() == Code::kResourceExhausted && refused.detail("limit") == expected;
    if (!good) std::fprintf(stderr, "at the end: %s\n", refused.message().c_str());
    std::fflush(nullptr);
    ::_exit(good ? 0 : 1);
  }
};
AtTheEnd at_the_end;

// Static objects may hold storages, and the service thread still runs, while other static objects
// are destroyed. So ask_headroom() must work until the very end.
TEST_F(LimitsTest, MayBeAskedUntilTheVeryEnd) {
  World world;
  test::ForkChild child([&](int) {
    EXPECT_TRUE(ask_headroom(32 * kMiB).is_ok());
    if (::testing::Test::HasFailure()) ::_exit(2);
    at_the_end.expected = "memory cgroup " + world.cgroup();
    std::exit(3);
  });
  EXPECT_EQ(child.reap(), 0);
}

}  // namespace
}  // namespace tenon::os

// The base of all CUDA tests. Each case runs in a child of its own with an empty world of the fake,
// because a process starts the driver only once. The same cases run on a real driver
// (tests/process/gpu), except those that need the fake's settings or its ledger.
#pragma once

#include <dlfcn.h>
#include <ftw.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "api/capi/library_thread.h"
#include "support/child_status.h"
#include "support/fake_cuda/ledger.h"
#include "support/sanitizers.h"
#include "support/temporary_directory.h"

namespace cuda_test {

// The folder of a world of the fake, or of anything else.
class World : public tenon::test::TemporaryDirectory {
 public:
  World() : TemporaryDirectory(tenon::test::temporary_place() + "/tenon-cuda-") {}
};

inline int wait_for(pid_t child) {
  const int status = tenon::test::wait_for_child(child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// Whether the driver that the tests find is the one of tests/support/fake_cuda. Also true if there
// is no driver at all. A child opens the library to find out, because some tests check whether this
// process has opened it.
inline bool on_the_fake() {
  static const bool fake = [] {
    const pid_t child = fork();
    if (child == 0) {
      void* const found = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
      std::_Exit(found != nullptr && dlsym(found, "fake_cuda_live") == nullptr ? 1 : 0);
    }
    return wait_for(child) == 0;
  }();
  return fake;
}
#define NEEDS_THE_FAKE(why) \
  if (!::cuda_test::on_the_fake()) GTEST_SKIP() << "not on a real driver: " << (why)

// The loaded driver, or null if this process has not opened it.
inline void* library() { return dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD); }

// Forks and runs `body` in the child. The child's exit status tells whether a check failed.
inline pid_t start(const std::function<void()>& body) {
  std::fflush(nullptr);
  const bool is_inherited = library() != nullptr;
#if TENON_TEST_SANITIZED
  // A sanitizer's allocator does not work in a child that was forked while another thread was in
  // the allocator.
  library_thread_settle();
#endif
  const pid_t child = fork();
  if (child != 0) return child;
  body();
  std::fflush(nullptr);
  const int status = ::testing::Test::HasFailure() ? 1 : 0;
  // A child may end badly on a real driver that its parent started: the driver promises nothing for
  // its exit. So the child skips the exit handlers.
  if (is_inherited && !on_the_fake()) std::_Exit(status);
  std::exit(status);
}

// Runs `body` in a child with a world of its own and these variables. An entry "NAME" without a
// value unsets the variable.
inline void in_child(const std::vector<std::string>& environment,
                     const std::function<void()>& body) {
  const World world;
  (void)on_the_fake();  // determined before there are children
  const pid_t child = start([&] {
    setenv("FAKE_CUDA_WORLD", world.path().c_str(), 1);
    for (const std::string& entry : environment) {
      const size_t equals = entry.find('=');
      if (equals == std::string::npos) {
        unsetenv(entry.c_str());
      } else {
        setenv(entry.substr(0, equals).c_str(), entry.c_str() + equals + 1, 1);
      }
    }
    body();
  });
  EXPECT_EQ(wait_for(child), 0);
}

template <typename Function>
Function* ledger(Function*, const char* name) {
  void* found = library() != nullptr ? dlsym(library(), name) : nullptr;
  EXPECT_NE(found, nullptr) << name;
  return reinterpret_cast<Function*>(found);
}
#define LEDGER(function) ::cuda_test::ledger(static_cast<decltype(&function)>(nullptr), #function)
// Checks a count of the fake's ledger, and does nothing on a real driver: EXPECT_COUNT(expected,
// fake_cuda_live, FAKE_CUDA_IPC_OPEN, 0). COUNT is 0 on a real driver.
#define COUNT(function, ...) (::cuda_test::on_the_fake() ? LEDGER(function)(__VA_ARGS__) : 0U)
#define EXPECT_COUNT(expected, function, ...) \
  if (::cuda_test::on_the_fake()) EXPECT_EQ(LEDGER(function)(__VA_ARGS__), expected)

// Asks in a child what a driver's devices can do, because this process must not start the driver.
inline bool child_finds(const std::function<bool()>& what) {
  const World world;
  const pid_t child = fork();
  if (child == 0) {
    setenv("FAKE_CUDA_WORLD", world.path().c_str(), 1);
    std::_Exit(what() ? 0 : 1);
  }
  return wait_for(child) == 0;
}
// Skips a test on a real device that lacks a feature. The fake has every feature unless it is told
// otherwise.
#define NEEDS_OF_A_REAL_DEVICE(found, why)                             \
  if (!::cuda_test::on_the_fake() && !::cuda_test::child_finds(found)) \
  GTEST_SKIP() << "not on this device: " << (why)

// The version that the environment asks of the fake.
inline int expected_version() {
  const char* version = std::getenv("FAKE_CUDA_DRIVER");
  if (version != nullptr) return std::atoi(version);
  const char* folder = std::getenv("LD_LIBRARY_PATH");
  return folder != nullptr && std::strstr(folder, "driver-11") != nullptr ? 11040 : 13000;
}

}  // namespace cuda_test

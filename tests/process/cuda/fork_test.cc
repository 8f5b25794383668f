// Tests that a forked child of a process that started the driver gets a clear error. The driver
// does not work in such a child, and the library does not call it there.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "base/fork.h"
#include "cuda/available.h"
#include "cuda/driver.h"
#include "process/cuda/details.h"
#include "process/cuda/kit.h"
#include "support/sanitizers.h"

namespace tenon::cuda {
namespace {

using cuda_test::in_child;
using cuda_test::says;
using cuda_test::start;
using cuda_test::wait_for;

// Counts this test's own fork hooks. The library's hooks may be absent, because the linker takes
// from the archive only what the test uses.
[[maybe_unused]] const bool kCounted = [] {
  register_fork_hooks(LockRank::kCudaMemory,
                      {[]() noexcept {}, []() noexcept {}, []() noexcept {}});
  return true;
}();

void expect_told_of_fork() {
  for (int i = 0; i < 2; ++i) {
    const Status status = available();
    EXPECT_EQ(status.code(), Code::kUnsupported);
    EXPECT_TRUE(says(status, "it is a child of fork of one that had started the driver"))
        << status.message();
  }
}

TEST(Fork, AChildIsToldAndTheParentGoesOn) {
  in_child({}, [] {
    const Driver* cu = driver().value();
    CUcontext context = nullptr;
    EXPECT_EQ(cu->cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    EXPECT_EQ(cu->cuCtxPushCurrent(context), CUDA_SUCCESS);
    CUdeviceptr pointer = 0;
    EXPECT_EQ(cu->cuMemAlloc(&pointer, 4096), CUDA_SUCCESS);
    EXPECT_EQ(wait_for(start([] {
                expect_told_of_fork();
                EXPECT_EQ(wait_for(start(expect_told_of_fork)), 0);
              })),
              0);
    EXPECT_COUNT(0U, fake_cuda_faults, FAKE_CUDA_USED_AFTER_FORK);
    EXPECT_EQ(driver().value(), cu);
    EXPECT_EQ(cu->cuMemFree(pointer), CUDA_SUCCESS);
    EXPECT_EQ(cu->cuCtxPopCurrent(&context), CUDA_SUCCESS);
    EXPECT_EQ(cu->cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  });
}

TEST(Fork, AChildOfAProcessThatDidNotStartItStartsItself) {
  in_child({}, [] {
    const auto use = [] {
      EXPECT_TRUE(available().is_ok()) << available().message();
      int count = 0;
      EXPECT_EQ(driver().value()->cuDeviceGetCount(&count), CUDA_SUCCESS);
      EXPECT_GE(count, 1);
    };
    EXPECT_EQ(wait_for(start(use)), 0);
    EXPECT_EQ(cuda_test::library(), nullptr);
    EXPECT_EQ(wait_for(start(use)), 0);
    use();
  });
}

bool sleeps(pid_t thread) {
  std::ostringstream text;
  text << std::ifstream("/proc/self/task/" + std::to_string(thread) + "/stat").rdbuf();
  return text.str().find(") S ") != std::string::npos;
}

TEST(Fork, WhileAnotherThreadStartsIt) {
  NEEDS_THE_FAKE("no driver promises anything of a fork while it starts");
#if TENON_TEST_SANITIZED
  GTEST_SKIP() << "a sanitizer's allocator is of no use in the child of a fork while another "
                  "thread is in it";
#endif
  in_child({"FAKE_CUDA_LATENCY=cuInit=1000000"}, [] {
    std::atomic<pid_t> thread{0};
    std::thread starter([&] {
      thread = gettid();
      EXPECT_TRUE(available().is_ok());
    });
    // Waits until the thread sleeps inside cuInit. While the thread loads the library it holds
    // locks of the loader, and the child would need them.
    while (thread == 0 || cuda_test::library() == nullptr || !sleeps(thread))
      std::this_thread::yield();
    EXPECT_EQ(wait_for(start(expect_told_of_fork)), 0);
    starter.join();
    EXPECT_TRUE(available().is_ok());
  });
}

TEST(Fork, OfAProcessWhereOthersStartedIt) {
  in_child({}, [] {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr);
    EXPECT_EQ(reinterpret_cast<PFN_cuInit_v2000>(dlsym(library, "cuInit"))(0), CUDA_SUCCESS);
    EXPECT_EQ(
        wait_for(start([] {
          const Status status = available();
          EXPECT_EQ(status.code(), Code::kUnsupported);
          EXPECT_TRUE(says(status, "child of fork") && says(status, "CUDA_ERROR_NOT_INITIALIZED"))
              << status.message();
        })),
        0);
    EXPECT_TRUE(available().is_ok());
  });
}

}  // namespace
}  // namespace tenon::cuda

// Helpers of the tests with a CUDA driver: the driver's functions, and a stream whose work lasts
// until a test ends it.
#pragma once

#include "kit.h"

#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#define NEEDS_DRIVER()                               \
  if (std::getenv("TENON_TEST_HAS_CUDA") == nullptr) \
  GTEST_SKIP() << "there is no driver but where tests/process/cuda says so"

namespace cuda_kit {

// Returns a function of CUDA's driver.
template <class Function>
Function* driver(const char* name) {
  void* found = dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);
  if (found == nullptr) std::abort();
  return reinterpret_cast<Function*>(found);
}

// Returns the address of the element with index 0, 0, ….
inline std::uint64_t address_of(const tenon::Tensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.view().data());
}

// Whether the driver is the one of tests/support/fake_cuda.
inline bool on_the_fake() {
  return dlsym(dlopen("libcuda.so.1", RTLD_NOW), "fake_cuda_live") != nullptr;
}

// How much is still lent or borrowed. Unless a latency is set, a stream of the fake has finished
// when a call returns. The streams of a real device take their time.
inline std::uint64_t left() {
  for (int i = 0; i < 5000 && !on_the_fake() && tenon::cuda_collect() != 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return tenon::cuda_collect();
}

// Another process, which runs one disabled test of this program. A forked child could not use CUDA.
// TENON_TEST_LINE names its end of a socket.
class OtherProcess {
 public:
  explicit OtherProcess(const std::string& test) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) std::abort();
    line_ = ends[0];
    setenv("TENON_TEST_LINE", std::to_string(ends[1]).c_str(), 1);
    const std::string filter = "--gtest_filter=" + test;
    const char* const words[] = {"cpp_test", filter.c_str(), "--gtest_also_run_disabled_tests",
                                 nullptr};
    child_ = fork();
    if (child_ == 0) {
      execv("/proc/self/exe", const_cast<char* const*>(words));
      _exit(3);
    }
    close(ends[1]);
    unsetenv("TENON_TEST_LINE");
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;
  ~OtherProcess() {
    if (line_ >= 0) close(line_);
  }
  int line() const { return line_; }
  // The caller becomes the owner of this process's end.
  int take_line() { return std::exchange(line_, -1); }
  void expect_success() const {
    int status = -1;
    EXPECT_EQ(waitpid(child_, &status, 0), child_);
    EXPECT_EQ(status, 0);
  }

 private:
  int line_ = -1;
  pid_t child_ = -1;
};

// A real driver loads the code of a fill or a copy on the first use. The load can wait for all
// running work, and would block for ever if that work waits for this process. So this function runs
// both kinds first.
inline void load_code() {
  std::uint64_t room = 0;
  EXPECT_EQ(driver<int(std::uint64_t*, std::size_t)>("cuMemAlloc_v2")(&room, 4096), 0);
  const auto fill = driver<int(std::uint64_t, unsigned char, std::size_t)>("cuMemsetD8_v2");
  EXPECT_EQ(fill(room, 0, 2000), 0);
  EXPECT_EQ(fill(room + 1, 0, 1), 0);
  EXPECT_EQ(
      driver<int(std::uint64_t, std::uint64_t, std::size_t)>("cuMemcpy")(room + 2048, room, 2000),
      0);
  EXPECT_EQ(driver<int(std::uint64_t)>("cuMemFree_v2")(room), 0);
}

// Returns zeros in host memory that the driver knows. They stay until the process ends. A copy from
// a device to any other host memory blocks until it is done, so a test whose copies wait for
// another process would deadlock.
inline unsigned char* new_host_room(std::size_t nbytes) {
  void* room = nullptr;
  EXPECT_EQ(driver<int(void**, std::size_t, unsigned)>("cuMemHostAlloc")(&room, nbytes, 0), 0);
  std::memset(room, 0, nbytes);
  return static_cast<unsigned char*>(room);
}

// A stream whose work lasts until let_go(), so that no result depends on timing.
class Busy {
 public:
  Busy() {
    void* context = nullptr;
    EXPECT_EQ(pipe(ends_), 0);
    EXPECT_EQ(driver<int(unsigned)>("cuInit")(0), 0);
    EXPECT_EQ(driver<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, 0), 0);
    EXPECT_EQ(driver<int(void*)>("cuCtxSetCurrent")(context), 0);
    EXPECT_EQ(driver<int(void**, unsigned)>("cuStreamCreate")(&stream_, 1), 0);
    load_code();
    void (*const stay)(void*) = [](void* self) {
      char byte = 0;
      EXPECT_EQ(read(static_cast<Busy*>(self)->ends_[0], &byte, 1), 1);
    };
    EXPECT_EQ(driver<int(void*, void (*)(void*), void*)>("cuLaunchHostFunc")(stream_, stay, this),
              0);
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  ~Busy() {
    EXPECT_EQ(driver<int(void*)>("cuStreamDestroy_v2")(stream_), 0);
    close(ends_[0]);
    close(ends_[1]);
  }
  void* stream() const { return stream_; }
  void let_go() {
    EXPECT_EQ(write(ends_[1], "g", 1), 1);
    EXPECT_EQ(driver<int(void*)>("cuStreamSynchronize")(stream_), 0);
  }

 private:
  int ends_[2] = {-1, -1};
  void* stream_ = nullptr;
};

}  // namespace cuda_kit

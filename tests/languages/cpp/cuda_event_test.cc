// Tests of CUDA events through the C++ wrapper: they are recorded, queried, waited for, and opened
// in another process. tests/process/cuda also runs these tests with the fake driver, and sets
// TENON_TEST_HAS_CUDA.
#include "cuda_kit.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

namespace {

using namespace std::chrono_literals;
using cuda_kit::Busy;

TEST(CudaEvent, WithoutADriver) {
  const tenon::CudaEvent none;
  EXPECT_FALSE(none);
  EXPECT_EQ(tenon::CudaEvent(none).try_record(nullptr).code(), tenon::Code::kInvalidArgument);
  EXPECT_EQ(none.try_wait(nullptr).code(), tenon::Code::kInvalidArgument);
  EXPECT_EQ(none.try_query().code(), tenon::Code::kInvalidArgument);
  EXPECT_EQ(none.try_synchronize().code(), tenon::Code::kInvalidArgument);
  EXPECT_EQ(none.try_ipc_handle().code(), tenon::Code::kInvalidArgument);
  EXPECT_EQ(tenon::CudaEvent::try_make({.device = -1}).code(), tenon::Code::kInvalidArgument);
  if (tenon::try_cuda_available()) return;
  EXPECT_EQ(tenon::CudaEvent::try_make().code(), tenon::Code::kUnsupported);
  EXPECT_EQ(tenon::CudaEvent::try_from_ipc_handle({}).code(), tenon::Code::kUnsupported);
}

TEST(CudaEvent, AskedAndWaitedFor) {
  NEEDS_DRIVER();
  tenon::CudaEvent event = tenon::CudaEvent::make();
  EXPECT_TRUE(event.query());
  Busy busy;
  event.record(busy.stream());
  EXPECT_FALSE(event.query());
  EXPECT_EQ(event.try_synchronize({.timeout = 0ns}).code(), tenon::Code::kWouldBlock);
  EXPECT_EQ(event.try_synchronize({.timeout = 2ms}).code(), tenon::Code::kTimeout);
  EXPECT_EQ(event.try_synchronize({.timeout = -1ns}).code(), tenon::Code::kInvalidArgument);
  const tenon::Cancel cancel = tenon::Cancel::make();
  cancel.trigger();
  EXPECT_EQ(event.try_synchronize({.cancel = &cancel}).code(), tenon::Code::kCancelled);
  event.wait(nullptr);
  const tenon::CudaEvent same = event;
  event.close();
  std::thread waits([&] { same.synchronize(); });
  busy.let_go();
  waits.join();
  EXPECT_TRUE(same.query());
}

TEST(CudaEvent, WhatIsRefused) {
  NEEDS_DRIVER();
  EXPECT_EQ(tenon::CudaEvent::try_make({.device = 999}).code(), tenon::Code::kInvalidArgument);
  EXPECT_EQ(tenon::CudaEvent::make().try_ipc_handle().code(), tenon::Code::kInvalidArgument);
  const tenon::CudaEvent event = tenon::CudaEvent::make({.interprocess = true});
  const tenon::CudaEventHandle handle = event.ipc_handle();
  const auto reason = kit::thrown_by<tenon::InvalidArgument>(
      [&] { (void)tenon::CudaEvent::from_ipc_handle(handle); });
  EXPECT_NE(reason.find("the process that made it cannot"), std::string::npos) << reason;
}

// The other process of the next test, which runs this program again. A forked child could not use
// CUDA.
TEST(CudaEvent, DISABLED_OtherProcess) {
  const int line = std::atoi(std::getenv("TENON_TEST_LINE"));
  tenon::CudaEventHandle handle{};
  ASSERT_EQ(read(line, handle.data(), handle.size()), static_cast<ssize_t>(handle.size()));
  const tenon::CudaEvent event = tenon::CudaEvent::from_ipc_handle(handle, 0);
  EXPECT_FALSE(event.query());
  EXPECT_EQ(event.try_synchronize({.timeout = 0ns}).code(), tenon::Code::kWouldBlock);
  EXPECT_EQ(event.try_ipc_handle().code(), tenon::Code::kUnsupported);
  ASSERT_EQ(write(line, "n", 1), 1);
  event.synchronize();
  EXPECT_TRUE(event.query());
}

TEST(CudaEvent, OpenedInAnotherProcess) {
  NEEDS_DRIVER();
  tenon::CudaEvent event = tenon::CudaEvent::make({.interprocess = true});
  const tenon::CudaEventHandle handle = event.ipc_handle();
  EXPECT_EQ(event.ipc_handle(), handle);
  Busy busy;
  event.record(busy.stream());
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
  ASSERT_EQ(setenv("TENON_TEST_LINE", std::to_string(ends[1]).c_str(), 1), 0);
  const char* const words[] = {"cpp_test", "--gtest_filter=CudaEvent.DISABLED_OtherProcess",
                               "--gtest_also_run_disabled_tests", nullptr};
  const pid_t child = fork();
  if (child == 0) {
    execv("/proc/self/exe", const_cast<char* const*>(words));
    _exit(3);
  }
  close(ends[1]);
  EXPECT_EQ(send(ends[0], handle.data(), handle.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(handle.size()));
  char word = 0;
  EXPECT_EQ(read(ends[0], &word, 1), 1);
  busy.let_go();
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  close(ends[0]);
  unsetenv("TENON_TEST_LINE");
  EXPECT_TRUE(event.query());
}

}  // namespace

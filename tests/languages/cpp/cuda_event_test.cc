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
  EXPECT_CODE(kInvalidArgument, tenon::CudaEvent(none).try_record(nullptr));
  EXPECT_CODE(kInvalidArgument, none.try_wait(nullptr));
  EXPECT_CODE(kInvalidArgument, none.try_query());
  EXPECT_CODE(kInvalidArgument, none.try_synchronize());
  EXPECT_CODE(kInvalidArgument, none.try_ipc_handle());
  EXPECT_CODE(kInvalidArgument, tenon::CudaEvent::try_make({.device = -1}));
  if (tenon::try_cuda_available()) return;
  EXPECT_CODE(kUnsupported, tenon::CudaEvent::try_make());
  EXPECT_CODE(kUnsupported, tenon::CudaEvent::try_from_ipc_handle({}));
}

TEST(CudaEvent, AskedAndWaitedFor) {
  NEEDS_DRIVER();
  tenon::CudaEvent event = tenon::CudaEvent::make();
  EXPECT_TRUE(event.query());
  Busy busy;
  event.record(busy.stream());
  EXPECT_FALSE(event.query());
  EXPECT_CODE(kWouldBlock, event.try_synchronize({.timeout = 0ns}));
  EXPECT_CODE(kTimeout, event.try_synchronize({.timeout = 2ms}));
  EXPECT_CODE(kInvalidArgument, event.try_synchronize({.timeout = -1ns}));
  const tenon::Cancel cancel = tenon::Cancel::make();
  cancel.trigger();
  EXPECT_CODE(kCancelled, event.try_synchronize({.cancel = &cancel}));
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
  EXPECT_CODE(kInvalidArgument, tenon::CudaEvent::try_make({.device = 999}));
  EXPECT_CODE(kInvalidArgument, tenon::CudaEvent::make().try_ipc_handle());
  const tenon::CudaEvent event = tenon::CudaEvent::make({.interprocess = true});
  const tenon::CudaEventHandle handle = event.ipc_handle();
  const auto reason = kit::thrown_by<tenon::InvalidArgument>(
      [&] { (void)tenon::CudaEvent::from_ipc_handle(handle); });
  EXPECT_NE(reason.find("the process that made it cannot"), std::string::npos) << reason;
}

// The other process of the next test.
TEST(CudaEvent, DISABLED_OtherProcess) {
  const int line = std::atoi(std::getenv("TENON_TEST_LINE"));
  tenon::CudaEventHandle handle{};
  ASSERT_EQ(read(line, handle.data(), handle.size()), static_cast<ssize_t>(handle.size()));
  const tenon::CudaEvent event = tenon::CudaEvent::from_ipc_handle(handle, 0);
  EXPECT_FALSE(event.query());
  EXPECT_CODE(kWouldBlock, event.try_synchronize({.timeout = 0ns}));
  EXPECT_CODE(kUnsupported, event.try_ipc_handle());
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
  const cuda_kit::OtherProcess other_process("CudaEvent.DISABLED_OtherProcess");
  EXPECT_EQ(send(other_process.line(), handle.data(), handle.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(handle.size()));
  char word = 0;
  EXPECT_EQ(read(other_process.line(), &word, 1), 1);
  busy.let_go();
  other_process.expect_success();
  EXPECT_TRUE(event.query());
}

}  // namespace

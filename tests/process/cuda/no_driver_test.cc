// Tests a machine without CUDA's driver.
#include <gtest/gtest.h>

#include "cuda/available.h"
#include "cuda/driver.h"
#include "process/cuda/details.h"
#include "process/cuda/kit.h"

using cuda_test::says;
using tenon::Code;
using tenon::Status;

TEST(NoDriver, SaysSoEveryTime) {
  if (void* real = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); real != nullptr)
    GTEST_SKIP() << "this machine has a driver";
  for (int i = 0; i < 2; ++i) {
    const Status status = tenon::cuda::driver().status();
    EXPECT_EQ(status.code(), Code::kUnsupported);
    EXPECT_TRUE(says(status, "there is no CUDA driver here") && says(status, "libcuda.so.1"))
        << status.message();
    EXPECT_EQ(tenon::cuda::available().message(), status.message());
  }
  // No driver was started, so a forked child loses nothing and gets the same answer.
  const std::string here = tenon::cuda::available().message();
  const pid_t child =
      cuda_test::start([&] { EXPECT_EQ(tenon::cuda::available().message(), here); });
  EXPECT_EQ(cuda_test::wait_for(child), 0);
}

// Tests a build that found no header of CUDA's driver.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "cuda/available.h"
#include "cuda/host_register.h"

TEST(Absent, SaysWhatTheBuildLacked) {
  const tenon::Status status = tenon::cuda::available();
  EXPECT_EQ(status.code(), tenon::Code::kUnsupported);
  EXPECT_NE(status.message().find("this build of Tenon has no CUDA"), std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find("cuda.h"), std::string::npos) << status.message();
  std::byte byte{};
  EXPECT_EQ(tenon::cuda::register_host(&byte, 1, 0, false).code(), tenon::Code::kUnsupported);
  EXPECT_EQ(tenon::cuda::device_pointer(&byte, 0, false).status().code(),
            tenon::Code::kUnsupported);
  EXPECT_EQ(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), nullptr);
}

// Tests tenon_cuda_available in the shared library, as users load it.
#include <gtest/gtest.h>
#include <tenon/tenon.h>

#include <string>

#include "process/cuda/kit.h"

namespace {

using cuda_test::in_child;
using cuda_test::start;
using cuda_test::wait_for;

void expect_unsupported_once(const std::string& part, const char* error) {
  tenon_error* err = nullptr;
  EXPECT_EQ(tenon_cuda_available(&err), TENON_UNSUPPORTED);
  EXPECT_NE(std::string(tenon_error_message(err)).find(part), std::string::npos)
      << tenon_error_message(err);
  EXPECT_STREQ(tenon_error_detail(err, "cuda_error"), error);
  tenon_error_release(err);
}

void expect_unsupported(const std::string& part, const char* error) {
  EXPECT_EQ(tenon_cuda_available(nullptr), TENON_UNSUPPORTED);
  expect_unsupported_once(part, error);
}

TEST(Available, Yes) {
  in_child({}, [] {
    EXPECT_EQ(cuda_test::library(), nullptr);
    tenon_error* err = nullptr;
    EXPECT_EQ(tenon_cuda_available(&err), TENON_OK);
    EXPECT_EQ(err, nullptr);
    EXPECT_EQ(wait_for(start([] { expect_unsupported("child of fork", nullptr); })), 0);
    EXPECT_COUNT(0U, fake_cuda_faults, 0);
    EXPECT_EQ(tenon_cuda_available(&err), TENON_OK);
  });
}

TEST(Available, No) {
  in_child({"CUDA_VISIBLE_DEVICES="}, [] { expect_unsupported("CUDA_ERROR_NO_DEVICE", "100"); });
  if (!cuda_test::on_the_fake()) return;  // the rest is for the fake's devices
  in_child({"FAKE_CUDA_WORLD"}, [] { expect_unsupported("CUDA_ERROR_NO_DEVICE", "100"); });
  in_child({"FAKE_CUDA_DRIVER=11030"}, [] { expect_unsupported("11.4 or newer", nullptr); });
}

// A refusal that can pass is checked again on the next call: daemons that were not ready, a device
// that another process used, or memory that ran short.
TEST(Available, AfterARefusalThatPasses) {
  NEEDS_THE_FAKE("its calls do not fail when told to");
  const auto passes = [](const std::string& where, const char* error) {
    in_child({"FAKE_CUDA_FAIL=" + where + "=" + error}, [&] {
      expect_unsupported_once(where.substr(0, where.find(':')), error);
      tenon_error* err = nullptr;
      EXPECT_EQ(tenon_cuda_available(&err), TENON_OK) << error << ": " << tenon_error_message(err);
      EXPECT_COUNT(2U, fake_cuda_calls, "cuInit", getpid());
    });
  };
  for (const char* const error : {"802", "46", "2", "805", "807", "808", "809"}) {
    passes("cuInit:1", error);
    passes("cuDeviceGetCount:1", error);
  }
  // A lasting refusal is remembered: the second call reports it, though the fake would not fail
  // again.
  in_child({"FAKE_CUDA_FAIL=cuInit:1=803"},
           [] { expect_unsupported("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "803"); });
  in_child({"FAKE_CUDA_FAIL=cuDeviceGetCount:1=100"},
           [] { expect_unsupported("CUDA_ERROR_NO_DEVICE", "100"); });
}

TEST(Available, NothingElseOpensTheDriver) {
  in_child({}, [] {
    tenon_storage* storage = nullptr;
    ASSERT_EQ(tenon_storage_new(nullptr, 4096, &storage, nullptr), TENON_OK);
    tenon_storage_release(storage);
    EXPECT_EQ(cuda_test::library(), nullptr);
  });
}

}  // namespace

// Tests that the driver is found and started once, or refused for a lasting reason.
#include "cuda/driver.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "cuda/available.h"
#include "process/cuda/details.h"
#include "process/cuda/kit.h"

namespace tenon::cuda {
namespace {

using cuda_test::expected_version;
using cuda_test::in_child;
using cuda_test::on_the_fake;
using cuda_test::says;

// Returns the function's address as the driver itself reports it, by whichever form of
// cuGetProcAddress the driver has.
void* ask(const char* name, int version) {
  void* found = nullptr;
  void* const library = cuda_test::library();
  if (auto* v2 =
          reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(library, "cuGetProcAddress_v2"));
      v2 != nullptr) {
    EXPECT_EQ(v2(name, &found, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, nullptr), CUDA_SUCCESS)
        << name;
  } else {
    auto* v1 = reinterpret_cast<PFN_cuGetProcAddress_v11030>(dlsym(library, "cuGetProcAddress"));
    EXPECT_EQ(v1(name, &found, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM), CUDA_SUCCESS) << name;
  }
  return found;
}

TEST(Driver, HasEveryFunctionAtItsVersion) {
  in_child({}, [] {
    EXPECT_EQ(cuda_test::library(), nullptr);  // the driver is loaded on first use
    const Result<const Driver*> result = driver();
    ASSERT_TRUE(result.is_ok()) << result.status().message();
    const Driver* cu = Result<const Driver*>(result).value();
    if (on_the_fake()) EXPECT_EQ(cu->version, expected_version());
    EXPECT_GE(cu->version, kOldestDriver);
    EXPECT_TRUE(cu->path.ends_with("libcuda.so.1")) << cu->path;
#define FUNCTION(name, version, part)    \
  EXPECT_NE(cu->name, nullptr) << #name; \
  EXPECT_EQ(reinterpret_cast<void*>(cu->name), ask(#name, version)) << #name;
#include "cuda/functions.inc"
#undef FUNCTION
    for (size_t part = 0; part < kParts; ++part)
      EXPECT_TRUE(cu->has(static_cast<Part>(part)).is_ok());
    EXPECT_EQ(driver().value(), cu);
    EXPECT_TRUE(available().is_ok());
    CUcontext context = nullptr;
    EXPECT_EQ(cu->cuCtxGetCurrent(&context), CUDA_SUCCESS);
    EXPECT_EQ(context, nullptr);  // driver() makes no context
    EXPECT_COUNT(0U, fake_cuda_live, 0, 0);
    EXPECT_COUNT(1U, fake_cuda_calls, "cuInit", getpid());
    EXPECT_COUNT(0U, fake_cuda_faults, 0);
  });
}

TEST(Driver, IsStartedOnceByManyThreads) {
  in_child({"FAKE_CUDA_LATENCY=cuInit=50000"}, [] {
    std::vector<const Driver*> got(8, nullptr);
    std::vector<std::thread> threads;
    for (const Driver*& each : got) threads.emplace_back([&each] { each = driver().value(); });
    for (std::thread& thread : threads) thread.join();
    for (const Driver* each : got) EXPECT_EQ(each, got[0]);
    EXPECT_NE(got[0], nullptr);
    EXPECT_COUNT(1U, fake_cuda_calls, "cuInit", getpid());
  });
}

// Asks twice: the refusal must be remembered, because the fake would not fail a second time.
void expect_refused(const std::vector<std::string>& environment,
                    const std::vector<std::string>& parts, const std::string& error) {
  in_child(environment, [&] {
    for (int i = 0; i < 2; ++i) {
      const Status status = available();
      EXPECT_EQ(status.code(), Code::kUnsupported);
      for (const std::string& part : parts) EXPECT_TRUE(says(status, part)) << status.message();
      EXPECT_EQ(status.detail("cuda_error"), error);
      EXPECT_TRUE(status.detail("path").ends_with("libcuda.so.1"));
      EXPECT_NE(status.detail("driver_version"), "");
      EXPECT_EQ(status.detail("limit"), "");
    }
  });
}

TEST(Driver, AnOlderOneIsRefusedByVersion) {
  NEEDS_THE_FAKE("it is of one version");
  expect_refused({"FAKE_CUDA_DRIVER=11030"}, {"libcuda.so.1 is of 11.3", "11.4 or newer"}, "");
}

TEST(Driver, ItsOwnRefusalIsKept) {
  NEEDS_THE_FAKE("its calls do not fail when told to");
  expect_refused({"FAKE_CUDA_FAIL=cuInit:1=803"},
                 {"cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803: "}, "803");
  expect_refused({"FAKE_CUDA_FAIL=cuInit:1=201"}, {"cuInit: CUDA_ERROR_INVALID_CONTEXT"}, "201");
  expect_refused({"FAKE_CUDA_FAIL=cuDeviceGetCount:1=999"},
                 {"cuDeviceGetCount: CUDA_ERROR_UNKNOWN"}, "999");
}

// The driver is present, but the process had no fd left to load it with.
TEST(Driver, OneThatCouldNotBeLoadedIsAskedForAgain) {
  in_child({}, [] {
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit none{0, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    const Status refused = available();
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(refused.code(), Code::kUnsupported);
    EXPECT_TRUE(says(refused, "libcuda.so.1")) << refused.message();
    EXPECT_TRUE(available().is_ok()) << available().message();
  });
}

// The threads that wait for the first thread's answer must each try again when it is a refusal.
TEST(Driver, ManyThreadsAskAgainAfterARefusalThatPasses) {
  NEEDS_THE_FAKE("its calls do not fail when told to");
  in_child({"FAKE_CUDA_FAIL=cuInit:1=802", "FAKE_CUDA_LATENCY=cuDeviceGetCount=50000"}, [] {
    std::atomic<int> refused{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&refused] { refused += driver().is_ok() ? 0 : 1; });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(refused, 1);
    EXPECT_TRUE(available().is_ok());
    EXPECT_COUNT(2U, fake_cuda_calls, "cuInit", getpid());
  });
}

// An MPS server restarts, or has no room for another client. Both can pass.
TEST(Driver, WhatMpsRefusesForNowIsAskedAgain) {
  NEEDS_THE_FAKE("its calls do not fail when told to");
  const auto passes = [](const char* error, const char* name) {
    in_child({std::string("FAKE_CUDA_FAIL=cuInit:1=") + error}, [&] {
      const Status status = available();
      EXPECT_EQ(status.code(), Code::kUnsupported);
      EXPECT_EQ(status.detail("cuda_error"), error);
      EXPECT_EQ(status.detail("cuda_error_name"), name);
      EXPECT_TRUE(available().is_ok()) << name;
    });
  };
  passes("805", "CUDA_ERROR_MPS_CONNECTION_FAILED");
  passes("807", "CUDA_ERROR_MPS_SERVER_NOT_READY");
  passes("808", "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED");
  passes("809", "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED");
  // "To continue using CUDA, the process must be terminated and relaunched."
  expect_refused({"FAKE_CUDA_FAIL=cuInit:1=810"}, {"CUDA_ERROR_MPS_CLIENT_TERMINATED"}, "810");
}

TEST(Driver, WithoutADeviceIsRefused) {
  if (on_the_fake())
    expect_refused({"FAKE_CUDA_WORLD"}, {"CUDA cannot be used here: cuInit: CUDA_ERROR_NO_DEVICE"},
                   "100");
  expect_refused({"CUDA_VISIBLE_DEVICES="}, {"CUDA_ERROR_NO_DEVICE"}, "100");
}

}  // namespace
}  // namespace tenon::cuda

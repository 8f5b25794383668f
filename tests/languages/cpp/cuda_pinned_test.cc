// Tests of shared host memory that a device reaches, through the C++ wrapper. tests/process/cuda
// also runs these tests with the fake driver, and sets TENON_TEST_HAS_CUDA.
#include "cuda_kit.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace {

using cuda_kit::driver;

constexpr std::size_t kNbytes = 4096;

TEST(CudaPinned, WithoutADriver) {
  const tenon::Storage none;
  EXPECT_CODE(kInvalidArgument, none.try_pin());
  EXPECT_FALSE(none.is_pinned());
  EXPECT_CODE(kUnsupported, tenon::Storage::make(64, {.private_memory = true}).try_pin());
  const tenon::Storage storage = tenon::Storage::make(64);
  EXPECT_CODE(kInvalidArgument, storage.try_pin(-1));
  EXPECT_FALSE(storage.is_pinned());
  if (tenon::try_cuda_available()) return;
  EXPECT_CODE(kUnsupported, storage.try_pin());
  EXPECT_THROW((void)storage.pin(), tenon::Unsupported);
}

TEST(CudaPinned, WhatTheDeviceWritesIsThere) {
  if (std::getenv("TENON_TEST_HAS_CUDA") == nullptr)
    GTEST_SKIP() << "there is no driver but where tests/process/cuda says so";
  const tenon::Storage storage = tenon::Storage::make(kNbytes, {.isolated = true});
  void* const address = storage.pin();
  EXPECT_EQ(storage.pin(0), address);
  EXPECT_TRUE(storage.is_pinned());
  void* context = nullptr;
  std::uint64_t memory = 0;
  EXPECT_EQ(driver<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, 0), 0);
  EXPECT_EQ(driver<int(void*)>("cuCtxSetCurrent")(context), 0);
  EXPECT_EQ(driver<int(std::uint64_t*, std::size_t)>("cuMemAlloc_v2")(&memory, kNbytes), 0);
  EXPECT_EQ(
      driver<int(std::uint64_t, unsigned char, std::size_t)>("cuMemsetD8_v2")(memory, 7, kNbytes),
      0);
  EXPECT_EQ(driver<int(void*, std::uint64_t, std::size_t, void*)>("cuMemcpyDtoHAsync_v2")(
                address, memory, kNbytes, nullptr),
            0);
  EXPECT_EQ(driver<int(void*)>("cuStreamSynchronize")(nullptr), 0);
  EXPECT_EQ(driver<int(std::uint64_t)>("cuMemFree_v2")(memory), 0);
  const std::span<const std::byte> bytes = storage.bytes();
  EXPECT_TRUE(
      std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{7}; }));
}

}  // namespace

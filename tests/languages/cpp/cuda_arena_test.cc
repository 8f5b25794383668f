// Tests of device arenas through the C++ wrapper. Storages of an arena go over a connection in the
// named streams, and their blocks come back. tests/process/cuda also runs these tests with the fake
// driver, and sets TENON_TEST_HAS_CUDA.
#include "cuda_kit.h"
#include "support/wait_until.h"

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>

namespace {

using cuda_kit::address_of;
using cuda_kit::Busy;
using cuda_kit::driver;

constexpr std::uint64_t kCapacity = 2 << 20;

tenon::Tensor tensor_of(const tenon::Storage& storage) {
  return tenon::Tensor::over(storage, {static_cast<std::int64_t>(storage.nbytes())},
                             tenon::kDtypeOf<std::uint8_t>);
}

TEST(CudaArena, WithoutADriver) {
  tenon::CudaArena none;
  EXPECT_FALSE(none);
  EXPECT_CODE(kInvalidArgument, none.try_allocate(1));
  EXPECT_CODE(kInvalidArgument, none.try_stats());
  EXPECT_CODE(kInvalidArgument, tenon::Connection().try_set_stream(0, nullptr));
  EXPECT_CODE(kInvalidArgument,
              tenon::CudaArena::try_make({.device = -1, .capacity_nbytes = kCapacity}));
  if (tenon::try_cuda_available()) return;
  EXPECT_CODE(kUnsupported, tenon::CudaArena::try_make({.capacity_nbytes = kCapacity}));
}

TEST(CudaArena, AFullOneSaysSo) {
  NEEDS_DRIVER();
  tenon::CudaArena arena = tenon::CudaArena::make(
      {.transport = tenon::CudaTransport::kIpc, .capacity_nbytes = kCapacity});
  const tenon::CudaArena same = arena;
  EXPECT_EQ(arena.allocate(0).nbytes(), 0U);
  tenon::Storage all = arena.allocate(kCapacity);
  EXPECT_EQ(all.device(), (tenon::Device{2, 0}));
  const tenon::CudaArenaStats full = same.stats();
  EXPECT_EQ(full.device, 0);
  EXPECT_EQ(full.transport, static_cast<tenon_cuda_transport>(tenon::CudaTransport::kIpc));
  EXPECT_EQ(full.bytes_capacity, kCapacity);
  EXPECT_EQ(full.bytes_used, kCapacity);
  EXPECT_EQ(full.bytes_free, 0U);
  EXPECT_EQ(full.blocks_used, 1U);
  try {
    (void)arena.allocate(256);
    FAIL() << "it did not throw";
  } catch (const tenon::ResourceExhausted& error) {
    EXPECT_EQ(error.detail("limit"), "arena");
    EXPECT_EQ(error.detail("limit_value"), std::to_string(kCapacity));
    EXPECT_EQ(error.detail("wanted"), "256");
    EXPECT_EQ(error.detail("in_use"), std::to_string(kCapacity));
  }
  const tenon::Result<tenon::Storage> late =
      arena.try_allocate(256, {.timeout = std::chrono::milliseconds(2)});
  EXPECT_CODE(kTimeout, late);
  EXPECT_EQ(late.error().detail("limit"), "arena");
  arena.close();
  all.close();
  EXPECT_EQ(same.stats().bytes_used, 0U);
  EXPECT_EQ(same.stats().bytes_peak, kCapacity);
  EXPECT_EQ(same.stats().bytes_largest_free, kCapacity);
}

TEST(CudaArena, WhatIsRefused) {
  NEEDS_DRIVER();
  EXPECT_CODE(kInvalidArgument, tenon::CudaArena::try_make({}));
  EXPECT_CODE(kInvalidArgument,
              tenon::CudaArena::try_make({.device = 999, .capacity_nbytes = kCapacity}));
  EXPECT_CODE(kInvalidArgument,
              tenon::CudaArena::try_make(
                  {.transport = tenon::CudaTransport::kPool, .capacity_nbytes = kCapacity}));
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
  {
    tenon::Connection connection = tenon::Connection::make(ends[0]);
    EXPECT_CODE(kInvalidArgument, connection.try_set_stream(-1, nullptr));
  }
  close(ends[0]);
  close(ends[1]);
}

// Checks how much of other processes' memory this process has open. Only the fake driver counts
// that.
void expect_opened(std::uint64_t expected) {
  if (cuda_kit::on_the_fake())
    EXPECT_EQ(driver<std::uint64_t(unsigned, int)>("fake_cuda_live")(3, getpid()), expected);
}

// The other process of the next test, which runs this program again. A forked child could not use
// CUDA. Its copy is queued before the sender's work may begin, and only the order between the two
// named streams holds the copy back.
TEST(CudaArena, DISABLED_Receiver) {
  const int line = std::atoi(std::getenv("TENON_TEST_LINE"));
  Busy busy;
  busy.let_go();
  tenon::Connection connection = tenon::Connection::make(line, {.cuda_keep_open = true});
  connection.set_stream(0, busy.stream());
  {
    const tenon::Message message = connection.recv();
    unsigned char* const bytes = cuda_kit::new_host_room(2);
    const auto copy = driver<int(void*, std::uint64_t, std::size_t, void*)>("cuMemcpyDtoHAsync_v2");
    EXPECT_EQ(copy(&bytes[0], address_of(message["one"]) + 999, 1, busy.stream()), 0);
    EXPECT_EQ(copy(&bytes[1], address_of(message["other"]), 1, busy.stream()), 0);
    connection.send(tenon::Message::make());
    EXPECT_EQ(driver<int(void*)>("cuStreamSynchronize")(busy.stream()), 0);
    EXPECT_EQ(bytes[0], 7);
    EXPECT_EQ(bytes[1], 8);
    expect_opened(1);
  }
  expect_opened(1);
  EXPECT_TRUE(tenon::test::wait_until([] { return tenon::cuda_collect() == 0; }, kit::kPatience));
  expect_opened(0);
}

TEST(CudaArena, SentToAnotherProcess) {
  NEEDS_DRIVER();
  tenon::CudaArena arena = tenon::CudaArena::make({.capacity_nbytes = kCapacity});
  cuda_kit::OtherProcess other_process("CudaArena.DISABLED_Receiver");
  Busy busy;
  {
    tenon::Connection connection =
        tenon::Connection::make(other_process.take_line(), {.adopt_socket = true});
    connection.set_stream(0, busy.stream());
    {
      const tenon::Tensor one = tensor_of(arena.allocate(1000));
      const tenon::Tensor other = tensor_of(arena.allocate(1000, {.timeout = kit::kPatience}));
      const auto fill =
          driver<int(std::uint64_t, unsigned char, std::size_t, void*)>("cuMemsetD8Async");
      EXPECT_EQ(fill(address_of(one), 7, 1000, busy.stream()), 0);
      EXPECT_EQ(fill(address_of(other), 8, 1000, busy.stream()), 0);
      connection.send(tenon::Message::of({{"one", one}, {"other", other}}));
    }
    (void)connection.recv();
    EXPECT_EQ(arena.stats().blocks_used, 2U);
    const tenon::Result<tenon::Storage> full = arena.try_allocate(kCapacity);
    EXPECT_CODE(kResourceExhausted, full);
    EXPECT_NE(std::string(full.error().detail("holders").value_or("")).find("2 leases"),
              std::string::npos)
        << full.error().what();
    busy.let_go();
    other_process.expect_success();
    EXPECT_TRUE(
        tenon::test::wait_until([&] { return arena.stats().bytes_used == 0; }, kit::kPatience));
  }
  arena.close();
  EXPECT_EQ(cuda_kit::left(), 0U);
}

}  // namespace

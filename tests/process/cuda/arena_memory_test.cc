// Tests the memory of an arena on a device: how much the arena takes, how the memory travels, and
// which answers a forked child gets.
#include <atomic>
#include <thread>

#include "details.h"
#include "device/arena.h"
#include "modern_kit.h"
#include "support/must.h"

namespace cuda_test {
namespace {

constexpr uint64_t kBlock = uint64_t{2} << 20;

Result<Ref<CudaArena>> try_arena(uint64_t nbytes, CudaTransport transport = CudaTransport::kNone) {
  return CudaArena::create({.device = 0, .transport = transport, .capacity_nbytes = nbytes});
}

// The arena allocates whole pieces. A smaller cudaMalloc shares its 2 MiB with its neighbours, and
// a receiver of its handle would reach them.
TEST(CudaArenaMemory, AllThatIsTakenCanBeUsed) {
  in_child({}, [] {
    use_device();
    for (const CudaTransport transport : {CudaTransport::kIpc, CudaTransport::kFd}) {
      for (const uint64_t wanted : {uint64_t{1}, kBlock / 2, kBlock, kBlock + 1}) {
        const Ref<CudaArena> arena = arena_of(wanted, transport);
        ASSERT_TRUE(arena);
        const uint64_t all = wanted <= kBlock ? kBlock : 2 * kBlock;
        EXPECT_EQ(arena->stats().capacity_nbytes, all) << wanted;
        EXPECT_EQ(arena->stats().free_nbytes, all);
        EXPECT_EQ(arena->stats().largest_free_nbytes, all);
        Ref<Storage> whole = must(arena->allocate(all, {.timeout_ns = 0}));
        const CUdeviceptr first = pointer_of(whole);
        fill(first, 7, all);
        EXPECT_EQ(byte_at(first + all - 1), 7);
        cuda::Allocation taken = must(cuda::find_allocation(first));
        EXPECT_GE(taken.nbytes, all);
        EXPECT_EQ(arena->allocate(all + 1, {.timeout_ns = 0}).status().code(),
                  Code::kResourceExhausted);
      }
    }
    EXPECT_EQ(try_arena(UINT64_MAX - kBlock / 2).status().code(), Code::kInvalidArgument);
    expect_nothing_left();
  });
}

// The driver may say that memory is IPC-capable and refuse its handle all the same.
TEST(CudaArenaMemory, GoesByFdWhereIpcHandlesAreRefused) {
  NEEDS_THE_FAKE("its calls do not fail when told to");
  in_child({"FAKE_CUDA_FAIL=cuIpcGetMemHandle:1+=801"}, [] {
    {
      const Ref<CudaArena> arena = arena_of(kBlock);
      ASSERT_TRUE(arena);
      EXPECT_EQ(arena->stats().transport, CudaTransport::kFd);
      EXPECT_EQ(arena->stats().capacity_nbytes, kBlock);
      const Status asked_for = try_arena(kBlock, CudaTransport::kIpc).status();
      EXPECT_EQ(asked_for.code(), Code::kUnsupported) << asked_for.message();
      EXPECT_EQ(asked_for.detail("cuda_error"), "801");
    }
    expect_nothing_left();
  });
  // The arena reports every other failure, and does not try another transport.
  in_child({"FAKE_CUDA_FAIL=cuIpcGetMemHandle:1=700"}, [] {
    const Status failed = try_arena(kBlock).status();
    EXPECT_EQ(failed.code(), Code::kIo) << failed.message();
    expect_nothing_left();
  });
}

TEST(CudaArenaMemory, WithoutAFabricIsUnsupported) {
  NEEDS_THE_FAKE("it has the fabric that it is told to have");
  const auto refused = [](const std::vector<std::string>& environment) {
    in_child(environment, [] {
      const Status status = try_arena(kBlock, CudaTransport::kFabric).status();
      EXPECT_EQ(status.code(), Code::kUnsupported) << status.message();
      EXPECT_NE(status.detail("cuda_error"), "") << status.message();
      EXPECT_NE(status.detail("cuda_error_name"), "");
      expect_nothing_left();
    });
  };
  refused({"FAKE_CUDA_FABRIC=0"});
  if (expected_version() >= 12020) refused({"FAKE_CUDA_FABRIC=1", "FAKE_CUDA_DRIVER=12020"});
  refused({"FAKE_CUDA_FABRIC=1", "FAKE_CUDA_FAIL=cuMemCreate:1=800"});
}

// A fork while other threads query the arena may leave the child a lock that no thread will unlock.
TEST(CudaArenaMemory, AChildOfForkMayAskWhatItHolds) {
  in_child({}, [] {
    use_device();
    const Ref<CudaArena> arena = arena_of(kBlock);
    Ref<Storage> storage = must(arena->allocate(kBlock / 2, {.timeout_ns = 0}));
    std::atomic<bool> over{false};
    std::atomic<int> begun{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] {
        (void)arena->stats();
        ++begun;
        while (!over.load(std::memory_order_relaxed)) (void)arena->stats();
      });
    }
    // A starting thread allocates memory, and a sanitizer's allocator does not work in a child that
    // was forked while another thread was in the allocator.
    while (begun < 2) std::this_thread::yield();
    for (int i = 0; i < 100 && !::testing::Test::HasFailure(); ++i) {
      const pid_t child = start([&] {
        alarm(20);
        const CudaArenaStats stats = arena->stats();
        EXPECT_EQ(stats.capacity_nbytes, kBlock);
        EXPECT_EQ(stats.transport, CudaTransport::kIpc);
        EXPECT_GE(stats.used_nbytes, kBlock / 2);
        EXPECT_EQ(stats.used_nbytes + stats.free_nbytes, kBlock);
        EXPECT_EQ(share_cuda(storage, nullptr, {}).status().code(), Code::kUnsupported);
      });
      EXPECT_EQ(wait_for(child), 0);
    }
    over = true;
    for (std::thread& thread : threads) thread.join();
  });
}

}  // namespace
}  // namespace cuda_test

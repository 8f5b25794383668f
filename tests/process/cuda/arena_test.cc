// Tests arenas of device memory: one handle serves many storages, and blocks come back.
#include <thread>

#include "connected_kit.h"
#include "device/arena.h"
#include "gate.h"
#include "memory/ledger.h"

namespace cuda_test {
namespace {

Ref<Storage> allocate(CudaArena& arena, uint64_t nbytes, const os::Wait& wait = {.timeout_ns = 0}) {
  Result<Ref<Storage>> made = arena.allocate(nbytes, wait);
  EXPECT_TRUE(made.is_ok()) << made.status().message();
  return made.is_ok() ? std::move(made).value() : Ref<Storage>();
}
bool comes_back(const CudaArena& arena) {
  return wait_until([&] {
    (void)collect_cuda();
    return arena.stats().used_nbytes == 0;
  });
}

TEST(CudaArena, BlocksAreAlignedAndComeBack) {
  in_child({}, [] {
    use_device();
    {
      const Ref<CudaArena> arena = arena_of(2 << 20);
      EXPECT_EQ(arena->stats().transport, CudaTransport::kIpc);
      std::vector<Ref<Storage>> storages;
      for (uint64_t i = 1; i <= 100; ++i) {
        storages.push_back(allocate(*arena, i * 7));
        EXPECT_EQ(pointer_of(storages.back()) % 256, 0U);
        fill(pointer_of(storages.back()), static_cast<unsigned char>(i), i * 7);
      }
      for (uint64_t i = 1; i <= 100; ++i) {
        EXPECT_EQ(byte_at(pointer_of(storages[i - 1])), static_cast<int>(i));
        EXPECT_EQ(byte_at(pointer_of(storages[i - 1]) + i * 7 - 1), static_cast<int>(i));
      }
      EXPECT_EQ(arena->stats().used_blocks, 100U);
      EXPECT_EQ(allocate(*arena, 0)->nbytes(), 0U);
      EXPECT_EQ(arena->stats().used_blocks, 100U);
      const uint64_t peak = arena->stats().used_nbytes;
      storages.clear();
      EXPECT_EQ(arena->stats().used_nbytes, 0U);
      EXPECT_EQ(arena->stats().peak_nbytes, peak);
      EXPECT_EQ(arena->stats().largest_free_nbytes, uint64_t{2} << 20);
      EXPECT_COUNT(1U, fake_cuda_live, FAKE_CUDA_ALLOCATION, getpid());
      // A size that is neither a power of two nor a size class can be used in full.
      const Ref<CudaArena> odd = arena_of(uint64_t{34} << 20);
      {
        const Ref<Storage> all = allocate(*odd, uint64_t{34} << 20);
        EXPECT_EQ(all->nbytes(), uint64_t{34} << 20);
        EXPECT_EQ(odd->stats().free_nbytes, 0U);
        EXPECT_EQ(odd->stats().largest_free_nbytes, 0U);
        EXPECT_EQ(odd->allocate(1, {.timeout_ns = 0}).status().code(), Code::kResourceExhausted);
      }
      EXPECT_EQ(allocate(*odd, (uint64_t{34} << 20) - 256)->nbytes(), (uint64_t{34} << 20) - 256);
    }
    expect_nothing_left();
  });
}

// In whatever order storages are allocated and given back, no two overlap, and at the end all
// memory is free again.
TEST(CudaArena, NoTwoOverlap) {
  in_child({}, [] {
    const Ref<CudaArena> arena = arena_of(2 << 20);
    std::vector<Ref<Storage>> held;
    uint64_t random = 12345;
    const auto next = [&](uint64_t below) {
      random = random * 6364136223846793005U + 1442695040888963407U;
      return (random >> 33) % below;
    };
    int full = 0;
    for (int i = 0; i < 20'000; ++i) {
      if (!held.empty() && next(2) == 0) {
        std::swap(held[next(held.size())], held.back());
        held.pop_back();
        continue;
      }
      Result<Ref<Storage>> made =
          arena->allocate(1 + next(next(8) == 0 ? 200'000 : 5'000), {.timeout_ns = 0});
      if (!made.is_ok()) {
        ++full;
        held.clear();
        continue;
      }
      const CUdeviceptr begin = pointer_of(made.value());
      const CUdeviceptr end = begin + made.value()->nbytes();
      for (const Ref<Storage>& each : held) {
        ASSERT_TRUE(end <= pointer_of(each) || pointer_of(each) + each->nbytes() <= begin);
      }
      held.push_back(std::move(made).value());
    }
    EXPECT_GT(full, 0);
    held.clear();
    EXPECT_EQ(arena->stats().used_nbytes, 0U);
  });
}

// Lends 20,000 tensors of 64 MiB in total with one handle, one open and one event. A second message
// needs neither a new handle nor a new open.
void many_tensors(CudaTransport transport) {
  static constexpr uint64_t kMany = 20'000;
  in_two_connected(
      [transport](Line& line, Connection& connection) {
        use_device();
        const Ref<CudaArena> arena = arena_of(uint64_t{64} << 20, transport);
        ASSERT_TRUE(arena);
        EXPECT_EQ(arena->stats().transport, transport);
        std::vector<Ref<Storage>> storages;
        for (uint64_t i = 0; i < kMany; ++i) storages.push_back(allocate(*arena, 3072));
        fill(pointer_of(storages[0]), 3, 1);
        fill(pointer_of(storages[kMany - 1]), 4, 1);
        send(connection, storages);
        send(connection, storages);
        EXPECT_COUNT(
            1U, fake_cuda_calls,
            transport == CudaTransport::kIpc ? "cuIpcGetMemHandle" : "cuMemExportToShareableHandle",
            getpid());
        storages.clear();
        line.expect('o');
        (void)collect_cuda();
        EXPECT_EQ(arena->stats().used_blocks, kMany);
        line.say('r');
        EXPECT_TRUE(comes_back(*arena));
        line.expect('d');
      },
      [transport](Line& line, Connection& connection) {
        use_device();
        std::vector<Ref<Storage>> first = receive(connection);
        std::vector<Ref<Storage>> second = receive(connection);
        ASSERT_EQ(first.size(), kMany);
        EXPECT_COUNT(1U, fake_cuda_calls,
                     transport == CudaTransport::kIpc ? "cuIpcOpenMemHandle"
                                                      : "cuMemImportFromShareableHandle",
                     getpid());
        EXPECT_EQ(first[7].get(), second[7].get());
        EXPECT_EQ(byte_at(pointer_of(first[0])), 3);
        EXPECT_EQ(byte_at(pointer_of(first[kMany - 1])), 4);
        line.ask('o', 'r');
        first.clear();
        release_all(&second);
        line.say('d');
      });
}
TEST(CudaArena, ManyTensorsByOneIpcHandle) { many_tensors(CudaTransport::kIpc); }
TEST(CudaArena, ManyTensorsByOneFd) { many_tensors(CudaTransport::kFd); }

// In PyTorch's protocol each handle has its own counter, and all handles lead to one allocation.
TEST(CudaArena, LentByHandlesToo) {
  in_two(
      {},
      [](Line& line) {
        use_device();
        const Ref<CudaArena> arena = arena_of(2 << 20);
        for (unsigned char i = 1; i <= 10; ++i) {
          const Ref<Storage> storage = allocate(*arena, 1000);
          fill(pointer_of(storage), i, 1000);
          const CudaHandle handle = share(storage);
          EXPECT_EQ(handle.transport, CudaTransport::kIpc);
          line.send(handle);
        }
        EXPECT_EQ(arena->stats().used_blocks, 10U);
        EXPECT_COUNT(1U, fake_cuda_calls, "cuIpcGetMemHandle", getpid());
        line.ask('r', 'd');
        EXPECT_TRUE(comes_back(*arena));
      },
      [](Line& line) {
        use_device();
        {
          std::vector<Ref<Storage>> storages;
          for (int i = 1; i <= 10; ++i) {
            storages.push_back(open(line.receive()));
            EXPECT_EQ(byte_at(pointer_of(storages.back()) + 999), i);
          }
          EXPECT_COUNT(1U, fake_cuda_calls, "cuIpcOpenMemHandle", getpid());
          line.expect('r');
        }
        EXPECT_TRUE(wait_until([] { return collect_cuda() == 0; }));
        line.say('d');
      });
}

TEST(CudaArena, WhatFitsIsFound) {
  in_child({}, [] {
    use_device();
    const uint64_t capacity = uint64_t{26} << 20;
    const Ref<CudaArena> arena = arena_of(capacity);
    ASSERT_TRUE(arena);
    for (const uint64_t nbytes : {capacity, capacity - 1, capacity / 2 + 1, capacity / 3,
                                  uint64_t{65'537}, uint64_t{1025}}) {
      const uint64_t block = (nbytes + 255) / 256 * 256;
      std::vector<Ref<Storage>> held;
      while (held.size() < 100 && (held.size() + 1) * block <= capacity)
        held.push_back(allocate(*arena, nbytes));
      EXPECT_EQ(arena->stats().used_nbytes, held.size() * block);
    }
    EXPECT_EQ(arena->stats().used_nbytes, 0U);
  });
}

// When the device is full, the library first closes other processes' memory that it keeps open only
// for the next handle.
TEST(CudaArena, IsTriedOnceMoreWhenTheDeviceIsFull) {
  NEEDS_THE_FAKE("its calls do not fail when told to");
  in_child({}, [] {
    use_device();
    for (const auto& [transport, function] : {std::pair(CudaTransport::kIpc, "cuMemAlloc"),
                                              std::pair(CudaTransport::kFd, "cuMemCreate")}) {
      fail_driver(function, 1, CUDA_ERROR_OUT_OF_MEMORY);
      const Result<Ref<CudaArena>> second =
          CudaArena::create({.transport = transport, .capacity_nbytes = 2 << 20});
      EXPECT_TRUE(second.is_ok()) << second.status().message();
      fail_driver(function, 0, CUDA_ERROR_OUT_OF_MEMORY);
      const Status full =
          CudaArena::create({.transport = transport, .capacity_nbytes = 4 << 20}).status();
      fail_driver(function, 0, CUDA_SUCCESS);
      EXPECT_EQ(full.code(), Code::kResourceExhausted);
      for (const char* part : {"4194304 bytes", "CUDA_ERROR_OUT_OF_MEMORY", "are free",
                               "hold 2097152", "0 of them in use", "release"}) {
        EXPECT_NE(full.message().find(part), std::string::npos)
            << part << " is not in " << full.message();
      }
    }
  });
}

TEST(CudaArena, AFullOneSaysWhoHasIt) {
  in_two_connected(
      [](Line& line, Connection& connection) {
        use_device();
        const Ref<CudaArena> arena = arena_of(2 << 20);
        send(connection, {allocate(*arena, 2 << 20)});
        line.expect('o');
        const Status full = arena->allocate(256, {.timeout_ns = 0}).status();
        EXPECT_EQ(full.code(), Code::kResourceExhausted);
        ASSERT_NE(full.info(), nullptr);
        std::string holders;
        for (const Detail& each : full.info()->details) {
          if (each.key == "holders") holders = each.value;
        }
        EXPECT_NE(holders.find("1 lease"), std::string::npos) << holders;
        EXPECT_EQ(arena->allocate((2 << 20) + 1, {.timeout_ns = -1}).status().code(),
                  Code::kResourceExhausted);
        EXPECT_EQ(arena->allocate(UINT64_MAX, {.timeout_ns = -1}).status().code(),
                  Code::kResourceExhausted);
        EXPECT_EQ(arena->allocate(256, {.timeout_ns = 5'000'000}).status().code(), Code::kTimeout);
        line.say('r');
        const Ref<Storage> next = allocate(*arena, 1 << 20, {.timeout_ns = 10'000'000'000});
        EXPECT_TRUE(next);
        line.expect('d');
      },
      [](Line& line, Connection& connection) {
        use_device();
        std::vector<Ref<Storage>> storages = receive(connection);
        line.ask('o', 'r');
        release_all(&storages);
        line.say('d');
      });
}

// A caller that waits for space gets the memory of a borrower that was killed.
TEST(CudaArena, AKilledBorrowerMakesRoom) {
  in_two_connected(
      [](Line& line, Connection& connection) {
        use_device();
        const Ref<CudaArena> arena = arena_of(2 << 20, CudaTransport::kFd);
        const uint64_t all = arena->stats().capacity_nbytes;
        send(connection, {allocate(*arena, all)});
        line.expect('o');
        line.say('k');
        EXPECT_TRUE(allocate(*arena, all, {.timeout_ns = 10'000'000'000}));
      },
      [](Line& line, Connection& connection) {
        use_device();
        const std::vector<Ref<Storage>> storages = receive(connection);
        line.ask('o', 'k');
        raise(SIGKILL);
      });
}

// A block stays occupied until the stream that used it has passed.
TEST(CudaArena, AStreamKeepsABlock) {
  in_child({}, [] {
    use_device();
    const Ref<CudaArena> arena = arena_of(2 << 20);
    Ref<Storage> storage = allocate(*arena, 2 << 20);
    ASSERT_TRUE(record_stream(*storage, nullptr).is_ok());
    Gate gate;
    gate.stand_in(nullptr);
    storage = nullptr;
    EXPECT_EQ(arena->allocate(256, {.timeout_ns = 2'000'000}).status().code(), Code::kTimeout);
    std::thread later([&] {
      usleep(20000);
      gate.open();
    });
    EXPECT_TRUE(allocate(*arena, 256, {.timeout_ns = 10'000'000'000}));
    later.join();
  });
}

// The driver frees memory only when the device has finished its work. That work may wait for the
// message that is being sent.
TEST(CudaArena, ASendDoesNotWaitUntilTheMemoryOfAnEndedArenaIsFree) {
  in_child({}, [] {
    alarm(kSeconds);
    use_device();
    Memory other(4096);
    {
      Socket ends;
      const auto [here, there] = ends.connect_both();
      const Ref<CudaArena> arena = arena_of(2 << 20);
      send(*here, {allocate(*arena, 256)});
    }
    // Now only the lease of an unread message keeps the arena, and the send is the first call to
    // notice that the lease has ended.
    Socket ends;
    const auto [here, there] = ends.connect_both();
    const CUstream stream = new_stream();
    Gate gate;
    gate.stand_in(stream);
    (void)memory::settle_ledgers();
    send(*here, {wrap(&other)});
    EXPECT_COUNT(2U, fake_cuda_live, FAKE_CUDA_ALLOCATION, getpid());
    EXPECT_EQ(driver().cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    gate.open();
    EXPECT_EQ(driver().cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(collect_cuda(), 0U);
    EXPECT_COUNT(1U, fake_cuda_live, FAKE_CUDA_ALLOCATION, getpid());
    EXPECT_EQ(receive(*there).size(), 1U);
    EXPECT_TRUE(wait_until([&] { return collect_cuda() == 0 && other.freed == 1; }));
  });
}

TEST(CudaArena, WhatCannotBeIsRefused) {
  in_child({}, [] {
    EXPECT_EQ(
        CudaArena::create({.device = 0, .transport = CudaTransport::kPool, .capacity_nbytes = 256})
            .status()
            .code(),
        Code::kInvalidArgument);
    EXPECT_EQ(CudaArena::create({.device = 0}).status().code(), Code::kInvalidArgument);
    EXPECT_EQ(CudaArena::create({.device = 99, .capacity_nbytes = 256}).status().code(),
              Code::kInvalidArgument);
    EXPECT_EQ(CudaArena::create({.device = 0, .capacity_nbytes = UINT64_MAX}).status().code(),
              Code::kInvalidArgument);
    EXPECT_FALSE(CudaArena::create({.device = 0, .capacity_nbytes = uint64_t{1} << 60}).is_ok());
    EXPECT_FALSE(
        CudaArena::create(
            {.device = 0, .transport = CudaTransport::kFd, .capacity_nbytes = uint64_t{1} << 60})
            .is_ok());
    expect_nothing_left();
  });
}

// A forked child has its parent's arena. It allocates nothing from it and gives nothing back.
TEST(CudaArena, AChildOfForkLeavesItAlone) {
  in_child({}, [] {
    Ref<CudaArena> arena = arena_of(2 << 20);
    Ref<Storage> storage = allocate(*arena, 2 << 20);
    const pid_t child = start([&] {
      EXPECT_EQ(arena->allocate(256, {.timeout_ns = 0}).status().code(), Code::kUnsupported);
      storage = nullptr;
      EXPECT_EQ(arena->allocate(256, {.timeout_ns = 0}).status().code(), Code::kUnsupported);
      arena = nullptr;
    });
    EXPECT_EQ(wait_for(child), 0);
    EXPECT_EQ(arena->allocate(256, {.timeout_ns = 0}).status().code(), Code::kResourceExhausted);
    storage = nullptr;
    EXPECT_TRUE(allocate(*arena, 2 << 20));
  });
}

TEST(CudaArena, WhereThereIsMigItGoesByFd) {
  NEEDS_THE_FAKE("it has the devices that it is told to have");
  in_child({"FAKE_CUDA_DEVICES=mig=64"}, [] {
    const Ref<CudaArena> arena = arena_of(2 << 20);
    ASSERT_TRUE(arena);
    EXPECT_EQ(arena->stats().transport, CudaTransport::kFd);
    EXPECT_EQ(
        CudaArena::create({.device = 0, .transport = CudaTransport::kIpc, .capacity_nbytes = 256})
            .status()
            .code(),
        Code::kUnsupported);
  });
}

}  // namespace
}  // namespace cuda_test

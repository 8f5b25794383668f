// Tests device memory that one process lends to another.
#include "gate.h"
#include "support/must.h"

namespace cuda_test {
namespace {

TEST(CudaShare, MemoryIsFreedWhenItsBorrowerHasLetGo) {
  in_two({}, lend_one, [](Line& line) {
    use_device();
    Ref<Storage> storage = open(line.receive());
    line.ask('o', 'r');
    EXPECT_EQ(storage->nbytes(), kNbytes);
    EXPECT_EQ(storage->device(), (storage::Device{storage::kCuda, 0}));
    EXPECT_EQ(byte_at(pointer_of(storage) + kNbytes - 1), 7);
    storage = nullptr;
    EXPECT_EQ(left(), 0U);
    line.say('d');
  });
}

// Only the event orders the two processes. The lender's work is still running when the borrower's
// work is queued, and no host waits.
TEST(CudaShare, TheBorrowersStreamWaitsForTheLenders) {
  in_two(
      {},
      [](Line& line) {
        use_device();
        CUstream stream = nullptr;
        CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        Memory memory(kNbytes);
        Ref<Storage> storage = wrap(&memory);
        Gate gate;
        gate.stand_in(stream);
        for (unsigned char byte = 1; byte <= 5; ++byte) fill(memory.pointer, byte, kNbytes, stream);
        const CudaHandle handle = share(storage, stream);
        EXPECT_TRUE(handle.has_event);
        EXPECT_EQ(driver().cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        line.send(handle);
        line.expect('o');
        gate.open();
        line.expect('d');
        release_all(&storage);
        EXPECT_EQ(memory.freed, 1);
        CU(cuStreamDestroy(stream));
      },
      [](Line& line) {
        use_device();
        CUstream stream = nullptr;
        CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        load_code();
        Memory copy(kNbytes);
        Ref<Storage> storage = open(line.receive(), stream);
        CU(cuMemcpyAsync(copy.pointer, pointer_of(storage), kNbytes, stream));
        EXPECT_EQ(driver().cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        line.say('o');
        EXPECT_EQ(byte_at(copy.pointer, stream), 5);
        release_all(&storage);
        CU(cuMemFree(copy.pointer));
        CU(cuStreamDestroy(stream));
        line.say('d');
      });
}

// The lender gets the memory back only when the borrower's work has finished, though the borrower
// released its storage long before.
TEST(CudaShare, MemoryGoesBackWhenTheStreamsHavePassed) {
  in_two(
      {},
      [](Line& line) {
        use_device();
        Memory memory(kNbytes, 9);
        Ref<Storage> storage = wrap(&memory);
        line.send(share(storage));
        storage = nullptr;
        line.expect('g');
        EXPECT_EQ(collect_cuda(), 1U);
        EXPECT_EQ(memory.freed, 0);
        line.ask('k', 'd');
        EXPECT_EQ(left(), 0U);
        EXPECT_EQ(memory.freed, 1);
      },
      [](Line& line) {
        use_device();
        CUstream named = nullptr;
        CUstream other = nullptr;
        CU(cuStreamCreate(&named, CU_STREAM_NON_BLOCKING));
        CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
        Ref<Storage> storage = open(line.receive(), named);
        Memory copy(kNbytes);
        CU(cuStreamSynchronize(named));
        EXPECT_TRUE(record_stream(*storage, other).is_ok());
        // Closing the memory while its copies are still queued would wait for them, and so for the
        // gate.
        alarm(200);
        Gate gate;
        gate.stand_in(other);
        for (int i = 0; i < 10; ++i)
          CU(cuMemcpyAsync(copy.pointer, pointer_of(storage), kNbytes, other));
        storage = nullptr;
        EXPECT_EQ(collect_cuda(), 1U);
        line.ask('g', 'k');
        gate.open();
        EXPECT_TRUE(wait_until([] { return collect_cuda() == 0; }));
        CU(cuStreamSynchronize(other));
        EXPECT_EQ(byte_at(copy.pointer), 9);
        CU(cuMemFree(copy.pointer));
        CU(cuStreamDestroy(named));
        CU(cuStreamDestroy(other));
        line.say('d');
      });
}

// PyTorch's senders lend the same memory many times.
TEST(CudaShare, WhatIsKeptOpenIsNotOpenedAgain) {
  in_two(
      {},
      [](Line& line) {
        use_device();
        Memory memory(kNbytes, 8);
        Ref<Storage> storage = wrap(&memory);
        for (int i = 0; i < 10; ++i) {
          line.send(share(storage));
          line.expect('n');
        }
        line.expect('d');
        storage = nullptr;
        EXPECT_EQ(left(), 0U);
      },
      [](Line& line) {
        use_device();
        for (int i = 0; i < 10; ++i) {
          Result<Ref<Storage>> storage = open_cuda(line.receive(), nullptr, {.keep_open = true});
          ASSERT_TRUE(storage.is_ok());
          EXPECT_EQ(byte_at(pointer_of(storage.value())), 8);
          storage = Ref<Storage>();
          EXPECT_EQ(left(), 0U);
          EXPECT_COUNT(1U, fake_cuda_live, FAKE_CUDA_IPC_OPEN, getpid());
          line.say('n');
        }
        EXPECT_COUNT(1U, fake_cuda_calls, "cuIpcOpenMemHandle", getpid());
        close_warm_cuda();
        EXPECT_COUNT(0U, fake_cuda_live, FAKE_CUDA_IPC_OPEN, getpid());
        line.say('d');
      });
}

TEST(CudaShare, OneHandleIsOpenedOnceForAllThatIsInIt) {
  constexpr uint64_t kMany = 1000;
  in_two(
      {},
      [](Line& line) {
        use_device();
        Memory memory(kMany * 512);
        std::vector<Ref<Storage>> storages;
        for (uint64_t i = 0; i < kMany; ++i) {
          fill(memory.pointer + i * 512, static_cast<unsigned char>(i), 512);
          Ref<Storage> storage =
              must(wrap_cuda(memory.data(i * 512), 512, 0, count_free, &memory, false));
          storages.push_back(std::move(storage));
        }
        for (const Ref<Storage>& storage : storages) line.send(share(storage));
        EXPECT_COUNT(1U, fake_cuda_calls, "cuIpcGetMemHandle", getpid());
        line.expect('d');
        storages.clear();
        EXPECT_EQ(left(), 0U);
        EXPECT_EQ(memory.freed, static_cast<int>(kMany));
        CU(cuMemFree(memory.pointer));
      },
      [](Line& line) {
        use_device();
        std::vector<Ref<Storage>> storages;
        for (uint64_t i = 0; i < kMany; ++i) storages.push_back(open(line.receive()));
        for (uint64_t i = 0; i < kMany; i += 97)
          EXPECT_EQ(byte_at(pointer_of(storages[i]) + 511), static_cast<int>(i % 256));
        EXPECT_COUNT(1U, fake_cuda_calls, "cuIpcOpenMemHandle", getpid());
        release_all(&storages);
        EXPECT_COUNT(1U, fake_cuda_calls, "cuIpcCloseMemHandle", getpid());
        line.say('d');
      });
}

TEST(CudaShare, TheSameBytesAreOneStorage) {
  in_two(
      {},
      [](Line& line) {
        use_device();
        Memory memory(kNbytes);
        Ref<Storage> storage = wrap(&memory);
        line.send(share(storage));
        line.send(share(storage));
        line.expect('2');
        // The second message's counter was released at once. The first message is still open.
        storage = nullptr;
        EXPECT_EQ(collect_cuda(), 1U);
        line.ask('k', 'd');
        EXPECT_EQ(left(), 0U);
      },
      [](Line& line) {
        Ref<Storage> first = open(line.receive());
        Ref<Storage> second = open(line.receive());
        EXPECT_EQ(first.get(), second.get());
        second = nullptr;
        line.ask('2', 'k');
        Weak<Storage> weak(first.get());
        first = nullptr;
        EXPECT_TRUE(weak.expired());
        EXPECT_TRUE(wait_until([] { return collect_cuda() == 0; }));
        line.say('d');
      });
}

TEST(CudaShare, InItsOwnProcessAHandleIsTheMemoryItself) {
  in_child({}, [] {
    use_device();
    Memory memory(kNbytes);
    Ref<Storage> storage = wrap(&memory);
    const CudaHandle first = share(storage);
    const CudaHandle second = share(storage);
    EXPECT_EQ(open(first).get(), storage.get());
    const CUdeviceptr pointer = pointer_of(storage);
    storage = nullptr;
    EXPECT_EQ(collect_cuda(), 1U);  // the second handle
    Ref<Storage> again = open(second);
    EXPECT_EQ(pointer_of(again), pointer);
    release_all(&again);
    EXPECT_EQ(memory.freed, 1);
    EXPECT_COUNT(0U, fake_cuda_calls, "cuIpcOpenMemHandle", 0);
    EXPECT_EQ(open_cuda(second, nullptr, {}).status().code(), Code::kInvalidArgument);
    EXPECT_COUNT(0U, fake_cuda_faults, 0);
  });
}

// CUDA_VISIBLE_DEVICES can give the same device different numbers.
TEST(CudaShare, TheDeviceIsFoundByItsUuid) {
  NEEDS_THE_FAKE("it wants two devices");
  in_two({"FAKE_CUDA_DEVICES=gpu=64,gpu=64"}, lend_one,
         [](Line& line) {
           CudaHandle handle = line.receive();
           Ref<Storage> storage = open(handle);
           EXPECT_EQ(storage->device().id, 1);
           line.ask('o', 'r');
           use_device(1);
           EXPECT_EQ(byte_at(pointer_of(storage)), 7);
           release_all(&storage);
           handle.uuid[3] ^= std::byte{1};
           EXPECT_EQ(open_cuda(handle, nullptr, {}).status().code(), Code::kNotFound);
           line.say('d');
         },
         {"CUDA_VISIBLE_DEVICES=1,0"});
}

// Two processes of one machine can have different drivers, because each container has its own.
TEST(CudaShare, APeerOfAnotherDriverOpensIt) {
  NEEDS_THE_FAKE("it is of one version");
  const std::string newest = "FAKE_CUDA_DRIVER=" + std::to_string(expected_version());
  const std::string oldest = "FAKE_CUDA_DRIVER=11040";
  for (const bool newer_lends : {true, false}) {
    in_two({newer_lends ? newest : oldest}, lend_one,
           [](Line& line) {
             use_device();
             Ref<Storage> storage = open(line.receive());
             line.ask('o', 'r');
             EXPECT_EQ(byte_at(pointer_of(storage)), 7);
             release_all(&storage);
             line.say('d');
           },
           {newer_lends ? oldest : newest});
  }
}

// A forwarder of a handle can change the device in it, and PyTorch's tuple has only a number.
TEST(CudaShare, AHandleOfAnotherDevicesMemoryIsRefused) {
  NEEDS_THE_FAKE("it wants two devices");
  in_two(
      {"FAKE_CUDA_DEVICES=gpu=64,gpu=64"},
      [](Line& line) {
        use_device(1);
        Memory memory(kNbytes, 7);
        Ref<Storage> storage =
            wrap_cuda(memory.data(), kNbytes, 1, free_memory, &memory, false).value();
        line.send(share(storage));
        line.expect('d');
        storage = nullptr;
        EXPECT_EQ(collect_cuda(), 0U);
      },
      [](Line& line) {
        CudaHandle handle = line.receive();
        const CudaHandle good = handle;
        handle.uuid = cuda::find_device(0).value().uuid;
        const Status refused = open_cuda(handle, nullptr, {}).status();
        EXPECT_EQ(refused.code(), Code::kInvalidArgument);
        EXPECT_NE(refused.message().find("on CUDA device 1"), std::string::npos)
            << refused.message();
        handle.has_uuid = false;
        handle.device = 0;
        EXPECT_EQ(open_cuda(handle, nullptr, {}).status().code(), Code::kInvalidArgument);
        EXPECT_EQ(open_cuda(good, nullptr, {.device = 0}).status().code(), Code::kInvalidArgument);
        EXPECT_COUNT(0U, fake_cuda_live, FAKE_CUDA_IPC_OPEN, getpid());
        handle.device = 1;  // without a UUID the number decides
        Ref<Storage> storage = open(handle);
        ASSERT_TRUE(storage);
        EXPECT_EQ(storage->device().id, 1);
        use_device(1);
        EXPECT_EQ(byte_at(pointer_of(storage)), 7);
        release_all(&storage);
        line.say('d');
      });
}

TEST(CudaShare, WithoutAnEventTheLenderWaitsForItsStream) {
  NEEDS_THE_FAKE("it has no limit of events to be set");
  in_two(
      {"FAKE_CUDA_IPC_EVENTS=1", "FAKE_CUDA_LATENCY=stream=20000"},
      [](Line& line) {
        use_device();
        Memory memory(kNbytes);
        Ref<Storage> storage = wrap(&memory);
        fill(memory.pointer, 3, kNbytes);
        const CudaHandle first = share(storage);
        EXPECT_TRUE(first.has_event);
        fill(memory.pointer, 4, kNbytes);
        const CudaHandle second = share(storage);
        EXPECT_FALSE(second.has_event);
        EXPECT_EQ(driver().cuStreamQuery(nullptr), CUDA_SUCCESS);
        line.send(first);
        line.send(second);
        line.expect('d');
        // The first handle's event is reused.
        EXPECT_TRUE(share(storage).has_event);
        storage = nullptr;
        line.say('k');
        EXPECT_EQ(collect_cuda(), 1U);  // no process opens this handle
        EXPECT_EQ(memory.freed, 0);
        CU(cuMemFree(memory.pointer));
        std::_Exit(::testing::Test::HasFailure() ? 1 : 0);
      },
      [](Line& line) {
        use_device();
        Ref<Storage> storage = open(line.receive());
        EXPECT_EQ(open(line.receive()).get(), storage.get());
        EXPECT_EQ(byte_at(pointer_of(storage)), 4);
        release_all(&storage);
        line.ask('d', 'k');
      });
}

TEST(CudaShare, AnEmptyStorageHasNoHandle) {
  in_two(
      {},
      [](Line& line) {
        Ref<Storage> storage = must(wrap_cuda(nullptr, 0, 0, nullptr, nullptr, false));
        const CudaHandle handle = share(storage);
        EXPECT_TRUE(handle.memory.empty());
        line.send(handle);
        line.expect('d');
      },
      [](Line& line) {
        Ref<Storage> storage = open(line.receive());
        EXPECT_EQ(storage->nbytes(), 0U);
        EXPECT_EQ(storage->device(), (storage::Device{storage::kCuda, 0}));
        line.say('d');
      });
}

// Counts the exact calls of the driver for a share and an open of memory that both sides already
// know, in the default stream.
TEST(CudaShare, CallsOfTheDriver) {
  NEEDS_THE_FAKE("its calls are not counted");
  constexpr int kTimes = 100;
  in_two(
      {},
      [](Line& line) {
        use_device();
        Memory memory(kTimes * 512);
        std::vector<Ref<Storage>> storages;
        for (uint64_t i = 0; i < kTimes; ++i)
          storages.push_back(
              wrap_cuda(memory.data(i * 512), 512, 0, count_free, &memory, false).value());
        line.send(share(storages[0]));
        line.send(share(storages[1]));
        line.expect('2');
        for (int round = 0; round < 2; ++round) {
          const uint64_t before = LEDGER(fake_cuda_all_calls)(getpid());
          std::vector<CudaHandle> handles;
          for (uint64_t i = 2; i < kTimes; ++i) handles.push_back(share(storages[i]));
          const uint64_t after = LEDGER(fake_cuda_all_calls)(getpid());
          // A share asks for the current context twice and records an event. In the first round it
          // also makes the event, which asks for the context once more, and asks for its handle.
          EXPECT_EQ(after - before, (kTimes - 2) * (round == 0 ? 6U : 3U));
          for (const CudaHandle& handle : handles) line.send(handle);
          line.expect('d');
        }
        line.expect('e');
        storages.clear();
        EXPECT_EQ(left(), 0U);
        CU(cuMemFree(memory.pointer));
      },
      [](Line& line) {
        use_device();
        std::vector<Ref<Storage>> storages;
        storages.push_back(open(line.receive()));
        storages.push_back(open(line.receive()));
        line.say('2');
        for (int round = 0; round < 2; ++round) {
          std::vector<CudaHandle> handles;
          for (int i = 2; i < kTimes; ++i) handles.push_back(line.receive());
          const uint64_t before = LEDGER(fake_cuda_all_calls)(getpid());
          for (const CudaHandle& handle : handles) storages.push_back(open(handle));
          const uint64_t after = LEDGER(fake_cuda_all_calls)(getpid());
          // An open asks for the current context twice, and opens, waits for and destroys the
          // event.
          EXPECT_EQ(after - before, (kTimes - 2) * 5U);
          storages.resize(2);
          EXPECT_TRUE(wait_until([] { return collect_cuda() == 0; }));
          line.say('d');
        }
        release_all(&storages);
        line.say('e');
      });
}

}  // namespace
}  // namespace cuda_test

// Tests when device memory goes back to its owner and when it does not, on whichever thread and for
// every answer of the driver.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "support/must.h"

#include "gate.h"

namespace cuda_test {
namespace {

// A stream whose work lasts until its gate opens.
struct Work {
  Work() { EXPECT_EQ(driver().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS); }
  ~Work() { EXPECT_EQ(driver().cuStreamDestroy(stream), CUDA_SUCCESS); }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  void begin() { gate.stand_in(stream); }
  Gate gate;
  CUstream stream = nullptr;
};

void in_one_process(const std::vector<std::string>& environment,
                    const std::function<void()>& body) {
  in_child(environment, [&] {
    use_device();
    body();
    expect_nothing_left();
  });
}

// An owner's function may release other device memory, or collect memory that has come back. The
// releases run one after the other and do not nest, however many are pending.
void many_that_end_others(bool look_too) {
  in_one_process({}, [look_too] {
    struct Pair {
      Ref<Storage> other;
      bool look;
      int* ended;
    };
    // Each released storage makes an event and records it. Behind a closed gate a real driver
    // blocks the caller at some number of events: an H100 (driver 580) did at 200. The caller would
    // block for ever, because it has to open the gate itself.
    const int many = on_the_fake() ? 20'000 : 8;
    Work work;
    Memory memory(kNbytes);
    int ended = 0;
    std::deque<Pair> pairs;
    std::vector<Ref<Storage>> storages;
    const auto count = [](void* number) { ++*static_cast<int*>(number); };
    const auto end_both = [](void* pair) {
      Pair& it = *static_cast<Pair*>(pair);
      it.other = nullptr;
      ++*it.ended;
      if (it.look) (void)collect_cuda();
    };
    for (int i = 0; i < many; ++i) {
      pairs.push_back(
          {wrap_cuda(memory.data(), kNbytes, 0, count, &ended, false).value(), look_too, &ended});
      storages.push_back(
          wrap_cuda(memory.data(), kNbytes, 0, end_both, &pairs.back(), false).value());
      EXPECT_TRUE(record_stream(*storages.back(), work.stream).is_ok());
    }
    work.begin();
    storages.clear();
    EXPECT_EQ(ended, 0);
    work.gate.open();
    EXPECT_TRUE(wait_until([] { return collect_cuda() == 0; }));
    EXPECT_EQ(ended, 2 * many);
    CU(cuMemFree(memory.pointer));
  });
}
TEST(CudaGiveBack, ManyThatLetGoOfOthers) { many_that_end_others(false); }
TEST(CudaGiveBack, ManyThatLookForOthers) { many_that_end_others(true); }

// An error from the driver does not mean that the stream has passed.
TEST(CudaGiveBack, NotWhenTheDriverDoesNotSay) {
  NEEDS_THE_FAKE("it cannot be made to fail");
  for (const CUresult code : {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_UNKNOWN}) {
    for (const char* function : {"cuEventQuery", "cuEventRecord", "cuEventCreate"}) {
      in_one_process({}, [&] {
        Work work;
        Memory memory(kNbytes);
        Ref<Storage> storage = wrap(&memory);
        work.begin();
        EXPECT_TRUE(record_stream(*storage, work.stream).is_ok());
        fail_driver(function, 0, code);
        storage = nullptr;
        EXPECT_EQ(collect_cuda(), 1U) << function;
        fail_driver(function, 0, CUDA_SUCCESS);
        EXPECT_EQ(collect_cuda(), 1U) << function;
        EXPECT_EQ(memory.freed, 0) << function;
        work.gate.open();
        EXPECT_TRUE(wait_until([] { return collect_cuda() == 0; })) << function;
        EXPECT_EQ(memory.freed, 1);
        EXPECT_GT(LEDGER(fake_cuda_calls)("cuThreadExchangeStreamCaptureMode", getpid()), 0U);
      });
    }
  }
}

// The driver has no event left, so the release waits for the stream.
TEST(CudaGiveBack, AfterTheStreamWhereThereIsNoEvent) {
  NEEDS_THE_FAKE("it cannot be made to fail");
  in_one_process({}, [&] {
    Work work;
    Memory memory(kNbytes);
    Ref<Storage> storage = wrap(&memory);
    work.begin();
    EXPECT_TRUE(record_stream(*storage, work.stream).is_ok());
    fail_driver("cuEventCreate", 0, CUDA_ERROR_OUT_OF_MEMORY);
    std::thread opener([&] {
      usleep(20000);
      EXPECT_EQ(memory.freed, 0);
      work.gate.open();
    });
    storage = nullptr;
    EXPECT_EQ(driver().cuStreamQuery(work.stream), CUDA_SUCCESS);
    opener.join();
    EXPECT_EQ(collect_cuda(), 0U);
    EXPECT_EQ(memory.freed, 1);
  });
}

// A stream of a lost device has no work left.
TEST(CudaGiveBack, WhenTheDeviceIsLost) {
  NEEDS_THE_FAKE("it cannot be made to fail");
  for (const char* function : {"cuEventQuery", "cuEventRecord"}) {
    in_one_process({}, [&] {
      Work work;
      Memory memory(kNbytes);
      Ref<Storage> storage =
          wrap_cuda(memory.data(), kNbytes, 0, count_free, &memory, false).value();
      work.begin();
      EXPECT_TRUE(record_stream(*storage, work.stream).is_ok());
      fail_driver(function, 0, CUDA_ERROR_ILLEGAL_ADDRESS);
      storage = nullptr;
      EXPECT_EQ(collect_cuda(), 0U) << function;
      EXPECT_EQ(memory.freed, 1);
      fail_driver(function, 0, CUDA_SUCCESS);
      work.gate.open();
      CU(cuMemFree(memory.pointer));
    });
  }
}

// Each thread has its own per-thread default stream, and another thread releases the storage.
TEST(CudaGiveBack, AfterTheStreamOfTheThreadThatUsedIt) {
  in_one_process({}, [] {
    Memory memory(kNbytes, 1);
    Ref<Storage> storage = wrap(&memory);
    Gate gate;
    std::thread user([&] {
      use_device();
      gate.stand_in(CU_STREAM_PER_THREAD);
      EXPECT_TRUE(record_stream(*storage, CU_STREAM_PER_THREAD).is_ok());
    });
    user.join();
    storage = nullptr;
    EXPECT_EQ(collect_cuda(), 1U);
    EXPECT_EQ(memory.freed, 0);
    gate.open();
    EXPECT_TRUE(wait_until([] { return collect_cuda() == 0; }));
    EXPECT_EQ(memory.freed, 1);
  });
}

// The default stream of a context also counts. That context need not be current at the release.
TEST(CudaGiveBack, AfterTheDefaultStreamOfTheContextThatWasCurrent) {
  in_one_process({}, [] {
    const auto create = reinterpret_cast<PFN_cuCtxCreate_v3020>(dlsym(library(), "cuCtxCreate_v2"));
    const auto destroy =
        reinterpret_cast<PFN_cuCtxDestroy_v4000>(dlsym(library(), "cuCtxDestroy_v2"));
    ASSERT_NE(create, nullptr);
    ASSERT_NE(destroy, nullptr);
    Memory memory(kNbytes);
    Ref<Storage> storage = wrap(&memory);
    Gate gate;
    CUcontext own = nullptr;
    ASSERT_EQ(create(&own, 0, 0), CUDA_SUCCESS);
    gate.stand_in(nullptr);
    EXPECT_TRUE(record_stream(*storage, nullptr).is_ok());
    CU(cuCtxPopCurrent(&own));
    storage = nullptr;
    EXPECT_EQ(collect_cuda(), 1U);
    EXPECT_EQ(memory.freed, 0);
    gate.open();
    EXPECT_TRUE(wait_until([] { return collect_cuda() == 0; }));
    EXPECT_EQ(memory.freed, 1);
    EXPECT_EQ(destroy(own), CUDA_SUCCESS);
  });
}

// Two threads open the same storage, each in its own stream. Which of them is second depends on
// timing, so the test repeats often.
TEST(CudaGiveBack, AfterTheStreamsOfAllThatOpenedIt) {
  constexpr int kRounds = 200;
  in_two(
      {},
      [](Line& line) {
        use_device();
        Memory memory(kNbytes);
        Ref<Storage> storage = wrap(&memory);
        for (int i = 0; i < kRounds; ++i) {
          line.send(share(storage));
          line.send(share(storage));
          line.expect('d');
        }
        release_all(&storage);
        EXPECT_EQ(memory.freed, 1);
      },
      [](Line& line) {
        use_device();
        Work works[2];
        for (int i = 0; i < kRounds; ++i) {
          const CudaHandle handles[2] = {line.receive(), line.receive()};
          Ref<Storage> opened[2];
          std::atomic<int> ready{0};
          std::array<std::thread, 2> threads;
          // A real driver runs the gates of all streams in one thread, in launch order. So the gate
          // that opens first must be launched first.
          works[i % 2].begin();
          works[1 - i % 2].begin();
          for (int n = 0; n < 2; ++n) {
            threads[n] = std::thread([&, n] {
              use_device();
              ++ready;
              while (ready.load() < 2) {
              }
              opened[n] = open(handles[n], works[n].stream);
            });
          }
          for (std::thread& each : threads) each.join();
          EXPECT_EQ(opened[0].get(), opened[1].get());
          for (Ref<Storage>& each : opened) each = nullptr;
          works[i % 2].gate.open();
          CU(cuStreamSynchronize(works[i % 2].stream));
          ASSERT_GT(collect_cuda(), 0U) << "round " << i;
          works[1 - i % 2].gate.open();
          ASSERT_TRUE(wait_until([] { return collect_cuda() == 0; }));
          line.say('d');
        }
      });
}

// A receiver that keeps its handle occupies no other event. A process has 1,000 events in all.
TEST(CudaGiveBack, OneThatKeepsItsHandleDoesNotUseUpTheEvents) {
  constexpr int kRounds = 1500;
  in_two(
      {},
      [](Line& line) {
        use_device();
        Memory memory(kNbytes);
        Ref<Storage> storage = wrap(&memory);
        line.send(share(storage));
        for (int i = 0; i < kRounds; ++i) {
          const CudaHandle first = share(storage);
          const CudaHandle second = share(storage);
          ASSERT_TRUE(first.has_event && second.has_event) << i;
          line.send(first);
          line.send(second);
          line.expect('n');
        }
        EXPECT_GT(16U, COUNT(fake_cuda_live, FAKE_CUDA_EVENT, getpid()));
        line.ask('e', 'd');
        storage = nullptr;
        EXPECT_EQ(collect_cuda(), 0U);
      },
      [](Line& line) {
        use_device();
        Ref<Storage> kept = open(line.receive());
        for (int i = 0; i < kRounds; ++i) {
          (void)open(line.receive());
          (void)open(line.receive());
          line.say('n');
        }
        line.expect('e');
        release_all(&kept);
        line.say('d');
      });
}

// Work that is queued in another stream is ordered after the streams that use the storage.
TEST(CudaGiveBack, AnotherStreamIsOrdered) {
  in_one_process({}, [] {
    Memory memory(kNbytes, 1);
    CU(cuStreamSynchronize(nullptr));
    Ref<Storage> storage = wrap(&memory);
    Work used;
    Work other;
    EXPECT_TRUE(record_stream(*storage, used.stream).is_ok());
    used.begin();
    fill(memory.pointer, 7, kNbytes, used.stream);
    EXPECT_TRUE(order_stream(*storage, used.stream).is_ok());
    EXPECT_TRUE(order_stream(*storage, other.stream).is_ok());
    EXPECT_TRUE(order_stream(*storage, CU_STREAM_PER_THREAD).is_ok());
    const HostRoom bytes(2);
    CU(cuMemcpyAsync(bytes.pointer(0), memory.pointer, 1, other.stream));
    CU(cuMemcpyAsync(bytes.pointer(1), memory.pointer, 1, CU_STREAM_PER_THREAD));
    used.gate.open();
    CU(cuStreamSynchronize(other.stream));
    CU(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    EXPECT_EQ(bytes[0], 7);
    EXPECT_EQ(bytes[1], 7);
    EXPECT_EQ(wait_for(start([&] {
                const Code code = order_stream(*storage, nullptr).code();
                std::_Exit(code == Code::kUnsupported ? 0 : 1);
              })),
              0);
    release_all(&storage);
    Ref<Storage> host = must(Storage::create({}, 16));
    EXPECT_EQ(order_stream(*host, nullptr).code(), Code::kInvalidArgument);
  });
}

// A thread may be inside record_stream while another thread forks. The child does not have that
// thread, and must not wait for its lock.
TEST(CudaGiveBack, AChildOfForkRecordsNothing) {
  in_one_process({}, [] {
    Memory memory(kNbytes);
    Ref<Storage> storage = wrap(&memory);
    std::atomic<bool> over = false;
    std::thread busy([&] {
      while (!over) EXPECT_TRUE(record_stream(*storage, nullptr).is_ok());
    });
    for (int i = 0; i < 300; ++i) {
      const pid_t child = fork();
      if (child == 0) std::_Exit(record_stream(*storage, nullptr).is_ok() ? 0 : 1);
      EXPECT_EQ(wait_for(child), 0);
    }
    over = true;
    busy.join();
    release_all(&storage);
  });
}

// The storage was released while a handle of it was in flight. When the handle is opened, the
// memory comes back with the same properties and can be lent again.
TEST(CudaGiveBack, OwnMemoryThatComesBackIsWhatItWas) {
  in_two(
      {},
      [](Line& line) {
        use_device();
        Memory memory(kNbytes, 6);
        Ref<Storage> storage =
            wrap_cuda(memory.data(), kNbytes, 0, free_memory, &memory, true).value();
        const CudaHandle mine = share(storage, nullptr, {.let_write = true});
        storage = nullptr;
        EXPECT_EQ(open_cuda(mine, nullptr, {.device = 0}).status().code(), Code::kOk);
        EXPECT_TRUE(wait_until([] { return collect_cuda() == 0; }));
        EXPECT_EQ(memory.freed, 1);

        Memory other(kNbytes, 6);
        storage = wrap(&other);
        const CudaHandle again = share(storage);
        EXPECT_EQ(open_cuda(again, nullptr, {.read_only = true}).status().code(),
                  Code::kUnsupported);
        storage = nullptr;
        storage = open(again);
        ASSERT_TRUE(storage);
        EXPECT_FALSE(storage->is_read_only());
        line.send(share(storage));
        line.expect('d');
        release_all(&storage);
        EXPECT_EQ(other.freed, 1);
      },
      [](Line& line) {
        use_device();
        Ref<Storage> storage = open(line.receive());
        EXPECT_EQ(byte_at(pointer_of(storage)), 6);
        release_all(&storage);
        line.say('d');
      });
}

TEST(CudaGiveBack, ReadOnlyMemoryThatComesBackIsReadOnly) {
  in_one_process({}, [] {
    Memory memory(kNbytes);
    Ref<Storage> storage = wrap_cuda(memory.data(), kNbytes, 0, free_memory, &memory, true).value();
    const CudaHandle handle = share(storage, nullptr, {.let_write = true});
    storage = nullptr;
    Result<Ref<Storage>> back = open_cuda(handle, nullptr, {.read_only = true});
    ASSERT_TRUE(back.is_ok()) << back.status().message();
    EXPECT_TRUE(back.value()->is_read_only());
    back = Ref<Storage>();
    EXPECT_TRUE(wait_until([] { return collect_cuda() == 0; }));
  });
}

}  // namespace
}  // namespace cuda_test

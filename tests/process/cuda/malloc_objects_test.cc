// Lets every allocation fail in turn during the start of the driver, with arenas on a device,
// events as objects, and pinned memory.
#include <dlpack/dlpack.h>

#include "malloc_kit.h"
#include "support/sized.h"

#if !TENON_TEST_SANITIZED
namespace cuda_test {
namespace {

// A lack of memory may end, so the next call tries again.
TEST(CudaMallocObjects, TheDriverIsStartedOnceThereIsMemory) {
  NEEDS_THE_FAKE("a driver has needs of its own");
  in_child({}, [] {
    // These few allocations fail before the driver is loaded. With more, the driver's own
    // allocations would fail.
    for (long allowed = 0; allowed < 3; ++allowed) {
      tenon_error* error = nullptr;
      tenon_status status = TENON_OK;
      with_allocations(allowed, "tenon_cuda_available",
                       [&] { status = tenon_cuda_available(&error); });
      const fault::Outcome outcome = fault::read_error(status, error);
      CHECK_SAYING(outcome.status == TENON_RESOURCE_EXHAUSTED,
                   std::to_string(allowed) + " allocations: " + outcome.text());
    }
    // The test starts the driver itself, so that only Tenon's own part fails.
    void* const found = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    REQUIRE(found != nullptr);
    REQUIRE(reinterpret_cast<PFN_cuInit_v2000>(dlsym(found, "cuInit"))(0) == CUDA_SUCCESS);
    fail_at_every_allocation(
        "tenon_cuda_available", [](tenon_error** err) { return tenon_cuda_available(err); },
        [](bool, const std::string&) {});
    CHECK_OK(tenon_cuda_available(err));
    EXPECT_EQ(fault::g_failures, 0);
  });
}

// ---- another framework's memory

struct ForeignUnversioned {
  explicit ForeignUnversioned(uint64_t nbytes)
      : memory(nbytes), size(static_cast<int64_t>(nbytes)) {
    managed.dl_tensor.data = memory.data();
    managed.dl_tensor.device = {kDLCUDA, 0};
    managed.dl_tensor.ndim = 1;
    managed.dl_tensor.dtype = {kDLUInt, 8, 1};
    managed.dl_tensor.shape = &size;
    managed.manager_ctx = &memory;
    managed.deleter = [](DLManagedTensor* self) { count_free(self->manager_ctx); };
  }
  Memory memory;
  int64_t size;
  DLManagedTensor managed{};
};

TEST(CudaMallocObjects, WrapsAndHandsOut) {
  NEEDS_THE_FAKE("a driver has needs of its own");
  in_one_without_leaks([] {
    ForeignUnversioned foreign(kNbytes);
    int taken = 0;
    tenon_tensor* tensor = nullptr;
    fail_at_every_allocation(
        "tenon_tensor_from_dlpack_legacy",
        [&](tenon_error** err) {
          return tenon_tensor_from_dlpack_legacy(&foreign.managed, &tensor, err);
        },
        [&](bool made, const std::string& where) {
          CHECK_SAYING(foreign.memory.freed == taken && made == (tensor != nullptr), where);
          if (!made) return;
          ++taken;
          with_allocations(0, "tenon_tensor_release",
                           [&] { tenon_tensor_release(std::exchange(tensor, nullptr)); });
          CHECK_SAYING(tenon_cuda_collect() == 0 && foreign.memory.freed == taken, where);
        });
    REQUIRE_OK(tenon_tensor_from_dlpack_legacy(&foreign.managed, &tensor, err));
    DLManagedTensorVersioned* out = nullptr;
    fail_at_every_allocation(
        "tenon_tensor_to_dlpack",
        [&](tenon_error** err) { return tenon_tensor_to_dlpack(tensor, &out, err); },
        [&](bool made, const std::string& where) {
          CHECK_SAYING(made == (out != nullptr), where);
          if (made) out->deleter(std::exchange(out, nullptr));
        });
    tenon_tensor_release(tensor);
    CHECK_EQ(tenon_cuda_collect(), 0);
    CHECK_EQ(foreign.memory.freed, taken + 1);
    CHECK(driver().cuMemFree(foreign.memory.pointer) == CUDA_SUCCESS);
  });
}

// ---- arenas

tenon_cuda_arena_stats stats_of(const tenon_cuda_arena* arena) {
  auto stats = tenon::test::sized<tenon_cuda_arena_stats>();
  CHECK_OK(tenon_cuda_arena_stats_get(arena, &stats, err));
  return stats;
}

void arena_at_every_allocation(tenon_cuda_transport transport) {
  auto how = tenon::test::sized<tenon_cuda_arena_options>();
  how.transport = transport;
  how.capacity_nbytes = kPage;
  const fault::Held held = fault::hold();
  const uint64_t before = LEDGER(fake_cuda_live)(0, getpid());
  tenon_cuda_arena* arena = nullptr;
  fail_at_every_allocation(
      "tenon_cuda_arena_new",
      [&](tenon_error** err) { return tenon_cuda_arena_new(&how, &arena, err); },
      [&](bool made, const std::string& where) {
        CHECK_SAYING(made == (arena != nullptr), where);
        with_allocations(0, "tenon_cuda_arena_release",
                         [&] { tenon_cuda_arena_release(std::exchange(arena, nullptr)); });
        CHECK_SAYING(LEDGER(fake_cuda_live)(0, getpid()) == before, where);
      });
  REQUIRE_OK(tenon_cuda_arena_new(&how, &arena, err));
  for (const uint64_t nbytes : {uint64_t{0}, uint64_t{256}, kPage}) {
    tenon_storage* storage = nullptr;
    fail_at_every_allocation(
        "tenon_cuda_arena_allocate",
        [&](tenon_error** err) {
          return tenon_cuda_arena_allocate(arena, nbytes, nullptr, &storage, err);
        },
        [&](bool made, const std::string& where) {
          CHECK_SAYING(made == (storage != nullptr), where);
          with_allocations(0, "tenon_storage_release",
                           [&] { tenon_storage_release(std::exchange(storage, nullptr)); });
          CHECK_SAYING(
              stats_of(arena).blocks_used == 0 && stats_of(arena).bytes_largest_free == kPage,
              where);
        });
  }
  // The arena is full, and there is no memory for the error.
  tenon_storage* all = nullptr;
  REQUIRE_OK(tenon_cuda_arena_allocate(arena, kPage, nullptr, &all, err));
  for (const int64_t timeout : {int64_t{0}, int64_t{100'000}}) {
    until_enough("tenon_cuda_arena_allocate of a full one", [&](long allowed) {
      const tenon_wait wait = fault::wait_ns(timeout);
      tenon_storage* storage = nullptr;
      tenon_status status = TENON_OK;
      const bool refused = with_allocations(allowed, "tenon_cuda_arena_allocate", [&] {
        status = tenon_cuda_arena_allocate(arena, 256, &wait, &storage, nullptr);
      });
      CHECK(storage == nullptr &&
            (status == TENON_RESOURCE_EXHAUSTED || (status == TENON_TIMEOUT && timeout != 0)));
      return refused;
    });
  }
  tenon_storage_release(all);
  // Blocks come back in any order, without memory to record where they were. When all have come
  // back the arena is whole again.
  for (long allowed = 0; allowed < 4; ++allowed) {
    std::vector<tenon_storage*> blocks(100);
    for (tenon_storage*& each : blocks)
      REQUIRE_OK(tenon_cuda_arena_allocate(arena, 1000, nullptr, &each, err));
    for (const size_t first : {1U, 0U}) {
      for (size_t i = first; i < blocks.size(); i += 2) {
        with_allocations(allowed, "tenon_storage_release",
                         [&] { tenon_storage_release(blocks[i]); });
      }
      CHECK_EQ(stats_of(arena).blocks_used, first * blocks.size() / 2);
      tenon_storage* one = nullptr;
      CHECK_OK(tenon_cuda_arena_allocate(arena, 256, nullptr, &one, err));
      tenon_storage_release(one);
    }
    CHECK_EQ(stats_of(arena).bytes_largest_free, kPage);
  }
  tenon_cuda_arena_release(arena);
  CHECK_EQ(LEDGER(fake_cuda_live)(0, getpid()), before);
  CHECK_HELD(held);
}
TEST(CudaMallocObjects, Arenas) {
  NEEDS_THE_FAKE("a driver has needs of its own");
  for (const tenon_cuda_transport transport : {TENON_CUDA_NO_MEMORY, TENON_CUDA_IPC, TENON_CUDA_FD})
    in_one([transport] { arena_at_every_allocation(transport); });
}

// ---- events

uint64_t events_and_imports_here() {
  return LEDGER(fake_cuda_live)(FAKE_CUDA_EVENT, getpid()) +
         LEDGER(fake_cuda_live)(FAKE_CUDA_EVENT_IMPORT, getpid());
}

// Calls every function of an event. Each also gets an error of the driver while there is no memory
// for its text.
void use_at_every_allocation(tenon_cuda_event* event, CUstream stream, bool has_handle) {
  IpcBytes handle{};
  int complete = 0;
  const tenon_wait wait = fault::wait_ns(1'000'000'000);
  struct Call {
    const char* function;
    std::function<tenon_status(tenon_error**)> call;
  };
  std::vector<Call> calls = {
      {"cuEventRecord",
       [&](tenon_error** err) { return tenon_cuda_event_record(event, stream, err); }},
      {"cuStreamWaitEvent",
       [&](tenon_error** err) { return tenon_cuda_event_wait(event, stream, err); }},
      {"cuEventQuery",
       [&](tenon_error** err) { return tenon_cuda_event_query(event, &complete, err); }},
      {"cuEventQuery",
       [&](tenon_error** err) { return tenon_cuda_event_synchronize(event, &wait, err); }},
  };
  if (has_handle)
    calls.push_back({"cuIpcGetEventHandle", [&](tenon_error** err) {
                       return tenon_cuda_event_ipc_handle(event, handle.data(), err);
                     }});
  for (const Call& each : calls) {
    fail_at_every_allocation(each.function, each.call, [](bool, const std::string&) {});
    LEDGER(fake_cuda_fail)(each.function, 0, CUDA_ERROR_ECC_UNCORRECTABLE);
    until_enough(each.function, [&](long allowed) {
      tenon_error* error = nullptr;
      tenon_status status = TENON_OK;
      const bool refused =
          with_allocations(allowed, each.function, [&] { status = each.call(&error); });
      tenon_error_release(error);
      CHECK(status == TENON_IO || (refused && status == TENON_RESOURCE_EXHAUSTED));
      return refused;
    });
    LEDGER(fake_cuda_fail)(each.function, 0, CUDA_SUCCESS);
    CHECK_OK(each.call(err));
  }
}

void event_at_every_allocation(
    const std::function<tenon_status(tenon_cuda_event**, tenon_error**)>& make,
    const char* function, bool has_handle) {
  const uint64_t before = events_and_imports_here();
  CUstream stream = nullptr;
  REQUIRE(driver().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  tenon_cuda_event* event = nullptr;
  const auto end = [&] {
    with_allocations(0, "tenon_cuda_event_release",
                     [&] { tenon_cuda_event_release(std::exchange(event, nullptr)); });
    CHECK_EQ(events_and_imports_here(), before);
  };
  fail_at_every_allocation(
      "a new event", [&](tenon_error** err) { return make(&event, err); },
      [&](bool made, const std::string& where) {
        CHECK_SAYING(made == (event != nullptr), where);
        end();
      });
  LEDGER(fake_cuda_fail)(function, 0, CUDA_ERROR_ECC_UNCORRECTABLE);
  until_enough(function, [&](long allowed) {
    const bool refused = with_allocations(allowed, function, [&] { (void)make(&event, nullptr); });
    CHECK(event == nullptr);
    CHECK_EQ(events_and_imports_here(), before);
    return refused;
  });
  LEDGER(fake_cuda_fail)(function, 0, CUDA_SUCCESS);
  REQUIRE_OK(make(&event, err));
  use_at_every_allocation(event, stream, has_handle);
  end();
  REQUIRE(driver().cuStreamDestroy(stream) == CUDA_SUCCESS);
}

TEST(CudaMallocObjects, Events) {
  NEEDS_THE_FAKE("a driver has needs of its own");
  for (const uint32_t flags : {uint32_t{0}, uint32_t{TENON_CUDA_EVENT_INTERPROCESS}}) {
    in_one_without_leaks([flags] {
      const tenon_cuda_event_options how = {sizeof how, flags, 0};
      event_at_every_allocation(
          [&](tenon_cuda_event** out, tenon_error** err) {
            return tenon_cuda_event_new(&how, out, err);
          },
          "cuEventCreate", flags != 0);
    });
  }
}

TEST(CudaMallocObjects, EventsOfAnotherProcess) {
  NEEDS_THE_FAKE("a driver has needs of its own");
  in_two(
      {},
      [](Line& line) {
        begin();
        const tenon_cuda_event_options how = {sizeof how, TENON_CUDA_EVENT_INTERPROCESS, 0};
        tenon_cuda_event* event = nullptr;
        IpcBytes handle{};
        REQUIRE_OK(tenon_cuda_event_new(&how, &event, err));
        REQUIRE_OK(tenon_cuda_event_ipc_handle(event, handle.data(), err));
        line.send_as(handle);
        line.expect('d');
        tenon_cuda_event_release(event);
      },
      [](Line& line) {
        begin();
        const auto handle = line.receive_as<IpcBytes>();
        Passes passes;
        for (int pass = 0; pass < kPasses; ++pass) {
          event_at_every_allocation(
              [&](tenon_cuda_event** out, tenon_error** err) {
                return tenon_cuda_event_from_ipc_handle(handle.data(), nullptr, out, err);
              },
              "cuIpcOpenEventHandle", false);
          passes.end_of_one();
        }
        EXPECT_EQ(fault::g_failures, 0);
        line.say('d');
      });
}

// ---- pinned memory

uint64_t registered() { return LEDGER(fake_cuda_live)(FAKE_CUDA_HOST_REGISTRATION, getpid()); }

TEST(CudaMallocObjects, PinnedMemory) {
  NEEDS_THE_FAKE("a driver has needs of its own");
  in_one_without_leaks([] {
    tenon_storage* storage = nullptr;
    const auto renew = [&] {
      with_allocations(0, "tenon_storage_release", [&] { tenon_storage_release(storage); });
      tenon_storage_trim();
      CHECK_EQ(registered(), 0);
      storage = fault::new_storage(kNbytes, 3, TENON_MODE_SHARED, TENON_STORAGE_ISOLATED);
    };
    renew();
    void* address = nullptr;
    fail_at_every_allocation(
        "tenon_storage_pin",
        [&](tenon_error** err) { return tenon_storage_pin(storage, 0, &address, err); },
        [&](bool pinned, const std::string& where) {
          CHECK_SAYING(pinned == (address != nullptr), where);
          address = nullptr;
          CHECK_OK(tenon_storage_pin(storage, 0, &address, err));
          CHECK_SAYING(address != nullptr && registered() == 1, where);
          address = nullptr;
          renew();
        });
    for (const char* function : {"cuMemHostRegister", "cuMemHostGetDevicePointer"}) {
      until_enough(function, [&](long allowed) {
        LEDGER(fake_cuda_fail)(function, 1, CUDA_ERROR_ECC_UNCORRECTABLE);
        tenon_status status = TENON_OK;
        const bool refused = with_allocations(
            allowed, function, [&] { status = tenon_storage_pin(storage, 0, &address, nullptr); });
        LEDGER(fake_cuda_fail)(function, 1, CUDA_SUCCESS);
        CHECK(address == nullptr &&
              (status == TENON_IO || (refused && status == TENON_RESOURCE_EXHAUSTED)));
        CHECK_OK(tenon_storage_pin(storage, 0, &address, err));
        CHECK_EQ(registered(), 1);
        address = nullptr;
        renew();
        return refused;
      });
    }
    with_allocations(0, "tenon_storage_release",
                     [&] { tenon_storage_release(std::exchange(storage, nullptr)); });
    tenon_storage_trim();
    CHECK_EQ(registered(), 0);
  });
}

}  // namespace
}  // namespace cuda_test

#else
TEST(CudaMallocObjects, Injection) {
  GTEST_SKIP() << "skipped: the sanitizer stands in for malloc itself";
}
#endif

// Lets every allocation fail in turn while device memory is lent by handles, opened, and given
// back.
#include "malloc_kit.h"

#if !TENON_TEST_SANITIZED
#include "device/torch_counter.h"
#include "support/sized.h"

namespace cuda_test {
namespace {

constexpr CudaTransport kWays[] = {CudaTransport::kIpc, CudaTransport::kFd, CudaTransport::kPool};

// ---- lending

// On failure nothing is lent. On success one message is in flight. Returns false if no allocation
// was refused.
bool share_with(const Ref<Storage>& storage, long allowed, tenon_cuda_handle* out) {
  tenon_cuda_handle handle = no_handle();
  tenon_error* error = nullptr;
  tenon_status status = TENON_OK;
  const bool refused = with_allocations(allowed, "tenon_share_cuda", [&] {
    status = tenon_share_cuda(as_c(storage), nullptr, nullptr, &handle, &error);
  });
  const fault::Outcome outcome = fault::read_error(status, error);
  const std::string where = std::to_string(allowed) + " allocations: " + outcome.text();
  CHECK_SAYING(outcome.ok() || (refused && status == TENON_RESOURCE_EXHAUSTED), where);
  CHECK_SAYING(outcome.ok() == (handle.nbytes == kNbytes), where);
  if (outcome.ok()) CHECK_SAYING(counter_of(handle) == 1 && handle.event_required == 1, where);
  *out = handle;
  return refused;
}
bool is_shared(const tenon_cuda_handle& handle) { return handle.nbytes != 0; }

// Lends memory that was never lent, with the first counter of a new file.
TEST(CudaMalloc, SharesForTheFirstTime) {
  NEEDS_THE_FAKE("a driver has needs of its own");
  for (const CudaTransport way : kWays) {
    in_one([way] {
      {
        Lendable memory(way);
        let_go(share_it(memory.wrap()));
        end_cuda_counter_file();
        CHECK_EQ(tenon_cuda_collect(), 0);
      }
      const fault::Held held = fault::hold();
      until_enough("the first tenon_share_cuda", [&](long allowed) {
        Lendable memory(way);
        Ref<Storage> storage = memory.wrap();
        tenon_cuda_handle handle = no_handle();
        const bool refused = share_with(storage, allowed, &handle);
        storage = nullptr;
        CHECK_EQ(tenon_cuda_collect(), is_shared(handle) ? 1 : 0);
        CHECK_EQ(memory.back, is_shared(handle) ? 0 : 1);
        if (is_shared(handle)) let_go(handle);
        CHECK_EQ(tenon_cuda_collect(), 0);
        CHECK_EQ(memory.back, 1);
        end_cuda_counter_file();
        if (is_shared(handle)) CHECK_EQ(counter_of(handle), -1);
        return refused;
      });
      CHECK_HELD(held);
    });
  }
}

TEST(CudaMalloc, SharesAgain) {
  NEEDS_THE_FAKE("a driver has needs of its own");
  for (const CudaTransport way : kWays) {
    in_one([way] {
      Lendable memory(way);
      Ref<Storage> storage = memory.wrap();
      let_go(share_it(storage));
      Passes passes;
      for (int pass = 0; pass < kPasses; ++pass) {
        until_enough("tenon_share_cuda", [&](long allowed) {
          tenon_cuda_handle handle = no_handle();
          const bool refused = share_with(storage, allowed, &handle);
          if (is_shared(handle)) let_go(handle);
          return refused;
        });
        passes.end_of_one();
      }
      CHECK(LEDGER(fake_cuda_live)(FAKE_CUDA_EVENT, getpid()) <= 2);  // events are reused
      storage = nullptr;
      CHECK_EQ(tenon_cuda_collect(), 0);
      CHECK_EQ(memory.back, 1);
    });
  }
}

// A failing call of the driver must not lose an event when there is no memory for the error. A
// process has 1,000 events, and the last ones are needed here.
TEST(CudaMalloc, EventsAreNotLost) {
  NEEDS_THE_FAKE("its calls do not fail when told to");
  for (const char* function : {"cuEventCreate", "cuIpcGetEventHandle", "cuEventRecord"}) {
    in_one([function] {
      Lendable memory(CudaTransport::kIpc);
      Ref<Storage> storage = memory.wrap();
      std::vector<tenon_cuda_handle> handles;
      const auto share_another = [&] {
        handles.push_back(share_it(storage));
        return handles.back().event_required == 1;
      };
      constexpr int kTries = 20;
      while (handles.size() < kCudaEvents - 2 * kTries) REQUIRE(share_another());
      until_enough(function, [&](long allowed) {
        bool refused = false;
        for (int i = 0; i < kTries; ++i) {
          LEDGER(fake_cuda_fail)(function, 1, CUDA_ERROR_ILLEGAL_ADDRESS);
          tenon_cuda_handle handle = no_handle();
          refused |= with_allocations(allowed, function, [&] {
            (void)tenon_share_cuda(as_c(storage), nullptr, nullptr, &handle, nullptr);
          });
          LEDGER(fake_cuda_fail)(function, 1, CUDA_SUCCESS);
          if (handle.nbytes != 0) let_go(handle);
        }
        return refused;
      });
      for (int i = 0; i < 2 * kTries; ++i) CHECK(share_another());
      CHECK(!share_another());
      for (const tenon_cuda_handle& each : handles) let_go(each);
      storage = nullptr;
      CHECK_EQ(tenon_cuda_collect(), 0);
    });
  }
}

// ---- what cannot fail

// A storage ends and is collected without memory, while it is still lent and a stream that uses it
// has not passed.
TEST(CudaMalloc, StoragesEnd) {
  NEEDS_THE_FAKE("a driver has needs of its own");
  in_one([] {
    Lendable memory(CudaTransport::kFd);
    Passes passes;
    for (int pass = 0; pass < kPasses; ++pass) {
      CUstream stream = nullptr;
      REQUIRE(driver().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
      for (const auto& [lent, used] : {std::pair{true, false}, std::pair{false, true},
                                       std::pair{true, true}, std::pair{false, false}}) {
        until_enough("the end of a storage", [&, lent = lent, used = used](long allowed) {
          Gate gate;
          memory.back = 0;
          Ref<Storage> storage = memory.wrap();
          const tenon_cuda_handle handle = lent ? share_it(storage) : no_handle();
          if (used) {
            gate.stand_in(stream);
            fail_at_every_allocation(
                "tenon_storage_record_stream",
                [&](tenon_error** err) {
                  return tenon_storage_record_stream(as_c(storage), stream, err);
                },
                [](bool, const auto&) {});
          }
          bool refused =
              with_allocations(allowed, "tenon_storage_release", [&] { storage = nullptr; });
          CHECK_EQ(memory.back, lent || used ? 0 : 1);
          refused |= with_allocations(allowed, "tenon_cuda_collect", [&] {
            CHECK_EQ(tenon_cuda_collect(), lent || used ? 1 : 0);
          });
          CHECK_EQ(memory.back, lent || used ? 0 : 1);
          if (used) gate.open();
          if (lent) let_go(handle);
          refused |=
              with_allocations(allowed, "tenon_cuda_collect", [&] { (void)tenon_cuda_collect(); });
          CHECK(wait_until([&] { return tenon_cuda_collect() == 0; }));
          CHECK_EQ(memory.back, 1);
          return refused;
        });
      }
      REQUIRE(driver().cuStreamDestroy(stream) == CUDA_SUCCESS);
      passes.end_of_one();
    }
  });
}

// The first events of this process are reused. So are many events at once.
TEST(CudaMalloc, MessagesEnd) {
  NEEDS_THE_FAKE("a driver has needs of its own");
  for (const long allowed : {0, 1, 2, 3}) {
    in_one([allowed] {
      Lendable memory(CudaTransport::kIpc);
      Ref<Storage> storage = memory.wrap();
      for (const int count : {1, 2, 40}) {
        std::vector<tenon_cuda_handle> handles;
        for (int i = 0; i < count; ++i) handles.push_back(share_it(storage));
        for (const tenon_cuda_handle& each : handles) let_go(each);
        const Ref<Storage> other = memory.wrap();  // sharing it checks what is pending
        tenon_cuda_handle handle = no_handle();
        with_allocations(allowed, "tenon_share_cuda", [&] {
          (void)tenon_share_cuda(as_c(storage), nullptr, nullptr, &handle, nullptr);
        });
        if (handle.nbytes != 0) let_go(handle);
      }
      std::vector<tenon_cuda_handle> handles;
      for (int i = 0; i < 100; ++i) handles.push_back(share_it(storage));
      storage = nullptr;
      for (const tenon_cuda_handle& each : handles) let_go(each);
      with_allocations(allowed, "tenon_cuda_collect", [&] { (void)tenon_cuda_collect(); });
      CHECK_EQ(tenon_cuda_collect(), 0);
      CHECK_EQ(LEDGER(fake_cuda_live)(FAKE_CUDA_EVENT, getpid()), 100);
      storage = memory.wrap();
      const tenon_cuda_handle again = share_it(storage);
      CHECK_EQ(again.event_required, 1);
      let_go(again);
      storage = nullptr;
      CHECK_EQ(tenon_cuda_collect(), 0);
    });
  }
}

// ---- opening

// Lends new memory for each handle that the other side asks for. Only the handle keeps the memory.
void lend_by(Line& line, CudaTransport way) {
  begin();
  unsigned char byte = 0;
  while (line.receive_as<char>() == 'n') {
    Lendable memory(way, kNbytes, ++byte);
    line.send(share(memory.wrap()));
    line.send_as(byte);
    line.expect('f');
    CHECK_EQ(tenon_cuda_collect(), 1);
    CHECK_EQ(memory.back, 0);
    line.ask('r', 'd');
    CHECK_EQ(tenon_cuda_collect(), 0);
    CHECK_EQ(memory.back, 1);
  }
  EXPECT_EQ(fault::g_failures, 0);
}

tenon_cuda_handle as_c_handle(const CudaHandle& from) {
  tenon_cuda_handle handle = no_handle();
  handle.device = from.device;
  std::copy(from.uuid.begin(), from.uuid.end(), reinterpret_cast<std::byte*>(handle.uuid));
  handle.nbytes = from.nbytes;
  handle.offset = from.offset;
  handle.slot = from.slot;
  handle.event_required = from.has_event ? 1 : 0;
  handle.memory_nbytes = static_cast<uint32_t>(from.memory.size());
  std::copy(from.memory.begin(), from.memory.end(), reinterpret_cast<std::byte*>(handle.memory));
  std::memcpy(handle.event, from.event.data(), sizeof handle.event);
  std::snprintf(handle.counter, sizeof handle.counter, "%s", from.counter.c_str());
  handle.fds = from.fds.data();
  handle.n_fds = static_cast<uint32_t>(from.fds.size());
  return handle;
}

// On failure nothing is open, and the handle can still be opened. Returns false if no allocation
// was refused.
bool open_with(Line& line, long allowed, const tenon_cuda_options* options) {
  line.say('n');
  // The CudaHandle is not counted, because `line` keeps the fds that came with it.
  std::unique_ptr<CudaHandle> came =
      uncounted([&] { return std::make_unique<CudaHandle>(line.receive()); });
  const auto byte = line.receive_as<unsigned char>();
  const tenon_cuda_handle handle = as_c_handle(*came);
  const long fds = fault::count_open_fds();
  const uint64_t open_before = opened_here();
  tenon_storage* storage = nullptr;
  tenon_error* error = nullptr;
  tenon_status status = TENON_OK;
  const bool refused = with_allocations(allowed, "tenon_open_cuda", [&] {
    status = tenon_open_cuda(&handle, nullptr, options, &storage, &error);
  });
  const fault::Outcome outcome = fault::read_error(status, error);
  const std::string where = std::to_string(allowed) + " allocations: " + outcome.text();
  CHECK_SAYING(outcome.ok() == (storage != nullptr) &&
                   (outcome.ok() || (refused && status == TENON_RESOURCE_EXHAUSTED)),
               where);
  CHECK_SAYING(counter_of(handle) == 1,
               where + ": the counter is " + std::to_string(counter_of(handle)));
  if (storage == nullptr) {
    CHECK_SAYING(tenon_cuda_collect() == 0, where);
    // The library's thread may have a few fds for a moment.
    CHECK_SAYING(wait_until([&] { return fault::count_open_fds() <= fds; }), where);
    CHECK_SAYING(opened_here() == open_before,
                 where + ": open is " + std::to_string(opened_here()));
  }
  line.ask('f', 'r');
  if (storage == nullptr && !CHECK_OK(tenon_open_cuda(&handle, nullptr, options, &storage, err)))
    _exit(1);
  CHECK_SAYING(
      byte_at(pointer_of(storage)) == byte && byte_at(pointer_of(storage) + kNbytes - 1) == byte,
      where);
  CHECK_EQ(counter_of(handle), 1);
  with_allocations(allowed, "tenon_storage_release", [&] { tenon_storage_release(storage); });
  CHECK_SAYING(tenon_cuda_collect() == 0 && opened_here() == open_before, where);
  CHECK_EQ(counter_of(handle), 0);
  uncounted([&] {
    came = nullptr;
    line.close_fds();
    return 0;
  });
  line.say('d');
  return refused;
}
void open_at_every_allocation(CudaTransport way, uint32_t flags,
                              const std::vector<std::string>& environment = {}) {
  in_two(
      environment, [way](Line& line) { lend_by(line, way); },
      [flags](Line& line) {
        begin();
        auto options = tenon::test::sized<tenon_cuda_options>();
        options.flags = flags;
        Passes passes;
        for (int pass = 0; pass < kPasses; ++pass) {
          until_enough("tenon_open_cuda",
                       [&](long allowed) { return open_with(line, allowed, &options); });
          passes.end_of_one();
        }
        line.say('e');
        EXPECT_EQ(fault::g_failures, 0);
      });
}
TEST(CudaMalloc, Opens) {
  NEEDS_THE_FAKE("a driver has needs of its own");
  for (const CudaTransport way : kWays) open_at_every_allocation(way, 0);
}
TEST(CudaMalloc, OpensAndKeepsOpen) {
  NEEDS_THE_FAKE("a driver has needs of its own");
  open_at_every_allocation(CudaTransport::kIpc, TENON_CUDA_KEEP_OPEN);
}
TEST(CudaMalloc, OpensWhereTheDeviceHasNoEventsToSend) {
  NEEDS_THE_FAKE("its devices have what they have");
  open_at_every_allocation(CudaTransport::kFd, TENON_CUDA_READ_ONLY, {"FAKE_CUDA_IPC=0"});
}

// Opens further handles of memory that is already open.
TEST(CudaMalloc, OpensAgain) {
  NEEDS_THE_FAKE("a driver has needs of its own");
  in_two(
      {},
      [](Line& line) {
        begin();
        Lendable memory(CudaTransport::kIpc);
        Ref<Storage> storage = memory.wrap();
        while (line.receive_as<char>() == 'n') line.send_as(share_it(storage));
        storage = nullptr;
        CHECK_EQ(tenon_cuda_collect(), 0);
        CHECK_EQ(memory.back, 1);
        EXPECT_EQ(fault::g_failures, 0);
      },
      [](Line& line) {
        begin();
        line.say('n');
        auto handle = line.receive_as<tenon_cuda_handle>();
        tenon_storage* kept = nullptr;
        REQUIRE_OK(tenon_open_cuda(&handle, nullptr, nullptr, &kept, err));
        const auto next = [&] {
          line.say('n');
          handle = line.receive_as<tenon_cuda_handle>();
        };
        Passes passes;
        for (int pass = 0; pass < kPasses; ++pass) {
          next();
          tenon_storage* storage = nullptr;
          fail_at_every_allocation(
              "tenon_open_cuda of what is open",
              [&](tenon_error** err) {
                return tenon_open_cuda(&handle, nullptr, nullptr, &storage, err);
              },
              [&](bool opened, const std::string& where) {
                CHECK_SAYING(storage == (opened ? kept : nullptr), where);
                CHECK_SAYING(counter_of(handle) == (opened ? 0 : 1),
                             where + ": the counter is " + std::to_string(counter_of(handle)));
                // Opens the same handle again after the failure.
                if (!opened && CHECK_OK(tenon_open_cuda(&handle, nullptr, nullptr, &storage, err)))
                  CHECK_EQ(counter_of(handle), 0);
                tenon_storage_release(std::exchange(storage, nullptr));
                next();
              });
          let_go(handle);
          passes.end_of_one();
        }
        tenon_storage_release(kept);
        CHECK_EQ(tenon_cuda_collect(), 0);
        EXPECT_EQ(fault::g_failures, 0);
        line.say('e');
      });
}

// Opens handles in the process that sent them, while the storage exists and after it was released.
TEST(CudaMalloc, OpensItsOwn) {
  NEEDS_THE_FAKE("a driver has needs of its own");
  in_one([] {
    Lendable memory(CudaTransport::kFd);
    Passes passes;
    for (int i = 0; i < 2 * kPasses; ++i) {
      const bool gone = i % 2 != 0;
      until_enough("tenon_open_cuda of this process's own", [&](long allowed) {
        memory.back = 0;
        Ref<Storage> storage = memory.wrap();
        const tenon_cuda_handle handle = share_it(storage);
        if (gone) storage = nullptr;
        tenon_storage* opened = nullptr;
        const bool refused = with_allocations(allowed, "tenon_open_cuda", [&] {
          (void)tenon_open_cuda(&handle, nullptr, nullptr, &opened, nullptr);
        });
        CHECK_EQ(counter_of(handle), opened != nullptr && !gone ? 0 : 1);
        CHECK_EQ(tenon_cuda_collect(), gone ? 1 : 0);
        CHECK_EQ(memory.back, 0);
        if (opened == nullptr) REQUIRE_OK(tenon_open_cuda(&handle, nullptr, nullptr, &opened, err));
        CHECK_EQ(byte_at(pointer_of(opened)), 7);
        with_allocations(allowed, "tenon_storage_release", [&] { tenon_storage_release(opened); });
        storage = nullptr;
        CHECK_EQ(tenon_cuda_collect(), 0);
        CHECK_EQ(counter_of(handle), 0);
        CHECK_EQ(memory.back, 1);
        return refused;
      });
      if (gone) passes.end_of_one();
    }
  });
}

}  // namespace
}  // namespace cuda_test

#else
TEST(CudaMalloc, Injection) {
  GTEST_SKIP() << "skipped: the sanitizer stands in for malloc itself";
}
#endif

// Tests that every refusal of the driver is reported with its code, number and name, and that it
// leaves nothing behind.
#include <tenon/tenon.h>

#include <filesystem>

#include "connected_kit.h"
#include "details.h"
#include "support/open_fds.h"
#include "support/sized.h"

namespace cuda_test {
namespace {

struct Told {
  Code code = Code::kOk;
  std::string number;
  std::string name;
  std::string message;
};
Told told(const Status& status) {
  return {status.code(), std::string(status.detail("cuda_error")),
          std::string(status.detail("cuda_error_name")), status.is_ok() ? "" : status.message()};
}
using CCall = std::function<tenon_status(tenon_error**)>;
Told told_by_c(const CCall& call) {
  tenon_error* error = nullptr;
  const tenon_status status = call(&error);
  const auto text = [&](const char* key) -> std::string {
    const char* const found = tenon_error_detail(error, key);
    return found != nullptr ? found : "";
  };
  Told result{static_cast<Code>(status), text("cuda_error"), text("cuda_error_name"),
              tenon_error_message(error)};
  EXPECT_EQ(tenon_error_code(error), status);
  tenon_error_release(error);
  return result;
}

struct Error {
  CUresult result;
  Code code;
  const char* name;
};
// One error for each code that a caller can react to. The driver gives the first to a process that
// lacks a permission.
constexpr Error kErrors[] = {
    {CUDA_ERROR_NOT_PERMITTED, Code::kPermission, "CUDA_ERROR_NOT_PERMITTED"},
    {CUDA_ERROR_OUT_OF_MEMORY, Code::kResourceExhausted, "CUDA_ERROR_OUT_OF_MEMORY"},
    {CUDA_ERROR_NOT_SUPPORTED, Code::kUnsupported, "CUDA_ERROR_NOT_SUPPORTED"},
    {CUDA_ERROR_INVALID_HANDLE, Code::kInvalidArgument, "CUDA_ERROR_INVALID_HANDLE"},
    {CUDA_ERROR_ECC_UNCORRECTABLE, Code::kIo, "CUDA_ERROR_ECC_UNCORRECTABLE"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, Code::kIo, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {CUDA_ERROR_UNKNOWN, Code::kIo, "CUDA_ERROR_UNKNOWN"},
};

void expect_told(const Told& told, const Error& error) {
  EXPECT_EQ(told.code, error.code) << told.message;
  EXPECT_EQ(told.number, std::to_string(static_cast<int>(error.result))) << told.message;
  EXPECT_EQ(told.name, error.name) << told.message;
}

// Counts the driver's objects that this process has, by kind, and its fds.
std::vector<uint64_t> held() {
  std::vector<uint64_t> counts;
  for (int32_t kind = 1; kind < FAKE_CUDA_KINDS; ++kind)
    counts.push_back(LEDGER(fake_cuda_live)(kind, getpid()));
  counts.push_back(static_cast<uint64_t>(tenon::test::count_open_fds()));
  return counts;
}

using Call = std::function<Told()>;
// kTwoIfFull: the library tries this call once more when the device is full. The test then lets
// both tries fail.
enum class Tries : uint8_t { kOne, kTwoIfFull };

// Lets the driver answer with each error once. The counts are compared from the second error on,
// because the first call may start things that stay, such as the library's thread.
void refuse(const char* function, const Call& call, Tries tries = Tries::kOne) {
  std::vector<uint64_t> before;
  for (const Error& error : kErrors) {
    SCOPED_TRACE(std::string(function) + ": " + error.name);
    const bool always = tries == Tries::kTwoIfFull && error.result == CUDA_ERROR_OUT_OF_MEMORY;
    fail_driver(function, always ? 0 : 1, error.result);
    expect_told(call(), error);
    fail_driver(function, 0, CUDA_SUCCESS);
    if (before.empty()) before = held();
    EXPECT_EQ(held(), before);
  }
}
void refuse_each(const std::vector<const char*>& functions, const Call& call,
                 Tries tries = Tries::kOne) {
  for (const char* function : functions) refuse(function, call, tries);
}

// ---- lending and opening

struct Way {
  CudaTransport transport;
  std::vector<const char*> lend;  // the driver's functions, in their order
  std::vector<const char*> open;
};

void lend_and_open(const Way& way) {
  NEEDS_THE_FAKE("its calls do not fail when told to");
  in_two(
      {"FAKE_CUDA_FABRIC=1"},
      [&](Line& line) {
        use_device();
        Lendable memory(way.transport, kPage);
        refuse("cuPointerGetAttributes", [&] { return told(memory.try_wrap().status()); });
        Ref<Storage> storage = memory.wrap();
        const auto share_it = [&] { return told(share_cuda(storage, nullptr, {}).status()); };
        refuse_each(way.lend, share_it);
        refuse_each({"cuCtxGetCurrent", "cuEventRecord"}, share_it);
        // Without an event the lend waits for the stream.
        fail_driver("cuEventCreate", 0, CUDA_ERROR_NOT_PERMITTED);
        refuse("cuStreamSynchronize", share_it);
        fail_driver("cuEventCreate", 0, CUDA_SUCCESS);
        line.send(share(storage));
        line.expect('o');
        storage = nullptr;
        EXPECT_EQ(collect_cuda(), 1U);  // one lend succeeded
        EXPECT_EQ(memory.back, 0);
        line.ask('r', 'd');
        EXPECT_TRUE(wait_until([] { return collect_cuda() == 0; }));
        EXPECT_EQ(memory.back, 1);
      },
      [&](Line& line) {
        use_device();
        const CudaHandle handle = line.receive();
        const auto open_it = [&] { return told(open_cuda(handle, nullptr, {}).status()); };
        refuse_each(way.open, open_it);
        refuse_each({"cuCtxGetCurrent", "cuPointerGetAttributes", "cuIpcOpenEventHandle",
                     "cuStreamWaitEvent"},
                    open_it);
        Ref<Storage> storage = open(handle);  // the handle is still good
        EXPECT_EQ(byte_at(pointer_of(storage) + kPage - 1), 7);
        line.ask('o', 'r');
        release_all(&storage);
        line.say('d');
      });
}
const std::vector<const char*> kExportPieces = {
    "cuMemGetAddressRange", "cuMemRetainAllocationHandle", "cuMemExportToShareableHandle"};
const std::vector<const char*> kMapPieces = {
    "cuMemAddressReserve", "cuMemImportFromShareableHandle", "cuMemMap", "cuMemSetAccess"};

TEST(CudaFaults, OfAnIpcHandle) {
  lend_and_open({CudaTransport::kIpc, {"cuIpcGetMemHandle"}, {"cuIpcOpenMemHandle"}});
}
TEST(CudaFaults, OfFds) { lend_and_open({CudaTransport::kFd, kExportPieces, kMapPieces}); }
TEST(CudaFaults, OfTheFabric) {
  if (expected_version() < 12030) GTEST_SKIP() << "a driver older than 12.3 has no fabric handles";
  lend_and_open({CudaTransport::kFabric, kExportPieces, kMapPieces});
}
TEST(CudaFaults, OfAPool) {
  lend_and_open({CudaTransport::kPool,
                 {"cuMemPoolExportToShareableHandle", "cuMemPoolExportPointer"},
                 {"cuMemPoolImportFromShareableHandle", "cuMemPoolImportPointer"}});
}

// ---- the other objects, by the C API

TEST(CudaFaults, OfArenas) {
  NEEDS_THE_FAKE("its calls do not fail when told to");
  in_child({}, [] {
    use_device();
    tenon_cuda_arena* arena = nullptr;
    const auto make = [&](tenon_cuda_transport transport) {
      return told_by_c([&](tenon_error** err) {
        const tenon_cuda_arena_options how = {sizeof how, 0, transport, kPage};
        return tenon_cuda_arena_new(&how, &arena, err);
      });
    };
    refuse_each(
        {"cuCtxGetCurrent", "cuMemAlloc", "cuPointerGetAttributes", "cuIpcGetMemHandle"},
        [&] { return make(TENON_CUDA_IPC); }, Tries::kTwoIfFull);
    refuse_each(
        {"cuCtxGetCurrent", "cuMemGetAllocationGranularity", "cuMemCreate", "cuMemAddressReserve",
         "cuMemMap", "cuMemSetAccess", "cuPointerGetAttributes", "cuMemGetAddressRange",
         "cuMemRetainAllocationHandle", "cuMemExportToShareableHandle"},
        [&] { return make(TENON_CUDA_FD); }, Tries::kTwoIfFull);
    EXPECT_EQ(arena, nullptr);
    EXPECT_EQ(make(TENON_CUDA_FD).code, Code::kOk);
    tenon_cuda_arena_release(arena);
    expect_nothing_left();
  });
}

TEST(CudaFaults, OfEvents) {
  NEEDS_THE_FAKE("its calls do not fail when told to");
  const tenon_cuda_event_options interprocess = {sizeof interprocess, TENON_CUDA_EVENT_INTERPROCESS,
                                                 0};
  in_two(
      {},
      [&](Line& line) {
        tenon_cuda_event* event = nullptr;
        IpcBytes handle{};
        ASSERT_EQ(tenon_cuda_event_new(&interprocess, &event, nullptr), TENON_OK);
        ASSERT_EQ(tenon_cuda_event_ipc_handle(event, handle.data(), nullptr), TENON_OK);
        line.send_as(handle);
        line.expect('d');
        tenon_cuda_event_release(event);
      },
      [&](Line& line) {
        const auto sent = line.receive_as<IpcBytes>();
        use_device();
        tenon_cuda_event* event = nullptr;
        ASSERT_EQ(tenon_cuda_event_new(&interprocess, &event, nullptr), TENON_OK);
        tenon_cuda_event* made = nullptr;
        IpcBytes handle{};
        int complete = 7;
        const tenon_wait bounded = {sizeof bounded, 1'000'000'000, nullptr, 0, 0};
        const auto refused = [](const char* function, const CCall& call) {
          refuse_each({function, "cuCtxGetCurrent"}, [&] { return told_by_c(call); });
        };
        refused("cuEventCreate",
                [&](tenon_error** err) { return tenon_cuda_event_new(&interprocess, &made, err); });
        const CCall open_sent = [&](tenon_error** err) {
          return tenon_cuda_event_from_ipc_handle(sent.data(), nullptr, &made, err);
        };
        refused("cuIpcOpenEventHandle", open_sent);
        refused("cuIpcGetEventHandle", [&](tenon_error** err) {
          return tenon_cuda_event_ipc_handle(event, handle.data(), err);
        });
        refused("cuEventRecord",
                [&](tenon_error** err) { return tenon_cuda_event_record(event, nullptr, err); });
        refused("cuStreamWaitEvent",
                [&](tenon_error** err) { return tenon_cuda_event_wait(event, nullptr, err); });
        refused("cuEventQuery",
                [&](tenon_error** err) { return tenon_cuda_event_query(event, &complete, err); });
        refused("cuEventQuery", [&](tenon_error** err) {
          return tenon_cuda_event_synchronize(event, &bounded, err);
        });
        refused("cuEventSynchronize", [&](tenon_error** err) {
          return tenon_cuda_event_synchronize(event, nullptr, err);
        });
        EXPECT_EQ(made, nullptr);
        EXPECT_EQ(complete, 7);
        EXPECT_EQ(handle, IpcBytes{});
        EXPECT_EQ(open_sent(nullptr), TENON_OK);  // the handle is still good
        tenon_cuda_event_release(made);
        tenon_cuda_event_release(event);
        line.say('d');
      });
}

// These tests order streams, and share in another stream than the one that used the storage.
TEST(CudaFaults, OfStreams) {
  NEEDS_THE_FAKE("its calls do not fail when told to");
  in_child({}, [] {
    use_device();
    Memory memory(kNbytes);
    Ref<Storage> storage = wrap(&memory);
    CUstream other = nullptr;
    CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    EXPECT_TRUE(record_stream(*storage, nullptr).is_ok());
    const auto order = [&] { return told(order_stream(*storage, other)); };
    refuse_each({"cuEventCreate", "cuEventRecord", "cuStreamWaitEvent"}, order);
    refuse("cuStreamGetCtx", [&] { return told(share_cuda(storage, other, {}).status()); });
    EXPECT_EQ(order().code, Code::kOk);
    release_all(&storage);
    EXPECT_EQ(memory.freed, 1);
    CU(cuStreamDestroy(other));
    expect_nothing_left();
  });
}

TEST(CudaFaults, OfPinnedMemory) {
  NEEDS_THE_FAKE("its calls do not fail when told to");
  in_child({}, [] {
    use_device();
    for (const tenon_mode mode : {TENON_MODE_SHARED, TENON_MODE_FROZEN}) {
      auto how = tenon::test::sized<tenon_storage_options>();
      how.mode = mode;
      how.flags = TENON_STORAGE_ISOLATED;
      tenon_storage* storage = nullptr;
      ASSERT_EQ(tenon_storage_new(&how, kNbytes, &storage, nullptr), TENON_OK);
      std::vector<const char*> functions = {"cuCtxGetCurrent", "cuMemHostRegister",
                                            "cuMemHostGetDevicePointer"};
      if (mode == TENON_MODE_FROZEN) {
        ASSERT_EQ(tenon_storage_freeze(storage, nullptr), TENON_OK);
        // The library first asks whether the device can map memory read-only.
        functions.insert(functions.begin(), {"cuDeviceGet", "cuDeviceGetAttribute"});
      }
      void* address = nullptr;
      const CCall pin = [&](tenon_error** err) {
        return tenon_storage_pin(storage, 0, &address, err);
      };
      refuse_each(functions, [&] { return told_by_c(pin); });
      EXPECT_EQ(address, nullptr);
      EXPECT_EQ(pin(nullptr), TENON_OK);
      EXPECT_NE(address, nullptr);
      tenon_storage_release(storage);
    }
    EXPECT_COUNT(0U, fake_cuda_live, FAKE_CUDA_HOST_REGISTRATION, getpid());
    EXPECT_COUNT(0U, fake_cuda_faults, 0);
  });
}

// ---- freed by its owner

// Checks that the error quotes the driver. Which words it quotes depends on the driver.
void expect_no_memory(const Status& status) {
  const Told got = told(status);
  EXPECT_TRUE(got.code == Code::kInvalidArgument || got.code == Code::kUnsupported ||
              got.code == Code::kNotFound)
      << got.message;
  EXPECT_NE(got.number, "") << got.message;
  EXPECT_EQ(got.name.rfind("CUDA_ERROR_", 0), 0U) << got.message;
}

TEST(CudaFaults, MemoryThatItsOwnerFreedIsNeitherWrappedNorLent) {
  NEEDS_THE_FAKE("what a real one makes of a pointer that is used again is its own affair");
  for (const CudaTransport transport :
       {CudaTransport::kIpc, CudaTransport::kFd, CudaTransport::kPool}) {
    in_child({}, [&] {
      use_device();
      {
        Socket ends;
        const auto [here, there] = ends.connect_both();
        Lendable memory(transport, kPage);
        Ref<Storage> storage = memory.wrap();
        auto* const data =
            reinterpret_cast<std::byte*>(static_cast<uintptr_t>(pointer_of(storage)));
        memory.free();
        for (const uint64_t offset : {uint64_t{0}, kPage - 1}) {
          const Status wrapped = wrap_cuda(data + offset, 1, 0, nullptr, nullptr, false).status();
          EXPECT_EQ(wrapped.code(), Code::kInvalidArgument) << wrapped.message();
        }
        expect_no_memory(share_cuda(storage, nullptr, {}).status());
        expect_no_memory(try_send(*here, {storage}));
        EXPECT_EQ(storage->strong_count(), 1U);
        release_all(&storage);
        EXPECT_EQ(memory.back, 1);
      }
      expect_nothing_left();
    });
  }
}

}  // namespace
}  // namespace cuda_test

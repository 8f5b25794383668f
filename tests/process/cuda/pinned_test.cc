// Tests shared host memory that devices reach, through the C API. What one process's device writes
// there, another process's device reads.
#include <tenon/tenon.h>

#include <atomic>
#include <memory>
#include <thread>

#include "gate.h"
#include "support/sized.h"
#include "support/threads.h"

namespace cuda_test {
namespace {

struct ReleasePinned {
  void operator()(tenon_storage* storage) const { tenon_storage_release(storage); }
  void operator()(tenon_arena* arena) const { tenon_arena_release(arena); }
  void operator()(tenon_tensor* tensor) const { tenon_tensor_release(tensor); }
  void operator()(tenon_message* message) const { tenon_message_release(message); }
  void operator()(tenon_connection* connection) const { tenon_connection_release(connection); }
  void operator()(tenon_error* error) const { tenon_error_release(error); }
};
using StoragePointer = std::unique_ptr<tenon_storage, ReleasePinned>;
using ArenaPointer = std::unique_ptr<tenon_arena, ReleasePinned>;
using PinnedErrorPointer = std::unique_ptr<tenon_error, ReleasePinned>;

#define OK(call) ASSERT_EQ(call, TENON_OK)

constexpr uint64_t kSegmentNbytes = uint64_t{64} << 20;  // of a default home

struct How {
  uint32_t flags = 0;
  tenon_mode mode = TENON_MODE_SHARED;
  tenon_arena* arena = nullptr;
  uint64_t nbytes = kNbytes;
};
StoragePointer new_storage(const How& wanted) {
  auto how = tenon::test::sized<tenon_storage_options>();
  how.mode = wanted.mode;
  how.flags = wanted.flags;
  how.arena = wanted.arena;
  tenon_storage* out = nullptr;
  tenon_error* error = nullptr;
  EXPECT_EQ(tenon_storage_new(&how, wanted.nbytes, &out, &error), TENON_OK)
      << tenon_error_message(error);
  return StoragePointer(out);
}
StoragePointer new_isolated(tenon_mode mode = TENON_MODE_SHARED) {
  return new_storage({.flags = TENON_STORAGE_ISOLATED, .mode = mode});
}
ArenaPointer new_pinned_arena(uint64_t capacity_nbytes) {
  auto how = tenon::test::sized<tenon_arena_options>();
  how.capacity_nbytes = capacity_nbytes;
  tenon_arena* out = nullptr;
  EXPECT_EQ(tenon_arena_new(&how, &out, nullptr), TENON_OK);
  return ArenaPointer(out);
}
uint64_t reserved_of(const ArenaPointer& arena) {
  auto stats = tenon::test::sized<tenon_arena_stats>();
  EXPECT_EQ(tenon_arena_stats_get(arena.get(), &stats, nullptr), TENON_OK);
  return stats.bytes_reserved;
}
uint64_t reserved_here() {
  auto stats = tenon::test::sized<tenon_stats>();
  EXPECT_EQ(tenon_stats_get(&stats, nullptr), TENON_OK);
  return stats.bytes_reserved;
}

// Returns the address for the device, or null on failure.
void* pin(const StoragePointer& storage, int32_t device = 0) {
  void* address = nullptr;
  tenon_error* error = nullptr;
  EXPECT_EQ(tenon_storage_pin(storage.get(), device, &address, &error), TENON_OK)
      << tenon_error_message(error);
  EXPECT_EQ(tenon_storage_is_pinned(storage.get()), address != nullptr ? 1 : 0);
  return address;
}
PinnedErrorPointer refused(tenon_storage* storage, tenon_status status, int32_t device = 0) {
  int untouched = 0;
  void* address = &untouched;
  tenon_error* error = nullptr;
  EXPECT_EQ(tenon_storage_pin(storage, device, &address, &error), status)
      << tenon_error_message(error);
  EXPECT_EQ(address, &untouched);
  return PinnedErrorPointer(error);
}
std::string error_message_of(const PinnedErrorPointer& error) {
  return tenon_error_message(error.get());
}
std::string detail_of(const PinnedErrorPointer& error, const char* key) {
  const char* const found = tenon_error_detail(error.get(), key);
  return found != nullptr ? found : "";
}

CUdeviceptr as_pointer(const void* address) { return reinterpret_cast<uintptr_t>(address); }
int first_byte(const StoragePointer& storage) {
  return *static_cast<const unsigned char*>(tenon_storage_data(storage.get()));
}
// Copies in a new stream, beside the host.
void copy(CUdeviceptr to, CUdeviceptr from) {
  CUstream stream = nullptr;
  CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CU(cuMemcpyAsync(to, from, kNbytes, stream));
  CU(cuStreamSynchronize(stream));
  CU(cuStreamDestroy(stream));
}

void expect_registered(uint64_t calls, uint64_t live, pid_t pid = getpid()) {
  EXPECT_COUNT(calls, fake_cuda_calls, "cuMemHostRegister", pid);
  EXPECT_COUNT(live, fake_cuda_live, FAKE_CUDA_HOST_REGISTRATION, pid);
}

// A connection between two processes. The sockets are made before the fork of the processes.
class Ends {
 public:
  Ends() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends_.data()), 0); }
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;
  ~Ends() {
    for (const int end : ends_) close(end);
  }
  void send(const StoragePointer& storage) {
    connect(0);
    const int64_t size = kNbytes;
    auto spec = tenon::test::sized<tenon_tensor_spec>();
    spec.dtype = {1, 8, 1};
    spec.ndim = 1;
    spec.sizes = &size;
    tenon_tensor* tensor = nullptr;
    tenon_message* message = nullptr;
    OK(tenon_tensor_new(storage.get(), &spec, &tensor, nullptr));
    const std::unique_ptr<tenon_tensor, ReleasePinned> tensor_kept(tensor);
    OK(tenon_message_new(&message, nullptr));
    const std::unique_ptr<tenon_message, ReleasePinned> message_kept(message);
    OK(tenon_message_add(message, &tensor, nullptr, 1, nullptr, nullptr));
    OK(tenon_send(connection_.get(), message, nullptr, nullptr));
  }
  StoragePointer receive() {
    connect(1);
    tenon_message* message = nullptr;
    tenon_error* error = nullptr;
    EXPECT_EQ(tenon_recv(connection_.get(), nullptr, &message, &error), TENON_OK)
        << tenon_error_message(error);
    const std::unique_ptr<tenon_message, ReleasePinned> kept(message);
    return StoragePointer(
        tenon_storage_retain(tenon_tensor_storage(tenon_message_tensor(message, 0))));
  }
  // Ends the connection, which may keep a segment that came over it.
  void end() { connection_ = nullptr; }

 private:
  void connect(size_t side) {
    tenon_connection* connection = nullptr;
    OK(tenon_connection_new(ends_[side], nullptr, &connection, nullptr));
    connection_.reset(connection);
  }
  std::array<int, 2> ends_{-1, -1};
  std::unique_ptr<tenon_connection, ReleasePinned> connection_;
};

// The sender's device fills memory that the receiver's device reads, and the reverse. Each process
// uses its own context of a device.
void both_ways(const std::vector<std::string>& environment,
               const std::vector<std::string>& of_receiver = {}) {
  Ends ends;
  in_two(
      environment,
      [&](Line& line) {
        use_device();
        Memory memory(kNbytes, 7);
        CU(cuStreamSynchronize(nullptr));
        StoragePointer storage = new_isolated();
        void* const address = pin(storage);
        copy(as_pointer(address), memory.pointer);
        EXPECT_EQ(first_byte(storage), 7);
        EXPECT_EQ(pin(storage), address);
        ends.send(storage);
        line.expect('w');
        expect_registered(1, 1);
        fill(memory.pointer, 0, kNbytes);
        CU(cuStreamSynchronize(nullptr));
        copy(memory.pointer, as_pointer(address));
        EXPECT_EQ(byte_at(memory.pointer), 9);
        EXPECT_EQ(byte_at(memory.pointer + kNbytes - 1), 9);
        storage = nullptr;
        ends.end();
        expect_registered(1, 0);
        CU(cuMemFree(memory.pointer));
        line.say('d');
      },
      [&](Line& line) {
        use_device();
        StoragePointer storage = ends.receive();
        EXPECT_EQ(tenon_storage_is_pinned(storage.get()), 0);
        void* const address = pin(storage);
        Memory memory(kNbytes);
        copy(memory.pointer, as_pointer(address));
        EXPECT_EQ(byte_at(memory.pointer), 7);
        EXPECT_EQ(byte_at(memory.pointer + kNbytes - 1), 7);
        fill(memory.pointer, 9, kNbytes);
        CU(cuStreamSynchronize(nullptr));
        copy(as_pointer(address), memory.pointer);
        line.ask('w', 'd');
        expect_registered(1, 1);
        storage = nullptr;
        ends.end();
        expect_registered(1, 0);
        CU(cuMemFree(memory.pointer));
      },
      of_receiver);
}

TEST(CudaPinned, WhatOneProcesssDeviceWritesTheOthersReads) { both_ways({}); }

void expect_no_way_to_lend(std::vector<std::string> environment) {
  environment.insert(environment.end(), {"FAKE_CUDA_VMM=0", "FAKE_CUDA_POOLS=0"});
  in_child(environment, [] {
    use_device();
    Memory memory(kNbytes);
    Ref<Storage> storage = wrap(&memory);
    const Status status = share_cuda(storage, nullptr, {}).status();
    EXPECT_EQ(status.code(), Code::kUnsupported);
    EXPECT_NE(
        status.message().find("integrated GPUs): copy it into pinned host memory, and lend that"),
        std::string::npos)
        << status.message();
  });
}

// Each of the two MIG instances is a device of its own, and memory of neither can be lent by legacy
// IPC.
TEST(CudaPinned, WhereThereIsMig) {
  NEEDS_THE_FAKE("it has no MIG unless told so");
  expect_no_way_to_lend({"FAKE_CUDA_DEVICES=mig=64,mig=64"});
  both_ways({"FAKE_CUDA_DEVICES=mig=64,mig=64"}, {"CUDA_VISIBLE_DEVICES=1"});
}

TEST(CudaPinned, WhereTheDeviceIsIntegrated) {
  NEEDS_THE_FAKE("it is integrated when told so");
  const std::vector<std::string> integrated = {"FAKE_CUDA_INTEGRATED=1", "FAKE_CUDA_IPC=0"};
  expect_no_way_to_lend(integrated);
  both_ways(integrated);
}

TEST(CudaPinned, WhoMayOnlyReadPinsToRead) {
  const auto registers_to_read = [] {
    int supported = 0;
    constexpr auto kSupported = CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED;
    return driver().cuDeviceGetAttribute(&supported, kSupported, 0) == CUDA_SUCCESS &&
           supported != 0;
  };
  NEEDS_OF_A_REAL_DEVICE(registers_to_read, "it cannot be kept from writing to what it registers");
  Ends ends;
  in_two(
      {},
      [&](Line& line) {
        use_device();
        StoragePointer storage = new_isolated(TENON_MODE_LENDER_WRITES);
        void* data = nullptr;
        OK(tenon_storage_data_mut(storage.get(), &data, nullptr));
        std::memset(data, 3, kNbytes);
        ends.send(storage);
        line.expect('d');
      },
      [&](Line& line) {
        use_device();
        StoragePointer storage = ends.receive();
        EXPECT_EQ(tenon_storage_is_read_only(storage.get()), 1);
        void* const address = pin(storage);
        Memory memory(kNbytes);
        copy(memory.pointer, as_pointer(address));
        EXPECT_EQ(byte_at(memory.pointer), 3);
        CU(cuMemFree(memory.pointer));
        storage = nullptr;
        ends.end();
        expect_registered(1, 0);
        line.say('d');
      });
}

TEST(CudaPinned, ADeviceThatCannotBeKeptFromWriting) {
  NEEDS_THE_FAKE("its device is told what it lacks");
  in_child({"FAKE_CUDA_READ_ONLY=0"}, [] {
    StoragePointer storage = new_isolated(TENON_MODE_FROZEN);
    // The kernel refuses to seal memory while a device may have it mapped for writing.
    EXPECT_NE(error_message_of(refused(storage.get(), TENON_PERMISSION)).find("not frozen yet"),
              std::string::npos);
    OK(tenon_storage_freeze(storage.get(), nullptr));
    EXPECT_NE(error_message_of(refused(storage.get(), TENON_UNSUPPORTED))
                  .find("cannot be kept from writing"),
              std::string::npos);
    expect_registered(0, 0);
    EXPECT_NE(pin(new_isolated()), nullptr);
  });
}

TEST(CudaPinned, OnceForAllStoragesOfASegment) {
  in_child({}, [] {
    use_device();
    StoragePointer one = new_storage({});
    StoragePointer other = new_storage({});
    EXPECT_LT(reserved_here(), kSegmentNbytes);
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        const StoragePointer& mine = i % 2 == 0 ? one : other;
        ++ready;
        while (ready < 4) std::this_thread::yield();
        EXPECT_EQ(pin(mine), tenon_storage_data(mine.get()));
      });
    }
    for (std::thread& thread : threads) thread.join();
    expect_registered(1, 1);
    EXPECT_EQ(reserved_here(), kSegmentNbytes);
    // A storage that is born later in the pinned segment is pinned, too.
    StoragePointer third = new_storage({});
    EXPECT_EQ(tenon_storage_is_pinned(third.get()), 1);
    EXPECT_EQ(reserved_here(), kSegmentNbytes);
    for (StoragePointer* each : {&one, &other, &third}) each->reset();
    expect_registered(1, 1);
    EXPECT_EQ(tenon_storage_trim(), kSegmentNbytes);
    expect_registered(1, 0);
    EXPECT_EQ(reserved_here(), 0U);
  });
}

TEST(CudaPinned, AnArenaHasToBeReserved) {
  in_child({}, [] {
    constexpr uint64_t kCapacity = uint64_t{1} << 20;
    ArenaPointer huge = new_pinned_arena(0);
    StoragePointer storage = new_storage({.arena = huge.get()});
    auto stats = tenon::test::sized<tenon_arena_stats>();
    OK(tenon_arena_stats_get(huge.get(), &stats, nullptr));
    const PinnedErrorPointer error = refused(storage.get(), TENON_RESOURCE_EXHAUSTED);
    EXPECT_EQ(detail_of(error, "wanted"), std::to_string(stats.bytes_capacity));
    EXPECT_EQ(detail_of(error, "limit_value"), std::to_string(stats.bytes_reserved));
    EXPECT_NE(error_message_of(error).find(std::to_string(stats.bytes_capacity)), std::string::npos)
        << error_message_of(error);
    EXPECT_EQ(reserved_of(huge), stats.bytes_reserved);
    expect_registered(0, 0);

    ArenaPointer small = new_pinned_arena(kCapacity);
    StoragePointer inside = new_storage({.arena = small.get()});
    (void)refused(inside.get(), TENON_RESOURCE_EXHAUSTED);
    OK(tenon_arena_reserve(small.get(), kCapacity, nullptr));
    EXPECT_NE(pin(inside), nullptr);
    EXPECT_EQ(reserved_of(small), kCapacity);
    small = nullptr;
    expect_registered(1, 1);
    inside = nullptr;
    expect_registered(1, 0);
  });
}

TEST(CudaPinned, ABorrowerMakesNoneOfALendersArena) {
  Ends ends;
  in_two(
      {},
      [&](Line& line) {
        ArenaPointer huge = new_pinned_arena(0);
        StoragePointer storage = new_storage({.arena = huge.get()});
        ends.send(storage);
        line.expect('d');
        EXPECT_LT(reserved_of(huge), kSegmentNbytes);
        (void)driver();
      },
      [&](Line& line) {
        StoragePointer storage = ends.receive();
        const PinnedErrorPointer error = refused(storage.get(), TENON_RESOURCE_EXHAUSTED);
        EXPECT_NE(error_message_of(error).find("where it was made"), std::string::npos)
            << error_message_of(error);
        expect_registered(0, 0);
        line.say('d');
      });
}

// The library's thread notices the end of the last lease and ends the arena. It does not wait for
// the device's work.
TEST(CudaPinned, TheLastLeaseOfAnArenaWhoseDeviceIsAtWork) {
  NEEDS_THE_FAKE("whether the driver waits there is the driver's affair");
  Ends ends;
  in_two(
      {},
      [&](Line& line) {
        use_device();
        constexpr uint64_t kCapacity = uint64_t{1} << 20;
        ArenaPointer arena = new_pinned_arena(kCapacity);
        OK(tenon_arena_reserve(arena.get(), kCapacity, nullptr));
        StoragePointer storage = new_storage({.arena = arena.get()});
        EXPECT_NE(pin(storage), nullptr);
        CUstream stream = nullptr;
        CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        Gate gate;
        gate.stand_in(stream);
        ends.send(storage);
        line.expect('h');
        ends.end();
        storage = nullptr;
        arena = nullptr;
        expect_registered(1, 1);
        line.say('e');
        EXPECT_TRUE(wait_until([] { return count_threads("tenon-end") == 1; }));
        EXPECT_EQ(count_threads("tenon"), 1U);
        expect_registered(1, 1);
        gate.open();
        EXPECT_TRUE(wait_until([] { return count_threads("tenon-end") == 0; }));
        expect_registered(1, 0);
        CU(cuStreamDestroy(stream));
      },
      [&](Line& line) {
        StoragePointer storage = ends.receive();
        line.ask('h', 'e');
        storage = nullptr;
        ends.end();
      });
}

TEST(CudaPinned, ForTwoDevices) {
  NEEDS_THE_FAKE("it has two devices when told so");
  in_child({"FAKE_CUDA_DEVICES=gpu=64,gpu=64"}, [] {
    StoragePointer storage = new_isolated();
    void* const address = pin(storage, 0);
    EXPECT_EQ(pin(storage, 1), address);
    expect_registered(1, 1);
    use_device(1);
    Memory memory(kNbytes, 4);
    CU(cuStreamSynchronize(nullptr));
    copy(as_pointer(address), memory.pointer);
    EXPECT_EQ(first_byte(storage), 4);
    CU(cuMemFree(memory.pointer));
    storage = nullptr;
    expect_registered(1, 0);
  });
}

TEST(CudaPinned, WhatIsNotPinned) {
  in_child({}, [] {
    use_device();
    char bytes[64] = {};
    tenon_storage* wrapped = nullptr;
    OK(tenon_storage_wrap(bytes, sizeof bytes, nullptr, nullptr, nullptr, &wrapped, nullptr));
    const StoragePointer kept(wrapped);
    EXPECT_EQ(detail_of(refused(wrapped, TENON_UNSUPPORTED), "option"), "tenon_storage_new_from");
    (void)refused(new_storage({.flags = TENON_STORAGE_PRIVATE}).get(), TENON_UNSUPPORTED);
    StoragePointer shared = new_isolated();
    (void)refused(shared.get(), TENON_INVALID_ARGUMENT, 200);
    (void)refused(shared.get(), TENON_INVALID_ARGUMENT, -1);
    Memory memory(kNbytes);
    Ref<Storage> on_device = wrap(&memory);
    (void)refused(reinterpret_cast<tenon_storage*>(on_device.get()), TENON_INVALID_ARGUMENT);
    on_device = nullptr;
    const StoragePointer empty = new_storage({.nbytes = 0});
    EXPECT_EQ(pin(empty), nullptr);
    expect_registered(0, 0);
  });
}

TEST(CudaPinned, AFailedDriverCallLeavesNothing) {
  NEEDS_THE_FAKE("its calls do not fail when told to");
  in_child({}, [] {
    use_device();
    StoragePointer storage = new_isolated();
    LEDGER(fake_cuda_fail)("cuMemHostRegister", 1, CUDA_ERROR_OUT_OF_MEMORY);
    const PinnedErrorPointer error = refused(storage.get(), TENON_RESOURCE_EXHAUSTED);
    EXPECT_EQ(detail_of(error, "cuda_error"), "2");
    EXPECT_EQ(detail_of(error, "cuda_error_name"), "CUDA_ERROR_OUT_OF_MEMORY");
    EXPECT_EQ(tenon_storage_is_pinned(storage.get()), 0);
    expect_registered(1, 0);
    // The registration stays, because it belongs to the segment.
    LEDGER(fake_cuda_fail)("cuMemHostGetDevicePointer", 1, CUDA_ERROR_ECC_UNCORRECTABLE);
    (void)refused(storage.get(), TENON_IO);
    expect_registered(2, 1);
    EXPECT_NE(pin(storage), nullptr);
    expect_registered(2, 1);
    storage = nullptr;
    expect_registered(2, 0);
    // Other code has registered a part of the memory.
    storage = new_isolated();
    void* data = nullptr;
    OK(tenon_storage_data_mut(storage.get(), &data, nullptr));
    CU(cuMemHostRegister(data, kNbytes, 0));
    EXPECT_EQ(detail_of(refused(storage.get(), TENON_INVALID_ARGUMENT), "cuda_error_name"),
              "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED");
    CU(cuMemHostUnregister(data));
    // This process has already destroyed the context.
    EXPECT_NE(pin(storage), nullptr);
    LEDGER(fake_cuda_fail)("cuMemHostUnregister", 1, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    storage = nullptr;
    EXPECT_COUNT(0U, fake_cuda_faults, 0);
  });
}

TEST(CudaPinned, AChildOfForkIsToldAndLeavesItsParentsAlone) {
  in_child({}, [] {
    use_device();
    StoragePointer storage = new_isolated();
    void* const address = pin(storage);
    const pid_t child = start([&] {
      EXPECT_EQ(tenon_storage_is_pinned(storage.get()), 0);
      EXPECT_NE(error_message_of(refused(storage.get(), TENON_UNSUPPORTED)).find("child of fork"),
                std::string::npos);
      storage = nullptr;
    });
    EXPECT_EQ(wait_for(child), 0);
    if (on_the_fake()) EXPECT_EQ(LEDGER(fake_cuda_all_calls)(child), 0U);
    EXPECT_COUNT(0U, fake_cuda_faults, 0);
    expect_registered(1, 1);
    Memory memory(kNbytes, 6);
    CU(cuStreamSynchronize(nullptr));
    copy(as_pointer(address), memory.pointer);
    EXPECT_EQ(first_byte(storage), 6);
    CU(cuMemFree(memory.pointer));
    storage = nullptr;
    expect_registered(1, 0);
  });
}

}  // namespace
}  // namespace cuda_test

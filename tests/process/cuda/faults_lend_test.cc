// Tests lends that fail half way: the device is lost and the connection works on, or the storage
// has ended and a weak reference still points to it.
#include <dlpack/dlpack.h>
#include <tenon/tenon.h>

#include <atomic>
#include <thread>

#include "connected_kit.h"
#include "details.h"

namespace cuda_test {
namespace {

#define OK(call) ASSERT_EQ(call, TENON_OK)

// ---- the device is lost, and the connection is not

struct Loss {
  CUresult result;
  const char* name;
};
constexpr Loss kLosses[] = {{CUDA_ERROR_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE"},
                            {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"}};

void expect_lost(const Status& status, const Loss& loss) {
  EXPECT_EQ(status.code(), Code::kIo) << status.message();
  EXPECT_EQ(status.detail("cuda_error"), std::to_string(static_cast<int>(loss.result)))
      << status.message();
  EXPECT_EQ(status.detail("cuda_error_name"), loss.name) << status.message();
}

// Makes calls of the driver fail with `result` from now on, or work again with CUDA_SUCCESS. Calls
// that only give back keep working, because the fake would report their objects as still open.
void lose_device(CUresult result) {
  for (const char* function :
       {"cuEventCreate", "cuEventRecord", "cuEventQuery", "cuEventSynchronize", "cuStreamWaitEvent",
        "cuStreamSynchronize", "cuStreamQuery", "cuIpcGetMemHandle", "cuIpcOpenMemHandle",
        "cuIpcGetEventHandle", "cuIpcOpenEventHandle", "cuPointerGetAttributes", "cuMemAlloc"}) {
    LEDGER(fake_cuda_fail)(function, 0, result);
  }
}

Ref<Storage> host_of(char byte) {
  const std::string text(100, byte);
  return Storage::create_from({}, text.data(), text.size()).value();
}
void expect_host(const Ref<Storage>& storage, char byte) {
  char last = 0;
  EXPECT_TRUE(storage->read(99, &last, 1).is_ok());
  EXPECT_EQ(last, byte);
}
void expect_host(Connection& connection, char byte) {
  const std::vector<Ref<Storage>> storages = receive(connection);
  ASSERT_EQ(storages.size(), 1U);
  expect_host(storages[0], byte);
}

Ref<Storage> wrap_counted(Memory* memory) {
  return wrap_cuda(memory->data(), memory->nbytes, 0, count_free, memory, false).value();
}
bool is_back(const Memory& memory) {
  return wait_until([&] { return collect_cuda() == 0 && memory.freed == 1; });
}

void sender_loses(const Loss& loss) {
  in_two_connected(
      [&](Line& line, Connection& connection) {
        use_device();
        Memory first(kNbytes);
        Memory second(kNbytes);
        Ref<Storage> lent = wrap_counted(&first);
        Ref<Storage> never_lent = wrap_counted(&second);
        const Ref<Storage> host = host_of('h');
        send(connection, {lent});
        line.expect('o');
        lose_device(loss.result);
        expect_lost(try_send(connection, {lent}), loss);  // exported before, so the mark fails
        expect_lost(try_send(connection, {never_lent}), loss);
        // The receiver does not know the host's segment yet.
        expect_lost(try_send(connection, {host, lent}), loss);
        send(connection, {host});
        send(connection, {host});
        expect_host(connection, 'a');
        EXPECT_EQ(lent->strong_count(), 2U);  // one lease is still held
        lent = nullptr;
        EXPECT_EQ(first.freed, 0);
        line.say('r');
        EXPECT_TRUE(wait_until([&] { return collect_cuda() == 0 && first.freed == 1; }));
        lose_device(CUDA_SUCCESS);
        send(connection, {never_lent});
        never_lent = nullptr;
        EXPECT_TRUE(is_back(second));
        line.expect('d');
        for (const Memory& each : {first, second}) CU(cuMemFree(each.pointer));
      },
      [](Line& line, Connection& connection) {
        use_device();
        std::vector<Ref<Storage>> storages = receive(connection);
        line.say('o');
        expect_host(connection, 'h');
        expect_host(connection, 'h');
        send(connection, {host_of('a')});
        line.expect('r');
        release_all(&storages);
        EXPECT_EQ(receive(connection).size(), 1U);
        EXPECT_TRUE(wait_until([] { return collect_cuda() == 0; }));
        line.say('d');
      });
}

constexpr const char* kOpening[] = {"cuIpcOpenEventHandle", "cuStreamWaitEvent",
                                    "cuIpcOpenMemHandle", "cuPointerGetAttributes"};

void receiver_loses(const Loss& loss) {
  in_two_connected(
      [&](Line& line, Connection& connection) {
        use_device();
        const Ref<Storage> host = host_of('h');
        // One of the driver's calls fails once. The whole message gives its leases back, whatever
        // else it carried.
        for (const char* function : kOpening) {
          SCOPED_TRACE(function);
          Memory memory(kNbytes);
          send(connection, {host_of('n'), wrap(&memory)});
          EXPECT_TRUE(is_back(memory));
        }
        Memory first(kNbytes);
        Memory second(kNbytes);
        send(connection, {wrap(&first)});
        line.expect('o');
        send(connection, {host, wrap(&second)});
        EXPECT_TRUE(is_back(second));
        EXPECT_EQ(first.freed, 0);
        send(connection, {host});  // by its segment's number, which came in the refused message
        expect_host(connection, 'a');
        line.say('r');
        EXPECT_TRUE(is_back(first));
        line.expect('d');
      },
      [&](Line& line, Connection& connection) {
        use_device();
        for (const char* function : kOpening) {
          SCOPED_TRACE(function);
          LEDGER(fake_cuda_fail)(function, 1, loss.result);
          expect_lost(try_receive(connection).status(), loss);
          EXPECT_COUNT(0U, fake_cuda_live, FAKE_CUDA_IPC_OPEN, getpid());
          EXPECT_COUNT(0U, fake_cuda_live, FAKE_CUDA_EVENT_IMPORT, getpid());
        }
        std::vector<Ref<Storage>> storages = receive(connection);
        line.say('o');
        lose_device(loss.result);
        expect_lost(try_receive(connection).status(), loss);
        expect_host(connection, 'h');
        send(connection, {host_of('a')});
        line.expect('r');
        storages.clear();  // nothing runs on a lost device
        EXPECT_TRUE(wait_until([] { return collect_cuda() == 0; }));
        EXPECT_COUNT(0U, fake_cuda_live, FAKE_CUDA_IPC_OPEN, getpid());
        line.say('d');
      });
}

TEST(CudaFaultsLend, TheSendersDeviceIsLost) {
  NEEDS_THE_FAKE("it does not lose a device when told to");
  for (const Loss& loss : kLosses) sender_loses(loss);
}
TEST(CudaFaultsLend, TheReceiversDeviceIsLost) {
  NEEDS_THE_FAKE("it does not lose a device when told to");
  for (const Loss& loss : kLosses) receiver_loses(loss);
}

// ---- weak references

// A tensor of another framework in device memory, with its Tenon storage.
class ForeignStorage {
 public:
  explicit ForeignStorage(Memory* memory) {
    managed_.version = {1, 0};
    managed_.manager_ctx = memory;
    managed_.deleter = [](DLManagedTensorVersioned* self) { free_memory(self->manager_ctx); };
    managed_.dl_tensor.data = memory->data();
    managed_.dl_tensor.device = {kDLCUDA, 0};
    managed_.dl_tensor.ndim = 1;
    managed_.dl_tensor.dtype = {kDLUInt, 8, 1};
    managed_.dl_tensor.shape = &size_;
    tenon_tensor* tensor = nullptr;
    EXPECT_EQ(tenon_tensor_from_dlpack(&managed_, &tensor, nullptr), TENON_OK);
    storage = tenon_storage_retain(tenon_tensor_storage(tensor));
    tenon_tensor_release(tensor);
  }
  ForeignStorage(const ForeignStorage&) = delete;
  ForeignStorage& operator=(const ForeignStorage&) = delete;
  ~ForeignStorage() = default;
  tenon_storage* storage = nullptr;

 private:
  DLManagedTensorVersioned managed_{};
  int64_t size_ = kNbytes;
};

tenon_weak* weak_to(tenon_storage* storage) {
  tenon_weak* weak = nullptr;
  EXPECT_EQ(tenon_weak_ref(storage, &weak, nullptr), TENON_OK);
  EXPECT_EQ(tenon_weak_id(weak), tenon_storage_id(storage));
  EXPECT_EQ(tenon_weak_expired(weak), 0);
  return weak;
}
void expect_dead(tenon_weak* weak, uint64_t id) {
  EXPECT_EQ(tenon_weak_expired(weak), 1);
  EXPECT_EQ(tenon_weak_lock(weak), nullptr);
  EXPECT_EQ(tenon_weak_id(weak), id);
}
// The reference from the upgrade is the storage's last one.
void expect_kept_by_upgrade(tenon_weak* weak, tenon_storage* storage) {
  const uint64_t id = tenon_storage_id(storage);
  const void* const data = tenon_storage_data(storage);
  tenon_storage* const upgraded = tenon_weak_lock(weak);
  EXPECT_EQ(upgraded, storage);
  tenon_storage_release(storage);
  EXPECT_EQ(tenon_weak_expired(weak), 0);
  EXPECT_EQ(tenon_storage_data(upgraded), data);
  EXPECT_EQ(byte_at(reinterpret_cast<uintptr_t>(data)), 7);
  tenon_storage_release(upgraded);
  expect_dead(weak, id);
}

TEST(CudaFaultsLend, WeakReferencesEndWithTheStorage) {
  in_two(
      {},
      [](Line& line) {
        use_device();
        Memory memory(kNbytes, 7);
        const ForeignStorage foreign(&memory);
        tenon_weak* const weak = weak_to(foreign.storage);
        const uint64_t id = tenon_weak_id(weak);
        tenon_cuda_handle handles[3]{};
        for (tenon_cuda_handle& each : handles) {
          each.struct_size = sizeof each;
          OK(tenon_share_cuda(foreign.storage, nullptr, nullptr, &each, nullptr));
        }
        line.send_as(handles[0]);
        line.send_as(handles[1]);
        line.expect('o');
        expect_kept_by_upgrade(weak, foreign.storage);
        // The memory is still lent. When it comes home it becomes a new storage.
        EXPECT_EQ(tenon_cuda_collect(), 1U);
        EXPECT_EQ(memory.freed, 0);
        tenon_storage* back = nullptr;
        OK(tenon_open_cuda(&handles[2], nullptr, nullptr, &back, nullptr));
        EXPECT_NE(tenon_storage_id(back), id);
        expect_dead(weak, id);
        tenon_weak* const weak_to_back = weak_to(back);
        expect_kept_by_upgrade(weak_to_back, back);
        tenon_weak_release(weak_to_back);
        line.ask('r', 'd');
        EXPECT_TRUE(wait_until([] { return tenon_cuda_collect() == 0; }));
        EXPECT_EQ(memory.freed, 1);  // a weak reference keeps no memory alive
        expect_dead(weak, id);
        tenon_weak_release(weak);
      },
      [](Line& line) {
        use_device();
        const auto first = line.receive_as<tenon_cuda_handle>();
        const auto second = line.receive_as<tenon_cuda_handle>();
        tenon_storage* storage = nullptr;
        tenon_storage* same = nullptr;
        OK(tenon_open_cuda(&first, nullptr, nullptr, &storage, nullptr));
        tenon_weak* const weak = weak_to(storage);
        const uint64_t id = tenon_weak_id(weak);
        OK(tenon_open_cuda(&second, nullptr, nullptr, &same, nullptr));
        EXPECT_EQ(same, storage);
        tenon_storage_release(same);
        EXPECT_EQ(tenon_weak_expired(weak), 0);
        line.ask('o', 'r');
        expect_kept_by_upgrade(weak, storage);
        EXPECT_TRUE(wait_until([] { return tenon_cuda_collect() == 0; }));
        EXPECT_COUNT(0U, fake_cuda_live, FAKE_CUDA_IPC_OPEN, getpid());
        expect_dead(weak, id);
        tenon_weak_release(weak);
        line.say('d');
      });
}

// An upgrade races with the last release, and one of them wins.
TEST(CudaFaultsLend, AnUpgradeGetsAWholeStorageOrNone) {
  in_child({}, [] {
    use_device();
    for (int i = 0; i < 100; ++i) {
      Memory memory(kNbytes);
      const ForeignStorage foreign(&memory);
      tenon_weak* const weak = weak_to(foreign.storage);
      std::atomic<bool> begun = false;
      std::thread last([&] {
        use_device();
        while (!begun) std::this_thread::yield();
        tenon_storage_release(foreign.storage);
      });
      begun = true;
      while (tenon_storage* const upgraded = tenon_weak_lock(weak)) {
        EXPECT_EQ(tenon_storage_data(upgraded), memory.data());
        tenon_storage_release(upgraded);
      }
      last.join();
      tenon_weak_release(weak);
      EXPECT_TRUE(wait_until([] { return tenon_cuda_collect() == 0; }));
      ASSERT_EQ(memory.freed, 1);
    }
    expect_nothing_left();
  });
}

}  // namespace
}  // namespace cuda_test

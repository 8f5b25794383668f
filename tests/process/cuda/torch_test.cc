// Tests Tenon's C API against PyTorch's side of the protocol, played call by call and byte by byte
// (docs/format/cuda.md). PyTorch itself cannot run on the fake driver.
#include <tenon/tenon.h>

#include <dlpack/dlpack.h>

#include "share_kit.h"
#include "support/sized.h"
#include "torch_kit.h"

namespace cuda_test {
namespace {

constexpr uint64_t kTensorOffset = 1024;

#define OK(call) ASSERT_EQ(call, TENON_OK)

// The tuple that PyTorch's _share_cuda_ returns.
struct Tuple {
  int32_t device;
  uint32_t memory_nbytes;
  uint8_t memory[128];
  uint64_t nbytes;
  uint64_t offset;
  char counter[256];
  uint64_t slot;
  uint8_t event[64];
  bool event_required;
};

bool exists(const std::string& name) { return access(("/dev/shm" + name).c_str(), F_OK) == 0; }

std::vector<uint8_t> memory_handle(CUdeviceptr base, const std::string& prefix) {
  CUipcMemHandle handle{};
  EXPECT_EQ(driver().cuIpcGetMemHandle(&handle, base), CUDA_SUCCESS);
  std::vector<uint8_t> bytes(prefix.begin(), prefix.end());
  const auto* raw = reinterpret_cast<const uint8_t*>(&handle);
  bytes.insert(bytes.end(), raw, raw + sizeof handle);
  return bytes;
}

// PyTorch sends, in every version's form. Tenon opens, reads and releases.
void torch_sends(const std::string& prefix) {
  in_child({}, [&] {
    Line line;
    const pid_t tenon = start([&] {
      line.become(1);
      Tuple tuple = line.receive_as<Tuple>();
      use_device();
      auto handle = tenon::test::sized<tenon_cuda_handle>();
      handle.device = tuple.device;
      handle.memory_nbytes = tuple.memory_nbytes;
      std::memcpy(handle.memory, tuple.memory, sizeof handle.memory);
      handle.nbytes = tuple.nbytes;
      handle.offset = tuple.offset;
      std::memcpy(handle.counter, tuple.counter, sizeof handle.counter);
      handle.slot = tuple.slot;
      std::memcpy(handle.event, tuple.event, sizeof handle.event);
      handle.event_required = tuple.event_required ? 1 : 0;
      tenon_storage* storage = nullptr;
      OK(tenon_open_cuda(&handle, nullptr, nullptr, &storage, nullptr));
      EXPECT_EQ(tenon_storage_device(storage).type, 2);
      const auto pointer =
          static_cast<CUdeviceptr>(reinterpret_cast<uintptr_t>(tenon_storage_data(storage)));
      EXPECT_EQ(byte_at(pointer), 0x5a);
      EXPECT_EQ(byte_at(pointer + tuple.nbytes - 1), 0x5a);
      EXPECT_EQ(byte_at(pointer - 1), 0x11);
      line.ask('o', 'g');
      tenon_storage_release(storage);
      EXPECT_TRUE(wait_until([] { return tenon_cuda_collect() == 0; }));
      line.say('d');
    });
    line.become(0);
    {
      use_device();
      Memory memory(kNbytes, 0x11);
      take_time();
      fill(memory.pointer + kTensorOffset, 0x5a, 2048);
      TorchFile file;
      file.counter(3) = 1;
      CUevent event = nullptr;
      CU(cuEventCreate(&event,
                       CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS | CU_EVENT_BLOCKING_SYNC));
      CU(cuEventRecord(event, nullptr));
      CUipcEventHandle event_handle{};
      CU(cuIpcGetEventHandle(&event_handle, event));
      Tuple tuple{};
      const std::vector<uint8_t> bytes = memory_handle(memory.pointer, prefix);
      tuple.memory_nbytes = static_cast<uint32_t>(bytes.size());
      std::memcpy(tuple.memory, bytes.data(), bytes.size());
      tuple.nbytes = 2048;
      tuple.offset = kTensorOffset;
      std::snprintf(tuple.counter, sizeof tuple.counter, "%s", file.name().c_str());
      tuple.slot = 3;
      std::memcpy(tuple.event, &event_handle, sizeof tuple.event);
      tuple.event_required = true;
      line.send_as(tuple);
      line.expect('o');
      EXPECT_EQ(file.counter(3), 1);
      line.ask('g', 'd');
      EXPECT_EQ(file.counter(3), 0);
      EXPECT_EQ(file.counter(2), 0);
      EXPECT_EQ(file.counter(4), 0);
      CU(cuEventDestroy(event));
      CU(cuMemFree(memory.pointer));
      EXPECT_TRUE(exists(file.name()));
    }
    EXPECT_EQ(wait_for(tenon), 0);
    EXPECT_COUNT(0U, fake_cuda_live, FAKE_CUDA_IPC_OPEN, 0);
    EXPECT_COUNT(0U, fake_cuda_live, FAKE_CUDA_EVENT_IMPORT, 0);
    EXPECT_COUNT(0U, fake_cuda_faults, 0);
  });
}

TEST(CudaTorch, SendsFormA) { torch_sends(""); }
TEST(CudaTorch, SendsFormB) { torch_sends("c"); }
TEST(CudaTorch, SendsFormC) { torch_sends("\1c"); }
TEST(CudaTorch, SendsFormD) { torch_sends("\2c"); }
TEST(CudaTorch, SendsFormE) { torch_sends("\3c"); }

// A tensor of another framework in this process, as from its __dlpack__.
struct ForeignTensor {
  DLManagedTensorVersioned managed{};
  int64_t shape[2] = {16, 64};
  Memory* memory;
  explicit ForeignTensor(Memory* given) : memory(given) {
    managed.version = {1, 0};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensorVersioned* self) {
      free_memory(static_cast<ForeignTensor*>(self->manager_ctx)->memory);
    };
    managed.dl_tensor.data = memory->data();
    managed.dl_tensor.byte_offset = kTensorOffset;
    managed.dl_tensor.device = {kDLCUDA, 0};
    managed.dl_tensor.ndim = 2;
    managed.dl_tensor.dtype = {kDLFloat, 16, 1};
    managed.dl_tensor.shape = shape;
  }
};

// Tenon sends another framework's memory. PyTorch opens and releases it.
void torch_receives(tenon_cuda_form form, const std::string& prefix) {
  in_child({}, [&] {
    Line line;
    const pid_t torch = start([&] {
      line.become(1);
      const Tuple tuple = line.receive_as<Tuple>();
      ASSERT_EQ(tuple.memory_nbytes, 64 + prefix.size());
      ASSERT_EQ(std::memcmp(tuple.memory, prefix.data(), prefix.size()), 0);
      use_device();
      ASSERT_TRUE(tuple.event_required);
      CUevent event = nullptr;
      CUipcEventHandle event_handle{};
      std::memcpy(&event_handle, tuple.event, sizeof event_handle);
      CU(cuIpcOpenEventHandle(&event, event_handle));
      CU(cuStreamWaitEvent(nullptr, event, 0));
      CUipcMemHandle handle{};
      std::memcpy(&handle, tuple.memory + prefix.size(), sizeof handle);
      CUdeviceptr base = 0;
      CU(cuIpcOpenMemHandle(&base, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
      EXPECT_EQ(byte_at(base + tuple.offset), 0x5a);
      EXPECT_EQ(byte_at(base + tuple.offset + tuple.nbytes - 1), 0x5a);
      EXPECT_EQ(byte_at(base + tuple.offset - 1), 0x11);
      line.ask('o', 'g');
      CU(cuIpcCloseMemHandle(base));
      CU(cuStreamSynchronize(nullptr));
      {
        TorchFile file(tuple.counter);
        file.counter(tuple.slot) = file.counter(tuple.slot) - 1;
      }
      EXPECT_TRUE(exists(tuple.counter));  // the sender still has the file
      CU(cuEventDestroy(event));           // PyTorch 2.6 forgets this
      line.say('d');
    });
    line.become(0);
    use_device();
    Memory memory(kNbytes, 0x11);
    take_time();
    fill(memory.pointer + kTensorOffset, 0x5a, 2048);
    ForeignTensor foreign(&memory);
    tenon_tensor* tensor = nullptr;
    OK(tenon_tensor_from_dlpack(&foreign.managed, &tensor, nullptr));
    tenon_storage* storage = tenon_tensor_storage(tensor);
    auto options = tenon::test::sized<tenon_cuda_options>();
    options.form = form;
    auto handle = tenon::test::sized<tenon_cuda_handle>();
    OK(tenon_share_cuda(storage, nullptr, &options, &handle, nullptr));
    EXPECT_EQ(handle.transport, uint32_t{TENON_CUDA_IPC});
    EXPECT_EQ(handle.offset, kTensorOffset);
    EXPECT_EQ(handle.nbytes, 2048U);
    Tuple tuple{};
    tuple.device = handle.device;
    tuple.memory_nbytes = handle.memory_nbytes;
    std::memcpy(tuple.memory, handle.memory, sizeof tuple.memory);
    tuple.nbytes = handle.nbytes;
    tuple.offset = handle.offset;
    std::memcpy(tuple.counter, handle.counter, sizeof tuple.counter);
    tuple.slot = handle.slot;
    std::memcpy(tuple.event, handle.event, sizeof tuple.event);
    tuple.event_required = handle.event_required != 0;
    line.send_as(tuple);
    line.expect('o');
    tenon_tensor_release(tensor);
    EXPECT_EQ(tenon_cuda_collect(), 1U);
    EXPECT_EQ(memory.freed, 0);
    line.ask('g', 'd');
    EXPECT_EQ(tenon_cuda_collect(), 0U);
    EXPECT_EQ(memory.freed, 1);
    EXPECT_EQ(wait_for(torch), 0);
    EXPECT_COUNT(0U, fake_cuda_live, FAKE_CUDA_ALLOCATION, 0);
    EXPECT_COUNT(0U, fake_cuda_faults, 0);
  });
}

TEST(CudaTorch, ReceivesFormA) { torch_receives(TENON_CUDA_FORM_A, ""); }
TEST(CudaTorch, ReceivesFormC) { torch_receives(TENON_CUDA_FORM_C, "\1c"); }
TEST(CudaTorch, ReceivesFormE) { torch_receives(TENON_CUDA_FORM_E, "\3c"); }

// _release_ipc_counter_cuda gives back a message that was not opened.
TEST(CudaTorch, AMessageCanBeGivenBackUnopened) {
  in_child({}, [] {
    use_device();
    Memory memory(kNbytes);
    ForeignTensor foreign(&memory);
    tenon_tensor* tensor = nullptr;
    OK(tenon_tensor_from_dlpack(&foreign.managed, &tensor, nullptr));
    auto handle = tenon::test::sized<tenon_cuda_handle>();
    OK(tenon_share_cuda(tenon_tensor_storage(tensor), nullptr, nullptr, &handle, nullptr));
    tenon_tensor_release(tensor);
    EXPECT_EQ(tenon_cuda_collect(), 1U);
    OK(tenon_release_cuda_counter(handle.counter, handle.slot, nullptr));
    EXPECT_EQ(tenon_cuda_collect(), 0U);
    EXPECT_EQ(memory.freed, 1);
    EXPECT_EQ(tenon_release_cuda_counter(handle.counter, handle.slot, nullptr), TENON_CORRUPT);
  });
}

TEST(CudaTorch, ATensorGoesBackToItsFramework) {
  in_child({}, [] {
    use_device();
    Memory memory(kNbytes);
    ForeignTensor foreign(&memory);
    tenon_tensor* tensor = nullptr;
    OK(tenon_tensor_from_dlpack(&foreign.managed, &tensor, nullptr));
    DLManagedTensorVersioned* out = nullptr;
    OK(tenon_tensor_to_dlpack(tensor, &out, nullptr));
    tenon_tensor_release(tensor);
    EXPECT_EQ(out->dl_tensor.device.device_type, kDLCUDA);
    EXPECT_EQ(out->dl_tensor.device.device_id, 0);
    EXPECT_EQ(out->dl_tensor.data, memory.data(kTensorOffset));
    EXPECT_EQ(memory.freed, 0);
    out->deleter(out);
    EXPECT_EQ(memory.freed, 1);
  });
}

TEST(CudaTorch, ItIsNoMemoryOfTheCpu) {
  in_child({}, [] {
    use_device();
    Memory memory(kNbytes);
    ForeignTensor foreign(&memory);
    tenon_tensor* tensor = nullptr;
    OK(tenon_tensor_from_dlpack(&foreign.managed, &tensor, nullptr));
    tenon_storage* storage = tenon_tensor_storage(tensor);
    auto fd = tenon::test::sized<tenon_fd_handle>();
    EXPECT_EQ(tenon_share_fd(storage, nullptr, &fd, nullptr), TENON_UNSUPPORTED);
    auto name = tenon::test::sized<tenon_filename_handle>();
    EXPECT_EQ(tenon_share_filename(storage, nullptr, nullptr, &name, nullptr), TENON_UNSUPPORTED);
    char byte = 0;
    EXPECT_EQ(tenon_storage_read(storage, 0, &byte, 1, nullptr), TENON_UNSUPPORTED);
    // The tensor can be a value, and an export writes it to an archive through the host. A build
    // without modules has no values.
    tenon_value* value = nullptr;
    EXPECT_EQ(tenon_value_new_tensor(tensor, &value, nullptr),
              CUDA_TEST_HAS_MODULES ? TENON_OK : TENON_UNSUPPORTED);
    tenon_value_release(value);
    tenon_tensor_release(tensor);
    EXPECT_EQ(memory.freed, 1);
  });
}

}  // namespace
}  // namespace cuda_test

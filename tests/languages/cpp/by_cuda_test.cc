// Tests of device memory through the C++ wrapper. Both forms of a call report with a reason whether
// CUDA can be used. Lent and opened memory is the same memory, and no span shows device memory.
// tests/process/cuda also runs these tests with the fake driver, and sets TENON_TEST_HAS_CUDA.
#include "cuda_kit.h"

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include <dlpack/dlpack.h>

namespace {

using cuda_kit::address_of;

bool has_driver() { return std::getenv("TENON_TEST_HAS_CUDA") != nullptr; }

TEST(Cuda, Available) {
  const tenon::Result<void> available = tenon::try_cuda_available();
  if (has_driver()) {
    EXPECT_TRUE(available);
    tenon::cuda_available();
    return;
  }
  if (available) GTEST_SKIP() << "this machine has CUDA";
  EXPECT_CODE(kUnsupported, available);
  try {
    tenon::cuda_available();
    FAIL() << "it did not throw";
  } catch (const tenon::Unsupported& error) {
    EXPECT_EQ(std::string(error.what()), available.error().what());
    EXPECT_NE(std::string(error.what()).find("CUDA"), std::string::npos) << error.what();
  }
}

// The functions of CUDA's driver that a framework with device memory needs.
class Driver {
 public:
  Driver() : library_(dlopen("libcuda.so.1", RTLD_NOW)) {
    void* context = nullptr;
    if (call<int(unsigned)>("cuInit")(0) != 0 ||
        call<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, 0) != 0 ||
        call<int(void*)>("cuCtxSetCurrent")(context) != 0) {
      std::abort();
    }
  }
  std::uint64_t allocate(std::size_t nbytes, unsigned char fill) const {
    std::uint64_t pointer = 0;
    EXPECT_EQ(call<int(std::uint64_t*, std::size_t)>("cuMemAlloc_v2")(&pointer, nbytes), 0);
    EXPECT_EQ(call<int(std::uint64_t, unsigned char, std::size_t)>("cuMemsetD8_v2")(pointer, fill,
                                                                                    nbytes),
              0);
    return pointer;
  }
  void free(std::uint64_t pointer) const {
    EXPECT_EQ(call<int(std::uint64_t)>("cuMemFree_v2")(pointer), 0);
  }
  void set(std::uint64_t pointer, unsigned char byte) const {
    EXPECT_EQ(
        call<int(std::uint64_t, unsigned char, std::size_t)>("cuMemsetD8_v2")(pointer, byte, 1), 0);
  }
  int byte_at(std::uint64_t pointer) const {
    unsigned char byte = 0;
    EXPECT_EQ(call<int(void*, std::uint64_t, std::size_t)>("cuMemcpyDtoH_v2")(&byte, pointer, 1),
              0);
    return byte;
  }

 private:
  template <class Function>
  Function* call(const char* name) const {
    void* found = library_ == nullptr ? nullptr : dlsym(library_, name);
    if (found == nullptr) std::abort();
    return reinterpret_cast<Function*>(found);
  }
  void* library_;
};

const Driver& loaded_driver() {
  static const Driver it;
  return it;
}

// A tensor of another framework: [4, 8] float32, 64 bytes into an allocation.
constexpr std::uint64_t kOffset = 64;
struct Foreign {
  DLManagedTensorVersioned managed{};
  std::int64_t shape[2] = {4, 8};
  std::uint64_t memory = loaded_driver().allocate(1024, 0x5a);
  int freed = 0;

  Foreign() {
    managed.version = {1, 0};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensorVersioned* self) {
      auto* foreign = static_cast<Foreign*>(self->manager_ctx);
      loaded_driver().free(foreign->memory);
      ++foreign->freed;
    };
    managed.dl_tensor.data = reinterpret_cast<void*>(memory);
    managed.dl_tensor.byte_offset = kOffset;
    managed.dl_tensor.device = {kDLCUDA, 0};
    managed.dl_tensor.ndim = 2;
    managed.dl_tensor.dtype = {kDLFloat, 32, 1};
    managed.dl_tensor.shape = shape;
  }
  Foreign(const Foreign&) = delete;
  Foreign& operator=(const Foreign&) = delete;
};

TEST(Cuda, WithoutADriver) {
  if (tenon::try_cuda_available()) GTEST_SKIP() << "this machine has CUDA";
  tenon::CudaHandle handle;
  handle.nbytes = 64;
  handle.memory.resize(64);
  handle.counter = "/tenon-cuda-none";
  EXPECT_CODE(kUnsupported, tenon::try_open_cuda(handle, nullptr));
  EXPECT_EQ(cuda_kit::left(), 0U);
}

TEST(Cuda, OnlyDeviceMemoryIsLentSo) {
  const tenon::Storage storage = tenon::Storage::make(64);
  EXPECT_EQ(storage.device(), (tenon::Device{1, 0}));
  EXPECT_TRUE(storage.device().is_cpu());
  EXPECT_CODE(kInvalidArgument, tenon::try_share_cuda(storage, nullptr));
  EXPECT_CODE(kInvalidArgument, storage.try_record_stream(nullptr));
  EXPECT_CODE(kInvalidArgument, storage.try_order_stream(nullptr));
  EXPECT_EQ(tenon::Storage().device(), tenon::Device{});
  const tenon::Storage none;
  EXPECT_EQ(none.try_bytes()->size(), 0U);
}

TEST(Cuda, WhatIsWrongWithoutACall) {
  tenon::CudaHandle handle;
  handle.counter = std::string("/a\0b", 4);
  EXPECT_CODE(kInvalidArgument, tenon::try_open_cuda(handle, nullptr));
  handle.counter = std::string(256, 'a');
  EXPECT_CODE(kInvalidArgument, tenon::try_open_cuda(handle, nullptr));
  EXPECT_CODE(kInvalidArgument, tenon::try_release_cuda_counter(std::string("/a\0b", 4), 0));
  EXPECT_CODE(kInvalidArgument, tenon::try_release_cuda_counter("no slash", 0));
  tenon::release_cuda_counter("/tenon-cuda-0123456789abcdef0123456789abcdef", 0);
}

TEST(Cuda, LentAndOpenedInOneProcessItIsTheSameStorage) {
  NEEDS_DRIVER();
  Foreign foreign;
  tenon::Tensor tensor = tenon::from_dlpack(&foreign.managed);
  EXPECT_EQ(tensor.device(), (tenon::Device{2, 0}));
  const tenon::CudaHandle handle = tenon::share_cuda(tensor.storage(), nullptr);
  EXPECT_EQ(handle.transport, tenon::CudaTransport::kIpc);
  EXPECT_EQ(handle.device, 0);
  EXPECT_TRUE(handle.uuid);
  EXPECT_EQ(handle.nbytes, 128U);
  EXPECT_EQ(handle.offset, kOffset);
  EXPECT_EQ(handle.memory.size(), 64U);
  EXPECT_EQ(handle.counter.rfind("/tenon-cuda-", 0), 0U) << handle.counter;
  {
    const tenon::Storage opened = tenon::open_cuda(handle, nullptr);
    EXPECT_EQ(opened, tensor.storage());
    opened.order_stream(nullptr);
    opened.record_stream(nullptr);
  }
  tensor.close();
  EXPECT_EQ(cuda_kit::left(), 0U);
  EXPECT_EQ(foreign.freed, 1);
}

TEST(Cuda, AMessageIsTakenBackUnopened) {
  NEEDS_DRIVER();
  Foreign foreign;
  tenon::Tensor tensor = tenon::from_dlpack(&foreign.managed);
  const tenon::CudaHandle handle =
      tenon::share_cuda(tensor.storage(), nullptr, {.form = tenon::CudaForm::kE});
  ASSERT_EQ(handle.memory.size(), 66U);
  EXPECT_EQ(handle.memory[0], std::byte{3});
  tensor.close();
  EXPECT_EQ(tenon::cuda_collect(), 1U);
  EXPECT_EQ(foreign.freed, 0);
  tenon::release_cuda_counter(handle.counter, handle.slot);
  EXPECT_EQ(cuda_kit::left(), 0U);
  EXPECT_EQ(foreign.freed, 1);
  EXPECT_CODE(kCorrupt, tenon::try_release_cuda_counter(handle.counter, handle.slot));
}

TEST(Cuda, WhatIsRefused) {
  NEEDS_DRIVER();
  Foreign foreign;
  tenon::Tensor tensor = tenon::from_dlpack(&foreign.managed);
  EXPECT_CODE(kInvalidArgument, tenon::try_share_cuda(tensor.storage(), nullptr,
                                                      {.form = static_cast<tenon::CudaForm>(9)}));
  tenon::CudaHandle handle = tenon::share_cuda(tensor.storage(), nullptr);
  EXPECT_CODE(kInvalidArgument, tenon::try_open_cuda(handle, nullptr, {.device = 999}));
  EXPECT_CODE(kInvalidArgument, tenon::try_open_cuda(handle, nullptr, {.device = -1}));
  // This segment of fabric handles is longer than the C struct's field for a memory handle. It is
  // read in full, and then refused by name.
  tenon::CudaHandle segment = handle;
  segment.memory.assign(2 + 24 + 100 * 64, std::byte{0});
  segment.memory[0] = std::byte{2};
  segment.memory[1] = std::byte{'e'};
  segment.memory[2] = std::byte{1};
  segment.memory[2 + 9] = std::byte{1};
  segment.memory[2 + 16] = std::byte{100};
  EXPECT_CODE(kUnsupported, tenon::try_open_cuda(segment, nullptr));
  tenon::release_cuda_counter(handle.counter, handle.slot);
  tensor.close();
  EXPECT_EQ(cuda_kit::left(), 0U);
  EXPECT_EQ(foreign.freed, 1);
}

TEST(Cuda, NoSpanShowsIt) {
  NEEDS_DRIVER();
  Foreign foreign;
  tenon::Tensor tensor = tenon::from_dlpack(&foreign.managed);
  tenon::Storage storage = tensor.storage();
  const auto reason = kit::thrown_by<tenon::Unsupported>([&] { (void)storage.bytes(); });
  EXPECT_NE(reason.find("device (2, 0)"), std::string::npos) << reason;
  EXPECT_CODE(kUnsupported, storage.try_bytes());
  EXPECT_CODE(kUnsupported, storage.try_bytes_mut());
  EXPECT_CODE(kUnsupported, tensor.try_view<float>());
  EXPECT_CODE(kUnsupported, tensor.try_view_mut<float>());
  const tenon::TensorView view = tensor.view();
  EXPECT_EQ(view.device(), (tenon::Device{2, 0}));
  EXPECT_CODE(kUnsupported, view.try_view<float>());
  std::byte byte{};
  EXPECT_CODE(kUnsupported, storage.try_read({&byte, 1}));
  EXPECT_CODE(kUnsupported, storage.try_write({&byte, 1}));
  // The address is meant for work on the device.
  EXPECT_EQ(loaded_driver().byte_at(address_of(tensor)), 0x5a);
  storage.close();
  tensor.close();
  EXPECT_EQ(foreign.freed, 1);
}

TEST(Cuda, ToAnArchiveAndBack) {
  NEEDS_DRIVER();
  Foreign foreign;
  {
    tenon::Module module = tenon::Module::make("Net");
    module.add_parameter("w", tenon::from_dlpack(&foreign.managed));
    const auto written = [&](const tenon::ExportOptions& options) {
      auto all = std::make_shared<std::string>();
      tenon::export_module_to(
          module,
          [&](std::span<const std::byte> bytes) {
            all->append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
          },
          options);
      return std::shared_ptr<const std::string>(all);
    };
    EXPECT_EQ(written({})->find("cuda:0"), std::string::npos);
    const auto kept = written({.keep_device = true, .stream = nullptr});
    EXPECT_NE(kept->find("cuda:0"), std::string::npos);
    const auto read = [&](const tenon::ImportOptions& options) {
      return tenon::try_import_module_memory(std::as_bytes(std::span(*kept)), kept, options);
    };
    const auto host = read({})->value("w").as<tenon::Tensor>();
    const tenon::Storage on_host = host.storage();
    EXPECT_EQ(on_host.device(), (tenon::Device{1, 0}));
    EXPECT_EQ(std::to_integer<int>(on_host.bytes()[127]), 0x5a);
    const auto there =
        read({.tensors = tenon::ImportTensors::kDevice})->value("w").as<tenon::Tensor>();
    EXPECT_EQ(there.storage().device(), (tenon::Device{2, 0}));
    EXPECT_EQ(loaded_driver().byte_at(address_of(there) + 127), 0x5a);
    EXPECT_CODE(kInvalidArgument, read({.tensors = tenon::ImportTensors::kDevice, .device = 999}));
    EXPECT_CODE(kInvalidArgument, read({.device = 999}));
  }
  EXPECT_EQ(foreign.freed, 1);
}

TEST(Cuda, ReadOnlyOverAConnection) {
  NEEDS_DRIVER();
  Foreign foreign;
  foreign.managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  tenon::Tensor tensor = tenon::from_dlpack(&foreign.managed);
  const auto sent = [&](bool let_write) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    tenon::Connection from =
        tenon::Connection::make(ends[0], {.adopt_socket = true, .cuda_let_write = let_write});
    tenon::Connection to = tenon::Connection::make(ends[1], {.adopt_socket = true});
    const tenon::Result<void> done = from.try_send(tenon::Message::of({{"weight", tensor}}));
    // Within one process the received storage is the sent one.
    if (done) EXPECT_EQ(to.recv()["weight"].storage().id(), tensor.storage().id());
    return done.code();
  };
  EXPECT_EQ(sent(false), tenon::Code::kPermission);
  EXPECT_EQ(sent(true), tenon::Code::kOk);
  tensor.close();
  EXPECT_EQ(cuda_kit::left(), 0U);
  EXPECT_EQ(foreign.freed, 1);
}

// The processes send this to each other.
struct Packet {
  std::uint32_t transport;
  std::int32_t device;
  std::byte uuid[16];
  std::uint64_t nbytes, offset, slot, memory_nbytes;
  bool event_required;
  std::byte event[64], memory[128];
  char counter[256];
};

// The other process of the next test.
TEST(Cuda, DISABLED_Receiver) {
  const int line = std::atoi(std::getenv("TENON_TEST_LINE"));
  Packet packet{};
  ASSERT_EQ(read(line, &packet, sizeof packet), static_cast<ssize_t>(sizeof packet));
  tenon::CudaHandle handle;
  handle.transport = static_cast<tenon::CudaTransport>(packet.transport);
  handle.device = packet.device;
  std::memcpy(handle.uuid.emplace().data(), packet.uuid, sizeof packet.uuid);
  handle.nbytes = packet.nbytes;
  handle.offset = packet.offset;
  handle.slot = packet.slot;
  handle.event_required = packet.event_required;
  std::memcpy(handle.event.data(), packet.event, sizeof packet.event);
  handle.memory.assign(packet.memory, packet.memory + packet.memory_nbytes);
  handle.counter = packet.counter;
  tenon::Storage storage = tenon::open_cuda(handle, nullptr);
  EXPECT_EQ(storage.nbytes(), 128U);
  EXPECT_EQ(storage.device(), (tenon::Device{2, 0}));
  EXPECT_CODE(kUnsupported, storage.try_bytes());
  tenon::Tensor tensor = tenon::Tensor::over(storage, {128}, tenon::kDtypeOf<std::uint8_t>);
  storage.close();
  EXPECT_EQ(loaded_driver().byte_at(address_of(tensor)), 0x5a);
  loaded_driver().set(address_of(tensor), 42);
  tensor.close();
  EXPECT_EQ(cuda_kit::left(), 0U);
}

TEST(Cuda, LentToAnotherProcess) {
  NEEDS_DRIVER();
  Foreign foreign;
  tenon::Tensor tensor = tenon::from_dlpack(&foreign.managed);
  const std::uint64_t address = address_of(tensor);
  const tenon::CudaHandle handle = tenon::share_cuda(tensor.storage(), nullptr);
  Packet packet{};
  packet.transport = static_cast<std::uint32_t>(handle.transport);
  packet.device = handle.device;
  ASSERT_TRUE(handle.uuid);
  std::memcpy(packet.uuid, handle.uuid->data(), sizeof packet.uuid);
  packet.nbytes = handle.nbytes;
  packet.offset = handle.offset;
  packet.slot = handle.slot;
  packet.event_required = handle.event_required;
  std::memcpy(packet.event, handle.event.data(), sizeof packet.event);
  packet.memory_nbytes = handle.memory.size();
  std::memcpy(packet.memory, handle.memory.data(), handle.memory.size());
  std::memcpy(packet.counter, handle.counter.c_str(), handle.counter.size() + 1);
  const cuda_kit::OtherProcess other_process("Cuda.DISABLED_Receiver");
  EXPECT_EQ(send(other_process.line(), &packet, sizeof packet, MSG_NOSIGNAL),
            static_cast<ssize_t>(sizeof packet));
  other_process.expect_success();
  EXPECT_EQ(loaded_driver().byte_at(address), 42);
  tensor.close();
  EXPECT_EQ(cuda_kit::left(), 0U);
  EXPECT_EQ(foreign.freed, 1);
}

}  // namespace

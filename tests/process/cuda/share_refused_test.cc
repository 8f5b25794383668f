// Tests device memory that is not lent or not opened, the reason given, and that a failure leaves
// nothing behind.
#include "share_kit.h"
#include "support/must.h"

namespace cuda_test {
namespace {

TEST(CudaShareRefused, WhatIsNoMemoryOfThatDeviceIsRefused) {
  in_child({"FAKE_CUDA_DEVICES=gpu=64,gpu=64"}, [] {
    use_device();
    Memory memory(kNbytes);
    int host = 0;
    const auto code = [&](std::byte* data, uint64_t nbytes, int32_t device) {
      const Result<Ref<Storage>> storage =
          wrap_cuda(data, nbytes, device, count_free, &memory, false);
      return storage.status().code();
    };
    EXPECT_EQ(code(memory.data(), kNbytes, 0), Code::kOk);
    EXPECT_EQ(memory.freed, 1);
    EXPECT_EQ(code(memory.data(), kNbytes, 1), Code::kInvalidArgument);
    EXPECT_EQ(code(memory.data(), kNbytes, 200), Code::kInvalidArgument);
    EXPECT_EQ(code(memory.data(), kNbytes, -1), Code::kInvalidArgument);
    EXPECT_EQ(code(memory.data(1), kNbytes, 0), Code::kInvalidArgument);
    EXPECT_EQ(code(reinterpret_cast<std::byte*>(&host), 4, 0), Code::kInvalidArgument);
    CU(cuMemFree(memory.pointer));
    EXPECT_EQ(code(memory.data(), kNbytes, 0), Code::kInvalidArgument);
    EXPECT_EQ(memory.freed, 1);
  });
}

TEST(CudaShareRefused, WhatCannotBeLentSo) {
  in_two({}, lend_one, [](Line& line) {
    use_device();
    Ref<Storage> received = open(line.receive());
    EXPECT_EQ(share_cuda(received, nullptr, {}).status().code(), Code::kUnsupported);
    Result<Ref<Storage>> host = Storage::create({}, 64);
    EXPECT_EQ(share_cuda(host.value(), nullptr, {}).status().code(), Code::kInvalidArgument);
    EXPECT_EQ(record_stream(*host.value(), nullptr).code(), Code::kInvalidArgument);
    char byte = 0;
    EXPECT_EQ(received->read(0, &byte, 1).code(), Code::kUnsupported);
    EXPECT_EQ(received->write(0, &byte, 1).code(), Code::kUnsupported);
    EXPECT_EQ(received->freeze().code(), Code::kInvalidArgument);
    line.ask('o', 'r');
    release_all(&received);
    line.say('d');
  });
}

TEST(CudaShareRefused, ReadOnlyMemoryIsLentToWriteOnlyWhenAsked) {
  in_child({}, [] {
    use_device();
    Memory memory(kNbytes);
    Ref<Storage> storage = wrap_cuda(memory.data(), kNbytes, 0, free_memory, &memory, true).value();
    EXPECT_EQ(share_cuda(storage, nullptr, {}).status().code(), Code::kPermission);
    CudaHandle handle =
        must(share_cuda(storage, nullptr, {.form = CudaForm::kA, .let_write = true}));
    EXPECT_EQ(open(handle).get(), storage.get());
    storage = nullptr;
    EXPECT_EQ(left(), 0U);
    EXPECT_EQ(memory.freed, 1);
  });
}

TEST(CudaShareRefused, HandlesThatAreNotGood) {
  in_two({}, lend_one, [](Line& line) {
    use_device();
    const CudaHandle good = line.receive();
    const auto code = [&](const std::function<void(CudaHandle*)>& spoil) {
      CudaHandle bad = good;
      spoil(&bad);
      const Result<Ref<Storage>> opened = open_cuda(bad, nullptr, {});
      return opened.status().code();
    };
    EXPECT_NE(code([](CudaHandle* it) { it->memory.pop_back(); }), Code::kOk);
    EXPECT_EQ(code([](CudaHandle* it) { it->memory.clear(); }), Code::kInvalidArgument);
    // A real driver opens at least the whole allocation, and does not document which bytes of a
    // handle count. So the claim must be far too large there.
    EXPECT_EQ(code([](CudaHandle* it) { it->nbytes += on_the_fake() ? 1 : uint64_t{1} << 40; }),
              Code::kInvalidArgument);
    if (on_the_fake()) {
      EXPECT_NE(code([](CudaHandle* it) { it->memory[5] ^= std::byte{1}; }), Code::kOk);
      EXPECT_NE(code([](CudaHandle* it) { it->event[9] ^= std::byte{1}; }), Code::kOk);
    }
    EXPECT_EQ(code([](CudaHandle* it) { it->offset = UINT64_MAX; }), Code::kInvalidArgument);
    EXPECT_EQ(code([](CudaHandle* it) { it->has_uuid = false, it->device = 300; }),
              Code::kInvalidArgument);
    EXPECT_COUNT(0U, fake_cuda_live, FAKE_CUDA_IPC_OPEN, 0);
    Ref<Storage> storage = open(good);
    line.ask('o', 'r');
    release_all(&storage);
    line.say('d');
  });
}

TEST(CudaShareRefused, AChildOfForkIsTold) {
  in_two({}, lend_one, [](Line& line) {
    use_device();
    const CudaHandle handle = line.receive();
    Ref<Storage> storage = open(handle);
    line.ask('o', 'r');
    const pid_t child = start([&] {
      EXPECT_EQ(open_cuda(handle, nullptr, {}).status().code(), Code::kUnsupported);
      EXPECT_EQ(share_cuda(storage, nullptr, {}).status().code(), Code::kUnsupported);
      storage = nullptr;  // this reference belongs to the parent, which still has one
      EXPECT_EQ(left(), 0U);
    });
    EXPECT_EQ(wait_for(child), 0);
    EXPECT_EQ(byte_at(pointer_of(storage)), 7);
    release_all(&storage);
    line.say('d');
  });
}

TEST(CudaShareRefused, AFailedDriverCallLeavesNothing) {
  NEEDS_THE_FAKE("its calls do not fail when told to");
  in_two({}, lend_one, [](Line& line) {
    use_device();
    const CudaHandle handle = line.receive();
    Memory memory(kNbytes);
    Ref<Storage> own = wrap(&memory);
    for (const char* function : {"cuIpcOpenMemHandle", "cuIpcOpenEventHandle", "cuStreamWaitEvent",
                                 "cuPointerGetAttributes"}) {
      LEDGER(fake_cuda_fail)(function, 1, CUDA_ERROR_ECC_UNCORRECTABLE);
      const Result<Ref<Storage>> opened = open_cuda(handle, nullptr, {});
      EXPECT_EQ(opened.status().code(), Code::kIo) << function;
      EXPECT_COUNT(0U, fake_cuda_live, FAKE_CUDA_IPC_OPEN, 0) << function;
      EXPECT_COUNT(0U, fake_cuda_live, FAKE_CUDA_EVENT_IMPORT, 0) << function;
    }
    for (const char* function : {"cuIpcGetMemHandle", "cuEventRecord"}) {
      LEDGER(fake_cuda_fail)(function, 1, CUDA_ERROR_ECC_UNCORRECTABLE);
      EXPECT_EQ(share_cuda(own, nullptr, {}).status().code(), Code::kIo) << function;
    }
    own = nullptr;
    EXPECT_EQ(memory.freed, 1);
    Ref<Storage> storage = open(handle);
    line.ask('o', 'r');
    release_all(&storage);
    line.say('d');
  });
}

}  // namespace
}  // namespace cuda_test

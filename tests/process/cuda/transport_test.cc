// Tests the transports of memory that PyTorch's handle cannot lead to: pieces by fd and by fabric
// handle, and pools.
#include <fcntl.h>

#include "modern_kit.h"

namespace cuda_test {
namespace {

// The receiver's part in most cases: checks the bytes, tells the sender, and releases the memory.
void read_and_let_go(Line& line, const CudaHandle& handle, uint64_t nbytes, int first, int last) {
  Ref<Storage> storage = open(handle);
  line.close_fds();
  line.ask('o', 'r');
  EXPECT_EQ(storage->nbytes(), nbytes);
  EXPECT_EQ(byte_at(pointer_of(storage)), first);
  EXPECT_EQ(byte_at(pointer_of(storage) + nbytes - 1), last);
  storage = nullptr;
  EXPECT_EQ(left(), 0U);
  line.say('d');
}
void read_and_let_go(Line& line, uint64_t nbytes, int first, int last) {
  use_device();
  read_and_let_go(line, line.receive(), nbytes, first, last);
}

CudaHandle lend_and_wait(Line& line, Ref<Storage> storage, const int& gone, CudaTransport transport,
                         const CudaShareOptions& options = {}) {
  const CudaHandle handle = share(storage, nullptr, options);
  EXPECT_EQ(handle.transport, transport);
  line.send(handle);
  line.expect('o');
  storage = nullptr;
  EXPECT_EQ(collect_cuda(), 1U);
  EXPECT_EQ(gone, 0);
  line.ask('r', 'd');
  EXPECT_EQ(left(), 0U);
  EXPECT_EQ(gone, 1);
  return handle;
}

TEST(CudaTransport, PiecesTravelAsFds) {
  in_two(
      {},
      [](Line& line) {
        use_device();
        Mapped memory({1, 3, 1, 2});
        // From the middle of the second piece to the middle of the third.
        const uint64_t from = 2 * kPage + 512;
        const uint64_t nbytes = 2 * kPage + 100;
        fill(memory.base(), 1, memory.nbytes());
        fill(memory.base() + from + nbytes - 1, 2, 1);
        const CudaHandle handle =
            lend_and_wait(line, memory.wrap(from, nbytes), memory.gone, CudaTransport::kFd);
        EXPECT_EQ(handle.fds.size(), 2U);
        EXPECT_EQ(handle.offset, kPage + 512);
        EXPECT_COUNT(2U, fake_cuda_calls, "cuMemExportToShareableHandle", getpid());
      },
      [](Line& line) { read_and_let_go(line, 2 * kPage + 100, 1, 2); });
}

// Storages in the same pieces need one export and one import, and the same bytes give the same
// storage.
TEST(CudaTransport, PiecesAreOpenedOnce) {
  static constexpr int kMany = 100;
  in_two(
      {},
      [](Line& line) {
        use_device();
        Mapped memory({1});
        fill(memory.base(), 3, kPage);
        std::vector<Ref<Storage>> storages;
        for (int i = 0; i < kMany; ++i) {
          storages.push_back(memory.wrap(static_cast<uint64_t>(i) * 512, 512));
          line.send(share(storages.back()));
        }
        line.send(share(storages.back()));
        EXPECT_COUNT(1U, fake_cuda_calls, "cuMemExportToShareableHandle", getpid());
        line.expect('d');
        storages.clear();
        EXPECT_EQ(left(), 0U);
        EXPECT_EQ(memory.gone, kMany);
      },
      [](Line& line) {
        use_device();
        std::vector<Ref<Storage>> storages;
        for (int i = 0; i <= kMany; ++i) storages.push_back(open(line.receive()));
        line.close_fds();
        EXPECT_COUNT(1U, fake_cuda_calls, "cuMemImportFromShareableHandle", getpid());
        EXPECT_EQ(storages[kMany].get(), storages[kMany - 1].get());
        EXPECT_EQ(byte_at(pointer_of(storages[42])), 3);
        release_all(&storages);
        line.say('d');
      });
}

// A process that knows a handle can send its memory's name with another file behind it.
TEST(CudaTransport, ANameDoesNotStandForAnotherFile) {
  in_two(
      {},
      [](Line& line) {
        use_device();
        Mapped honest({1});
        Mapped other({1});
        fill(honest.base(), 1, kPage);
        fill(other.base(), 2, kPage);
        Ref<Storage> first = other.wrap(0, kPage);
        Ref<Storage> second = honest.wrap(0, kPage);
        const CudaHandle good = share(second);
        CudaHandle forged = share(first);
        forged.memory = good.memory;
        line.send(forged);
        line.send(good);
        line.expect('d');
        first = nullptr;
        second = nullptr;
        EXPECT_EQ(left(), 0U);
      },
      [](Line& line) {
        use_device();
        Ref<Storage> forged = open(line.receive());
        Ref<Storage> good = open(line.receive());
        line.close_fds();
        EXPECT_EQ(byte_at(pointer_of(forged)), 2);
        EXPECT_EQ(byte_at(pointer_of(good)), 1);
        forged = nullptr;
        release_all(&good);
        line.say('d');
      });
}

// A lends to B and B lends on to C. B releases its own storage, and C still reads. A gets the
// memory back when C has released it.
TEST(CudaTransport, WhatCameByFdIsLentOn) {
  in_child({}, [] {
    Line up;
    Line down;
    const pid_t last = start([&] {
      down.become(1);
      read_and_let_go(down, kPage, 4, 4);
    });
    const pid_t middle = start([&] {
      up.become(1);
      down.become(0);
      use_device();
      Ref<Storage> storage = open(up.receive());
      up.close_fds();
      EXPECT_EQ(share_cuda(storage, nullptr, {.transport = CudaTransport::kPool}).status().code(),
                Code::kUnsupported);
      down.send(share(storage));
      down.expect('o');
      storage = nullptr;
      EXPECT_EQ(collect_cuda(), 1U);
      up.say('o');
      up.expect('r');
      down.say('r');
      down.expect('d');
      EXPECT_EQ(left(), 0U);
      up.say('d');
    });
    up.become(0);
    use_device();
    {
      Mapped memory({1});
      fill(memory.base(), 4, kPage);
      lend_and_wait(up, memory.wrap(0, kPage), memory.gone, CudaTransport::kFd);
    }
    EXPECT_EQ(wait_for(middle), 0);
    EXPECT_EQ(wait_for(last), 0);
    EXPECT_COUNT(0U, fake_cuda_live, FAKE_CUDA_MAPPING, 0);
    EXPECT_COUNT(0U, fake_cuda_live, FAKE_CUDA_ALLOCATION, 0);
    EXPECT_COUNT(0U, fake_cuda_faults, 0);
  });
}

// The device enforces read-only access on the process that opens the memory so, and only on its
// work.
TEST(CudaTransport, ReadOnlyIsReadOnly) {
  NEEDS_OF_A_REAL_DEVICE(keeps_read_only, "it does not keep a mapping read-only");
  const auto receiver = [](bool asked) {
    return [asked](Line& line) {
      use_device();
      const CudaHandle handle = line.receive();
      Result<Ref<Storage>> storage = open_cuda(handle, nullptr, {.read_only = asked});
      line.close_fds();
      ASSERT_TRUE(storage.is_ok()) << storage.status().message();
      EXPECT_TRUE(storage.value()->is_read_only());
      EXPECT_EQ(byte_at(pointer_of(storage.value())), 5);
      EXPECT_EQ(share_cuda(storage.value(), nullptr, {}).status().code(), Code::kPermission);
      line.ask('o', 'r');
      storage = Ref<Storage>();
      EXPECT_EQ(left(), 0U);
      line.say('d');
    };
  };
  for (const bool asked : {true, false}) {
    in_two(
        {},
        [asked](Line& line) {
          use_device();
          Mapped memory({1});
          fill(memory.base(), 5, kPage);
          lend_and_wait(line, memory.wrap(0, kPage, !asked), memory.gone, CudaTransport::kFd,
                        {.let_write = true});
        },
        receiver(asked));
  }
}

TEST(CudaTransport, ReadOnlyThatCannotBeIsNotOpened) {
  NEEDS_THE_FAKE("its devices have what they have");
  in_two(
      {"FAKE_CUDA_READ_ONLY=0"},
      [](Line& line) {
        use_device();
        Mapped memory({2});
        fill(memory.base(), 6, 2 * kPage);
        lend_and_wait(line, memory.wrap(0, kNbytes), memory.gone, CudaTransport::kFd);
      },
      [](Line& line) {
        use_device();
        const CudaHandle handle = line.receive();
        EXPECT_EQ(open_cuda(handle, nullptr, {.read_only = true}).status().code(),
                  Code::kUnsupported);
        EXPECT_COUNT(0U, fake_cuda_live, FAKE_CUDA_MAPPING, getpid());
        // The handle can still be opened.
        Ref<Storage> storage = open(handle);
        line.close_fds();
        EXPECT_EQ(byte_at(pointer_of(storage)), 6);
        line.ask('o', 'r');
        storage = nullptr;
        EXPECT_EQ(left(), 0U);
        line.say('d');
      });
}

TEST(CudaTransport, MemoryOfAPoolTravelsWithItsPool) {
  in_two(
      {},
      [](Line& line) {
        use_device();
        const CUmemoryPool pool = make_pool();
        struct Two {
          CUdeviceptr pointers[2];
          int gone = 0;
        } two{};
        for (CUdeviceptr& pointer : two.pointers) {
          pointer = allocate_from(pool, kNbytes);
          fill(pointer, static_cast<unsigned char>(&pointer - two.pointers + 7), kNbytes);
        }
        std::vector<Ref<Storage>> storages;
        for (const CUdeviceptr pointer : two.pointers) {
          auto* const data = reinterpret_cast<std::byte*>(static_cast<uintptr_t>(pointer + 16));
          const auto let_go = [](void* context) { ++static_cast<Two*>(context)->gone; };
          storages.push_back(wrap_cuda(data, kNbytes - 16, 0, let_go, &two, false).value());
          const CudaHandle handle = share(storages.back());
          EXPECT_EQ(handle.transport, CudaTransport::kPool);
          EXPECT_EQ(handle.offset, 16U);
          line.send(handle);
        }
        EXPECT_COUNT(1U, fake_cuda_calls, "cuMemPoolExportToShareableHandle", getpid());
        storages.clear();
        line.expect('d');
        EXPECT_EQ(left(), 0U);
        EXPECT_EQ(two.gone, 2);
        for (const CUdeviceptr pointer : two.pointers) CU(cuMemFreeAsync(pointer, nullptr));
        CU(cuMemPoolDestroy(pool));
      },
      [](Line& line) {
        use_device();
        const CudaHandle first = line.receive();
        const CudaHandle second = line.receive();
        EXPECT_EQ(open_cuda(first, nullptr, {.read_only = true}).status().code(),
                  Code::kUnsupported);
        Ref<Storage> one = open(first);
        Ref<Storage> two = open(second);
        line.close_fds();
        EXPECT_COUNT(1U, fake_cuda_calls, "cuMemPoolImportFromShareableHandle", getpid());
        EXPECT_EQ(byte_at(pointer_of(one)), 7);
        EXPECT_EQ(byte_at(pointer_of(two)), 8);
        one = nullptr;
        release_all(&two);
        line.say('d');
      });
}

TEST(CudaTransport, APieceTravelsByTheFabric) {
  NEEDS_OF_A_REAL_DEVICE(has_fabric, "it has no fabric");
  if (on_the_fake() && expected_version() < 12030)
    GTEST_SKIP() << "a driver older than 12.3 has no fabric handles";
  in_two(
      {"FAKE_CUDA_FABRIC=1"},
      [](Line& line) {
        use_device();
        Mapped memory({1, 1}, CU_MEM_HANDLE_TYPE_FABRIC);
        fill(memory.base() + kPage, 9, kPage);
        EXPECT_EQ(share_cuda(memory.wrap(0, 2 * kPage), nullptr, {}).status().code(),
                  Code::kUnsupported);
        memory.gone = 0;
        lend_and_wait(line, memory.wrap(kPage, kPage), memory.gone, CudaTransport::kFabric);
      },
      [](Line& line) { read_and_let_go(line, kPage, 9, 9); });
}

// No transport silently replaces another: the lend uses the one that was asked for, or returns an
// error with the driver's reason.
TEST(CudaTransport, TheWayThatWasAskedForOrNone) {
  in_child({}, [] {
    use_device();
    Memory plain(kNbytes);
    Mapped mapped({1});
    Mapped closed({1}, CU_MEM_HANDLE_TYPE_NONE);
    const CUmemoryPool pool = make_pool(CU_MEM_HANDLE_TYPE_NONE);
    const CUdeviceptr pooled = allocate_from(pool, kNbytes);
    const auto refusal = [](const Ref<Storage>& storage, CudaTransport transport) {
      const Result<CudaHandle> handle = share_cuda(storage, nullptr, {.transport = transport});
      EXPECT_EQ(handle.status().code(), Code::kUnsupported);
      return handle.status().message();
    };
    Ref<Storage> storage = wrap(&plain);
    EXPECT_NE(refusal(storage, CudaTransport::kFd)
                  .find("by fds; the driver knows for it: a CUDA IPC handle"),
              std::string::npos);
    EXPECT_NE(refusal(mapped.wrap(0, 8), CudaTransport::kIpc).find("knows for it: fds"),
              std::string::npos);
    EXPECT_NE(refusal(closed.wrap(0, 8), CudaTransport::kNone).find("knows no way"),
              std::string::npos);
    auto* const data = reinterpret_cast<std::byte*>(static_cast<uintptr_t>(pooled));
    Ref<Storage> of_pool = wrap_cuda(data, 8, 0, nullptr, nullptr, false).value();
    EXPECT_NE(refusal(of_pool, CudaTransport::kNone).find("without a handle type"),
              std::string::npos);
    of_pool = nullptr;
    CU(cuMemFreeAsync(pooled, nullptr));
    CU(cuMemPoolDestroy(pool));
    storage = nullptr;
  });
}

// The memory has more pieces than a message can carry fds, or pieces of too many sizes.
TEST(CudaTransport, PiecesThatAreTooMany) {
  in_child({}, [] {
    use_device();
    const Mapped many(std::vector<uint64_t>(300, 1));
    Mapped changing({1, 2, 1, 2, 1, 2, 1, 2});
    auto* const data = reinterpret_cast<std::byte*>(static_cast<uintptr_t>(many.base()));
    Ref<Storage> storage = wrap_cuda(data, many.nbytes(), 0, nullptr, nullptr, false).value();
    const Result<CudaHandle> handle = share_cuda(storage, nullptr, {});
    EXPECT_EQ(handle.status().code(), Code::kUnsupported);
    EXPECT_NE(handle.status().message().find("300 pieces"), std::string::npos);
    EXPECT_EQ(share_cuda(changing.wrap(0, changing.nbytes()), nullptr, {}).status().code(),
              Code::kUnsupported);
  });
}

TEST(CudaTransport, HandlesThatAreNotGood) {
  in_two(
      {},
      [](Line& line) {
        use_device();
        Mapped memory({1, 1});
        fill(memory.base(), 1, 2 * kPage);
        lend_and_wait(line, memory.wrap(0, 2 * kPage), memory.gone, CudaTransport::kFd);
      },
      [](Line& line) {
        use_device();
        const CudaHandle good = line.receive();
        const auto code = [&](const std::function<void(CudaHandle*)>& spoil) {
          CudaHandle bad = good;
          spoil(&bad);
          const Result<Ref<Storage>> opened = open_cuda(bad, nullptr, {});
          EXPECT_COUNT(0U, fake_cuda_live, FAKE_CUDA_RESERVATION, getpid());
          EXPECT_COUNT(0U, fake_cuda_live, FAKE_CUDA_VMM_HANDLE, getpid());
          return opened.status().code();
        };
        const os::Fd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
        const int other[] = {file.get(), file.get()};
        const int closed[] = {12345, 12345};
        EXPECT_EQ(code([](CudaHandle* bad) { bad->fds = bad->fds.first(1); }),
                  Code::kInvalidArgument);
        EXPECT_EQ(code([](CudaHandle* bad) { bad->fds = {}; }), Code::kInvalidArgument);
        const Code of_other = code([&](CudaHandle* bad) { bad->fds = other; });
        EXPECT_TRUE(of_other == Code::kInvalidArgument ||
                    (!on_the_fake() && of_other != Code::kOk));
        EXPECT_NE(code([&](CudaHandle* bad) { bad->fds = closed; }), Code::kOk);
        EXPECT_EQ(code([](CudaHandle* bad) { bad->offset = 1; }), Code::kInvalidArgument);
        EXPECT_EQ(code([](CudaHandle* bad) { bad->memory.resize(30); }), Code::kCorrupt);
        EXPECT_EQ(code([](CudaHandle* bad) { bad->memory[1] = std::byte{2}; }),
                  Code::kIncompatible);
        EXPECT_EQ(code([](CudaHandle* bad) { bad->memory[2] = std::byte{9}; }), Code::kCorrupt);
        // The handle claims twice the piece's size. The driver refuses it with INVALID_VALUE or, as
        // seen on an H100, with NOT_SUPPORTED.
        const Code of_twice = code([](CudaHandle* bad) { bad->memory[26] = std::byte{0x40}; });
        EXPECT_TRUE(of_twice == Code::kInvalidArgument ||
                    (!on_the_fake() && of_twice == Code::kUnsupported));
        read_and_let_go(line, good, 2 * kPage, 1, 1);
      });
}

}  // namespace
}  // namespace cuda_test

// Tests device memory in messages of a connection: it travels by the driver's handles, under
// leases.
#include <fstream>
#include <iterator>

#include "connected_kit.h"
#include "gate.h"
#include "support/mappings.h"

namespace cuda_test {
namespace {

bool has_come_back(const Memory& memory) {
  return wait_until([&] { return collect_cuda() == 0 && memory.freed == 1; });
}

TEST(CudaConnection, ATensorTravels) {
  in_two_connected(
      [](Line& line, Connection& connection) {
        use_device();
        CUstream stream = nullptr;
        CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        EXPECT_TRUE(connection.set_stream(0, stream).is_ok());
        Memory memory(kNbytes);
        Ref<Storage> storage = wrap(&memory);
        take_time(stream);
        fill(memory.pointer, 7, kNbytes, stream);
        send(connection, {storage});
        storage = nullptr;
        line.expect('o');
        (void)collect_cuda();
        EXPECT_EQ(memory.freed, 0);
        line.say('r');
        EXPECT_TRUE(has_come_back(memory));
        line.expect('d');
        CU(cuStreamDestroy(stream));
      },
      [](Line& line, Connection& connection) {
        use_device();
        CUstream stream = nullptr;
        CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        EXPECT_TRUE(connection.set_stream(0, stream).is_ok());
        std::vector<Ref<Storage>> storages = receive(connection);
        ASSERT_EQ(storages.size(), 1U);
        EXPECT_EQ(storages[0]->device(), (storage::Device{storage::kCuda, 0}));
        EXPECT_EQ(storages[0]->nbytes(), kNbytes);
        EXPECT_FALSE(storages[0]->is_read_only());
        line.ask('o', 'r');
        // The read is ordered after the sender's stream.
        EXPECT_EQ(byte_at(pointer_of(storages[0]) + kNbytes - 1, stream), 7);
        release_all(&storages);
        line.say('d');
        CU(cuStreamDestroy(stream));
      });
}

// Whether this process has a counter file. It looks at its own mappings, because other processes
// have counter files in /dev/shm too, and the names are random.
bool has_counters() { return count_mappings_of("/dev/shm/tenon-cuda-") > 0; }

// One handle, one open and one event serve all tensors of an allocation. No counter file is made.
TEST(CudaConnection, ManyTensorsAreOpenedOnce) {
  static constexpr uint64_t kMany = 2000;
  in_two_connected(
      [](Line& line, Connection& connection) {
        use_device();
        Memory memory(kMany * 512);
        fill(memory.pointer, 1, memory.nbytes);
        std::vector<Ref<Storage>> storages;
        for (uint64_t i = 0; i < kMany; ++i) {
          fill(memory.pointer + i * 512, static_cast<unsigned char>(i), 1);
          storages.push_back(
              wrap_cuda(memory.data(i * 512), 512, 0, count_free, &memory, false).value());
        }
        send(connection, storages);
        EXPECT_COUNT(1U, fake_cuda_calls, "cuIpcGetMemHandle", getpid());
        EXPECT_COUNT(1U, fake_cuda_calls, "cuEventRecord", getpid());
        EXPECT_FALSE(has_counters());
        storages.clear();
        EXPECT_EQ(memory.freed, 0);
        line.say('r');
        EXPECT_TRUE(wait_until(
            [&] { return collect_cuda() == 0 && memory.freed == static_cast<int>(kMany); }));
        line.expect('d');
        CU(cuMemFree(memory.pointer));
      },
      [](Line& line, Connection& connection) {
        use_device();
        std::vector<Ref<Storage>> storages = receive(connection);
        ASSERT_EQ(storages.size(), kMany);
        EXPECT_COUNT(1U, fake_cuda_calls, "cuIpcOpenMemHandle", getpid());
        EXPECT_COUNT(1U, fake_cuda_calls, "cuIpcOpenEventHandle", getpid());
        EXPECT_EQ(byte_at(pointer_of(storages[1999])), 1999 % 256);
        EXPECT_EQ(byte_at(pointer_of(storages[3])), 3);
        line.expect('r');
        release_all(&storages);
        line.say('d');
      });
}

TEST(CudaConnection, AKilledReceiverGivesBack) {
  in_two_connected(
      [](Line& line, Connection& connection) {
        use_device();
        Memory memory(kNbytes);
        Memory pieces(kNbytes);
        send(connection, {wrap(&memory), wrap(&pieces)});
        line.expect('o');
        (void)collect_cuda();
        EXPECT_EQ(memory.freed, 0);
        line.say('k');
        EXPECT_TRUE(has_come_back(memory));
        EXPECT_TRUE(has_come_back(pieces));
      },
      [](Line& line, Connection& connection) {
        use_device();
        const std::vector<Ref<Storage>> storages = receive(connection);
        line.ask('o', 'k');
        raise(SIGKILL);
      });
}

TEST(CudaConnection, AMessageThatNobodyReadsGivesBack) {
  in_two_connected(
      [](Line& line, Connection& connection) {
        use_device();
        Memory memory(kNbytes);
        send(connection, {wrap(&memory)});
        (void)collect_cuda();
        EXPECT_EQ(memory.freed, 0);
        line.say('k');
        EXPECT_TRUE(has_come_back(memory));
      },
      [](Line& line, Connection&) { line.expect('k'); });
}

// A lends to B and B lends on to C. B is killed and C goes on reading. A gets the memory back when
// C has released it.
TEST(CudaConnection, WhatIsLentOnOutlivesWhoLentIt) {
  in_child({}, [] {
    Line up;
    Line down;
    Socket first;
    Socket second;
    const pid_t last = start([&] {
      down.become(1);
      first.drop();
      const Connection::Owned from = second.connect(1);
      use_device();
      std::vector<Ref<Storage>> storages = receive(*from);
      down.say('o');
      down.expect('r');
      EXPECT_EQ(byte_at(pointer_of(storages[0])), 4);
      release_all(&storages);
    });
    const pid_t middle = start([&] {
      up.become(1);
      const Connection::Owned from = first.connect(1);
      const Connection::Owned to = second.connect(0);
      use_device();
      send(*to, receive(*from));
      up.say('o');
      up.expect('k');
      raise(SIGKILL);
    });
    up.become(0);
    down.become(0);
    second.drop();
    const Connection::Owned to = first.connect(0);
    use_device();
    {
      Mapped memory({1});
      fill(memory.base(), 4, kPage);
      send(*to, {memory.wrap(0, kPage)});
      up.expect('o');
      down.expect('o');
      up.say('k');
      EXPECT_EQ(wait_for(middle), -SIGKILL);
      usleep(50000);  // the library's thread has seen that B is gone
      (void)collect_cuda();
      EXPECT_EQ(memory.gone, 0);
      down.say('r');
      EXPECT_TRUE(wait_until([&] { return collect_cuda() == 0 && memory.gone == 1; }));
    }
    EXPECT_EQ(wait_for(last), 0);
    expect_nothing_left();
  });
}

// A lends to B, and B sends the memory back to A. A recognises it: it is the same storage, and A
// takes no lease on it.
TEST(CudaConnection, WhatComesHomeIsTheSameStorage) {
  in_two_connected(
      [](Line& line, Connection& connection) {
        use_device();
        Mapped memory({1});
        Ref<Storage> storage = memory.wrap(512, kNbytes);
        send(connection, {storage});
        std::vector<Ref<Storage>> back = receive(connection);
        line.say('h');
        ASSERT_EQ(back.size(), 1U);
        EXPECT_EQ(back[0].get(), storage.get());
        EXPECT_COUNT(0U, fake_cuda_calls, "cuMemImportFromShareableHandle", getpid());
        line.expect('d');  // B has released it, though A has not
        EXPECT_TRUE(wait_until([&] {
          (void)collect_cuda();
          return storage->strong_count() == 2;
        }));
        back.clear();
        storage = nullptr;
        EXPECT_TRUE(wait_until([&] { return collect_cuda() == 0 && memory.gone == 1; }));
      },
      [](Line& line, Connection& connection) {
        use_device();
        send(connection, receive(connection));
        line.expect('h');  // until then A's open needs B's event
        // The storage that came home to A keeps nothing alive in B.
        EXPECT_TRUE(wait_until([] {
          (void)collect_cuda();
          return !on_the_fake() || LEDGER(fake_cuda_live)(FAKE_CUDA_MAPPING, getpid()) == 0;
        }));
        line.say('d');
      });
}

// One fd leads to all memory of a pool. The receiver still distinguishes the storages in it.
TEST(CudaConnection, TwoOfAPoolComeHomeAsWhatTheyAre) {
  in_two_connected(
      [](Line& line, Connection& connection) {
        use_device();
        const CUmemoryPool pool = make_pool();
        CUdeviceptr pointers[2] = {allocate_from(pool, kNbytes), allocate_from(pool, kNbytes)};
        {
          std::vector<Ref<Storage>> storages;
          for (const CUdeviceptr pointer : pointers) {
            auto* const data = reinterpret_cast<std::byte*>(static_cast<uintptr_t>(pointer));
            storages.push_back(wrap_cuda(data, kNbytes, 0, nullptr, nullptr, false).value());
            fill(pointer, pointer == pointers[0] ? 3 : 4, kNbytes);
            send(connection, {storages.back()});
          }
          for (const Ref<Storage>& each : storages) {
            const std::vector<Ref<Storage>> back = receive(connection);
            ASSERT_EQ(back.size(), 1U);
            EXPECT_EQ(back[0].get(), each.get());
          }
          EXPECT_COUNT(0U, fake_cuda_calls, "cuMemPoolImportFromShareableHandle", getpid());
        }
        line.ask('r', 'd');
        EXPECT_TRUE(wait_until([] { return collect_cuda() == 0; }));
        for (const CUdeviceptr pointer : pointers) CU(cuMemFreeAsync(pointer, nullptr));
        CU(cuMemPoolDestroy(pool));
      },
      [](Line& line, Connection& connection) {
        use_device();
        std::vector<Ref<Storage>> kept;
        for (int i = 0; i < 2; ++i) kept.push_back(receive(connection).at(0));
        EXPECT_EQ(byte_at(pointer_of(kept[0])), 3);
        EXPECT_EQ(byte_at(pointer_of(kept[1])), 4);
        for (const Ref<Storage>& each : kept) send(connection, {each});
        line.expect('r');
        release_all(&kept);
        line.say('d');
      });
}

TEST(CudaConnection, AProcessLendsToItself) {
  in_child({}, [] {
    use_device();
    Socket socket;
    auto [one, other] = socket.connect_both();
    Memory memory(kNbytes);
    Ref<Storage> storage = wrap(&memory);
    send(*one, {storage});
    std::vector<Ref<Storage>> back = receive(*other);
    ASSERT_EQ(back.size(), 1U);
    EXPECT_EQ(back[0].get(), storage.get());
    back.clear();
    storage = nullptr;
    EXPECT_TRUE(has_come_back(memory));
    expect_nothing_left();
  });
}

TEST(CudaConnection, ReadOnlyIsAskedFor) {
  NEEDS_OF_A_REAL_DEVICE(keeps_read_only, "it does not keep a mapping read-only");
  in_two_connected(
      [](Line& line, Connection& connection) {
        use_device();
        Mapped memory({1});
        fill(memory.base(), 5, kPage);
        // A read-only storage is not lent where its receiver could write it.
        EXPECT_EQ(try_send(connection, {memory.wrap(0, 512, true)}).code(), Code::kPermission);
        Memory plain(kNbytes);
        EXPECT_EQ(try_send(connection, {wrap(&plain)}, memory::Access::kReadOnly).code(),
                  Code::kUnsupported);
        EXPECT_TRUE(has_come_back(plain));
        const Status sent = try_send(connection, {memory.wrap(0, 512)}, memory::Access::kReadOnly);
        EXPECT_TRUE(sent.is_ok()) << sent.message();
        line.say('r');
        EXPECT_TRUE(wait_until([&] { return collect_cuda() == 0 && memory.gone == 2; }));
        line.expect('d');
      },
      [](Line& line, Connection& connection) {
        use_device();
        std::vector<Ref<Storage>> storages = receive(connection);
        EXPECT_TRUE(storages[0]->is_read_only());
        EXPECT_EQ(byte_at(pointer_of(storages[0])), 5);
        line.expect('r');
        release_all(&storages);
        line.say('d');
      });
}

TEST(CudaConnection, WhoLetsWriteLendsReadOnlyStorages) {
  ConnectionOptions let_write;
  let_write.cuda_let_write = true;
  in_two_connected(
      [](Line& line, Connection& connection) {
        use_device();
        Memory memory(kNbytes, 6);
        send(connection,
             {wrap_cuda(memory.data(), kNbytes, 0, free_memory, &memory, true).value()});
        EXPECT_TRUE(has_come_back(memory));
        line.expect('d');
      },
      [](Line& line, Connection& connection) {
        use_device();
        std::vector<Ref<Storage>> storages = receive(connection);
        EXPECT_FALSE(storages[0]->is_read_only());  // nothing makes it read-only
        EXPECT_EQ(byte_at(pointer_of(storages[0])), 6);
        release_all(&storages);
        line.say('d');
      },
      let_write);
}

// A receiver gives back memory that it cannot open, and the connection goes on.
TEST(CudaConnection, WhatIsNotOpenedIsGivenBack) {
  NEEDS_OF_A_REAL_DEVICE(keeps_read_only, "it does not keep a mapping read-only");
  ConnectionOptions read_only;
  read_only.open.access = memory::Access::kReadOnly;
  in_two_connected(
      [](Line& line, Connection& connection) {
        use_device();
        Memory memory(kNbytes);
        send(connection, {wrap(&memory)});
        EXPECT_TRUE(has_come_back(memory));
        Mapped pieces({1});
        fill(pieces.base(), 8, kPage);
        send(connection, {pieces.wrap(0, 512)});
        EXPECT_TRUE(wait_until([&] { return collect_cuda() == 0 && pieces.gone == 1; }));
        line.expect('d');
      },
      [](Line& line, Connection& connection) {
        use_device();
        const Result<std::vector<Ref<Storage>>> refused = try_receive(connection);
        EXPECT_EQ(refused.status().code(), Code::kUnsupported);  // an IPC handle is never read-only
        std::vector<Ref<Storage>> storages = receive(connection);
        EXPECT_EQ(byte_at(pointer_of(storages[0])), 8);
        release_all(&storages);
        line.say('d');
      },
      {}, read_only);
}

// One message carries host memory, device memory, and empty storages of both, and is sent twice.
// The second time the receiver knows the host's segment.
TEST(CudaConnection, AllKindsInOneMessage) {
  in_two_connected(
      [](Line& line, Connection& connection) {
        use_device();
        Memory memory(kNbytes);
        Mapped pieces({1});
        fill(memory.pointer, 1, kNbytes);
        fill(pieces.base(), 2, kPage);
        const std::string text(100, 'h');
        {
          const Ref<Storage> host = Storage::create_from({}, text.data(), text.size()).value();
          const Ref<Storage> no_host = Storage::create({}, 0).value();
          const Ref<Storage> no_device = wrap_cuda(nullptr, 0, 0, nullptr, nullptr, false).value();
          const std::vector<Ref<Storage>> all{wrap(&memory), host, no_device, pieces.wrap(512, 512),
                                              no_host};
          send(connection, all);
          send(connection, all);
          send(connection, {no_device});
        }
        line.say('r');
        EXPECT_TRUE(has_come_back(memory));
        EXPECT_TRUE(wait_until([&] { return collect_cuda() == 0 && pieces.gone == 1; }));
        line.expect('d');
      },
      [](Line& line, Connection& connection) {
        use_device();
        {
          const std::vector<Ref<Storage>> all = receive(connection);
          const std::vector<Ref<Storage>> again = receive(connection);
          const std::vector<Ref<Storage>> none = receive(connection);
          ASSERT_EQ(all.size(), 5U);
          EXPECT_EQ(byte_at(pointer_of(all[0])), 1);
          char first = 0;
          EXPECT_TRUE(all[1]->read(99, &first, 1).is_ok());
          EXPECT_EQ(first, 'h');
          EXPECT_EQ(all[2]->device().type, storage::kCuda);
          EXPECT_EQ(all[2]->nbytes(), 0U);
          EXPECT_EQ(byte_at(pointer_of(all[3]) + 511), 2);
          EXPECT_EQ(all[4]->device().type, 1);
          EXPECT_EQ(again[0].get(), all[0].get());
          EXPECT_EQ(again[3].get(), all[3].get());
          ASSERT_EQ(none.size(), 1U);
          EXPECT_EQ(none[0]->device().type, storage::kCuda);
        }
        line.expect('r');
        EXPECT_TRUE(wait_until([] { return collect_cuda() == 0; }));
        line.say('d');
      });
}

// Unfinished work in the receiver's stream keeps the memory after its storage was released.
TEST(CudaConnection, TheReceiversStreamPassesFirst) {
  in_two_connected(
      [](Line& line, Connection& connection) {
        use_device();
        Memory memory(kNbytes);
        send(connection, {wrap(&memory)});
        line.expect('g');
        (void)collect_cuda();
        EXPECT_EQ(memory.freed, 0);
        line.say('p');
        EXPECT_TRUE(has_come_back(memory));
        line.expect('d');
      },
      [](Line& line, Connection& connection) {
        use_device();
        std::vector<Ref<Storage>> storages = receive(connection);
        Gate gate;
        gate.stand_in(nullptr);
        storages.clear();
        EXPECT_EQ(collect_cuda(), 1U);
        line.ask('g', 'p');
        gate.open();
        EXPECT_TRUE(wait_until([] { return collect_cuda() == 0; }));
        line.say('d');
      });
}

}  // namespace
}  // namespace cuda_test

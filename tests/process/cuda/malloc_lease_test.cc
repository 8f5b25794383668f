// Lets every allocation fail in turn while device memory travels in messages of a connection, under
// leases.
#include "malloc_kit.h"
#include "support/sized.h"

#if !TENON_TEST_SANITIZED
namespace cuda_test {
namespace {

tenon_connection* as_c_connection(Connection& connection) {
  return reinterpret_cast<tenon_connection*>(&connection);
}

tenon_cuda_arena* new_cuda_arena(tenon_cuda_transport transport) {
  auto how = tenon::test::sized<tenon_cuda_arena_options>();
  how.transport = transport;
  how.capacity_nbytes = kPage;
  tenon_cuda_arena* arena = nullptr;
  REQUIRE_OK(tenon_cuda_arena_new(&how, &arena, err));
  return arena;
}
uint64_t blocks_used(const tenon_cuda_arena* arena) {
  auto stats = tenon::test::sized<tenon_cuda_arena_stats>();
  CHECK_OK(tenon_cuda_arena_stats_get(arena, &stats, err));
  return stats.blocks_used;
}
bool blocks_come_back(const tenon_cuda_arena* arena) {
  return wait_until([&] { return tenon_cuda_collect() == 0 && blocks_used(arena) == 0; });
}
// Collects what has come back. Without memory the collect succeeds, or a later one does the work.
void look(long allowed) {
  with_allocations(allowed, "tenon_cuda_collect", [] { (void)tenon_cuda_collect(); });
}

// The blocks of an arena in each message. With two, one may have its lease when memory ends at the
// other.
constexpr uint64_t kBlocks = 2;
// Returns a message of blocks filled with `byte`. `out` receives a reference to the first storage.
tenon_message* blocks_of(tenon_cuda_arena* arena, unsigned char byte,
                         tenon_storage** out = nullptr) {
  std::vector<tenon_storage*> storages(kBlocks);
  for (tenon_storage*& each : storages) {
    REQUIRE_OK(tenon_cuda_arena_allocate(arena, kNbytes, nullptr, &each, err));
    fill(pointer_of(each), byte, kNbytes);
  }
  if (out != nullptr) *out = tenon_storage_retain(storages[0]);
  return fault::new_message(storages);
}
tenon_storage* storage_in(const tenon_message* message, size_t i = 0) {
  return tenon_tensor_storage(tenon_message_tensor(message, i));
}
bool shows(const tenon_message* message, unsigned char byte) {
  bool good = tenon_message_count(message) == kBlocks;
  for (size_t i = 0; good && i < kBlocks; ++i) {
    const CUdeviceptr pointer = pointer_of(storage_in(message, i));
    good = byte_at(pointer) == byte && byte_at(pointer + kNbytes - 1) == byte;
  }
  return good;
}

// Receives the message that has already arrived. After a failure the call is repeated, without a
// limit, or, if `stubborn`, with one allocation more each time.
tenon_message* receive_at(tenon_connection* connection, long allowed, bool stubborn,
                          bool* refused) {
  const tenon_wait now = fault::wait_ns(0);
  tenon_message* message = nullptr;
  *refused = false;
  const std::string first = std::to_string(allowed);
  for (; message == nullptr; allowed = stubborn ? allowed + 1 : -1) {
    REQUIRE(allowed < 1000);
    tenon_error* error = nullptr;
    tenon_status status = TENON_OK;
    const bool here = with_allocations(
        allowed, "tenon_recv", [&] { status = tenon_recv(connection, &now, &message, &error); });
    const fault::Outcome outcome = fault::read_error(status, error);
    *refused |= here;
    const std::string where =
        first + " allocations at first, then " + std::to_string(allowed) + ": " + outcome.text();
    const bool good = outcome.ok() == (message != nullptr) &&
                      (outcome.ok() || (here && status == TENON_RESOURCE_EXHAUSTED));
    if (!CHECK_SAYING(good, where) && message == nullptr) _exit(1);
  }
  return message;
}

// ---- receiving

// Lends blocks in a message each time the receiver asks for one.
void lend_blocks(Line& line, Connection& connection, tenon_cuda_transport transport) {
  begin();
  tenon_cuda_arena* arena = new_cuda_arena(transport);
  unsigned char byte = 0;
  Passes passes;
  for (char word = 0; (word = line.receive_as<char>()) != 'e';) {
    if (word == 'p') {
      passes.end_of_one();
      line.say('p');
      continue;
    }
    tenon_message* message = blocks_of(arena, ++byte);
    REQUIRE_OK(tenon_send(as_c_connection(connection), message, nullptr, err));
    tenon_message_release(message);
    line.send_as(byte);
    const auto allowed = line.receive_as<long>();
    CHECK_SAYING(blocks_used(arena) == kBlocks,
                 "received with " + std::to_string(allowed) + " allocations");
    line.ask('r', 'd');
    look(allowed % 4);
    CHECK_SAYING(blocks_come_back(arena),
                 "received with " + std::to_string(allowed) + " allocations");
  }
  with_allocations(0, "tenon_cuda_arena_release", [&] { tenon_cuda_arena_release(arena); });
  EXPECT_EQ(fault::g_failures, 0);
}

void receive_at_every_allocation(tenon_cuda_transport transport, bool stubborn,
                                 const ConnectionOptions& options = {}) {
  in_two_connected(
      [transport](Line& line, Connection& connection) { lend_blocks(line, connection, transport); },
      [stubborn](Line& line, Connection& connection) {
        begin();
        Passes passes;
        for (int pass = 0; pass < kPasses; ++pass) {
          until_enough("tenon_recv", [&](long allowed) {
            line.say('n');
            const auto byte = line.receive_as<unsigned char>();
            bool refused = false;
            tenon_message* message =
                receive_at(as_c_connection(connection), allowed, stubborn, &refused);
            CHECK(shows(message, byte));
            line.send_as(allowed);
            line.expect('r');
            CHECK(shows(message, byte));
            with_allocations(allowed, "tenon_message_release",
                             [&] { tenon_message_release(message); });
            look(allowed);
            CHECK_EQ(tenon_cuda_collect(), 0);
            line.say('d');
            return refused && !stubborn;
          });
          line.ask('p', 'p');
          passes.end_of_one();
        }
        line.say('e');
        EXPECT_EQ(fault::g_failures, 0);
      },
      {}, options);
}
TEST(CudaMallocLease, ReceivesByAnIpcHandle) {
  NEEDS_THE_FAKE("a driver has needs of its own");
  receive_at_every_allocation(TENON_CUDA_IPC, false);
}
TEST(CudaMallocLease, ReceivesByFds) {
  NEEDS_THE_FAKE("a driver has needs of its own");
  receive_at_every_allocation(TENON_CUDA_FD, false);
}
TEST(CudaMallocLease, ReceivesOneMessageThatFailsAtEach) {
  NEEDS_THE_FAKE("a driver has needs of its own");
  receive_at_every_allocation(TENON_CUDA_IPC, true);
}

// The receiver already has the memory. The new message's lease is given back at once, and the first
// message's lease stays.
TEST(CudaMallocLease, ReceivesWhatItHas) {
  NEEDS_THE_FAKE("a driver has needs of its own");
  in_two_connected(
      [](Line& line, Connection& connection) {
        begin();
        tenon_cuda_arena* arena = new_cuda_arena(TENON_CUDA_FD);
        tenon_message* message = blocks_of(arena, 5);
        while (line.receive_as<char>() == 'n') {
          REQUIRE_OK(tenon_send(as_c_connection(connection), message, nullptr, err));
          line.say('s');
        }
        tenon_message_release(message);
        (void)tenon_cuda_collect();
        CHECK_EQ(blocks_used(arena), kBlocks);
        line.ask('r', 'd');
        CHECK(blocks_come_back(arena));
        tenon_cuda_arena_release(arena);
        EXPECT_EQ(fault::g_failures, 0);
      },
      [](Line& line, Connection& connection) {
        begin();
        tenon_message* first = nullptr;
        line.ask('n', 's');
        REQUIRE_OK(tenon_recv(as_c_connection(connection), nullptr, &first, err));
        until_enough("tenon_recv of what is here", [&](long allowed) {
          line.ask('n', 's');
          bool refused = false;
          tenon_message* message =
              receive_at(as_c_connection(connection), allowed, false, &refused);
          for (size_t i = 0; i < kBlocks; ++i)
            CHECK(storage_in(message, i) == storage_in(first, i));
          with_allocations(allowed, "tenon_message_release",
                           [&] { tenon_message_release(message); });
          return refused;
        });
        line.ask('e', 'r');
        CHECK(shows(first, 5));
        tenon_message_release(first);
        CHECK_EQ(tenon_cuda_collect(), 0);
        line.say('d');
        EXPECT_EQ(fault::g_failures, 0);
      });
}

// ---- sending

// After a failure, `again` sends the same message once there is memory. Otherwise the message is
// dropped, which must end its lends, and another message is sent.
void send_at_every_allocation(tenon_cuda_transport transport, bool again) {
  in_two_connected(
      [transport, again](Line& line, Connection& connection) {
        begin();
        tenon_cuda_arena* arena = new_cuda_arena(transport);
        unsigned char byte = 0;
        Passes passes;
        for (int pass = 0; pass < kPasses; ++pass) {
          until_enough("tenon_send", [&](long allowed) {
            tenon_message* message = blocks_of(arena, ++byte);
            tenon_error* error = nullptr;
            tenon_status status = TENON_OK;
            const bool refused = with_allocations(allowed, "tenon_send", [&] {
              status = tenon_send(as_c_connection(connection), message, nullptr, &error);
            });
            const fault::Outcome outcome = fault::read_error(status, error);
            const std::string where =
                "sent with " + std::to_string(allowed) + " allocations: " + outcome.text();
            CHECK_SAYING(outcome.ok() || (refused && status == TENON_RESOURCE_EXHAUSTED), where);
            if (!outcome.ok()) {
              if (!again) {
                tenon_message_release(message);
                look(allowed % 4);
                CHECK_SAYING(blocks_come_back(arena), where);
                message = blocks_of(arena, byte);
              }
              REQUIRE_OK(tenon_send(as_c_connection(connection), message, nullptr, err));
            }
            with_allocations(allowed % 4, "tenon_message_release",
                             [&] { tenon_message_release(message); });
            line.send_as(byte);
            line.expect('h');
            CHECK_SAYING(blocks_used(arena) == kBlocks, where);
            line.ask('r', 'd');
            look(allowed % 4);
            CHECK_SAYING(blocks_come_back(arena), where);
            return refused;
          });
          passes.end_of_one();
        }
        line.send_as<unsigned char>(0);
        tenon_cuda_arena_release(arena);
        EXPECT_EQ(fault::g_failures, 0);
      },
      [](Line& line, Connection& connection) {
        begin();
        const tenon_wait now = fault::wait_ns(0);
        while (const auto byte = line.receive_as<unsigned char>()) {
          tenon_message* message = nullptr;
          tenon_message* more = nullptr;
          REQUIRE_OK(tenon_recv(as_c_connection(connection), &now, &message, err));
          CHECK_STATUS(TENON_WOULD_BLOCK,
                       tenon_recv(as_c_connection(connection), &now, &more, err));
          line.ask('h', 'r');
          CHECK(shows(message, byte));
          tenon_message_release(message);
          CHECK_EQ(tenon_cuda_collect(), 0);
          line.say('d');
        }
        EXPECT_EQ(fault::g_failures, 0);
      });
}
TEST(CudaMallocLease, SendsAgain) {
  NEEDS_THE_FAKE("a driver has needs of its own");
  for (const tenon_cuda_transport transport : {TENON_CUDA_IPC, TENON_CUDA_FD})
    send_at_every_allocation(transport, true);
}
TEST(CudaMallocLease, SendsAnother) {
  NEEDS_THE_FAKE("a driver has needs of its own");
  for (const tenon_cuda_transport transport : {TENON_CUDA_IPC, TENON_CUDA_FD})
    send_at_every_allocation(transport, false);
}

// ---- in one process

// Memory that comes home is the storage itself. The lease keeps it until then.
TEST(CudaMallocLease, ReceivesItsOwn) {
  NEEDS_THE_FAKE("a driver has needs of its own");
  for (const tenon_cuda_transport transport : {TENON_CUDA_IPC, TENON_CUDA_FD}) {
    in_one([transport] {
      tenon_cuda_arena* arena = new_cuda_arena(transport);
      Passes passes;
      for (int pass = 0; pass < kPasses; ++pass) {
        for (const bool held : {false, true}) {
          until_enough("tenon_recv of this process's own", [&](long allowed) {
            fault::Pair pair(SOCK_SEQPACKET);
            tenon_storage* storage = nullptr;
            tenon_message* message = blocks_of(arena, 9, &storage);
            REQUIRE_OK(tenon_send(pair.left, message, nullptr, err));
            tenon_message_release(message);
            const tenon_storage* const was = storage;
            if (!held) tenon_storage_release(std::exchange(storage, nullptr));
            bool refused = false;
            message = receive_at(pair.right, allowed, false, &refused);
            CHECK(storage_in(message) == was);
            tenon_storage_release(storage);
            look(allowed % 4);
            CHECK_EQ(blocks_used(arena), kBlocks);
            CHECK(shows(message, 9));
            refused |= with_allocations(allowed, "tenon_message_release",
                                        [&] { tenon_message_release(message); });
            look(allowed % 4);
            CHECK(blocks_come_back(arena));
            return refused;
          });
        }
        passes.end_of_one();
      }
      tenon_cuda_arena_release(arena);
    });
  }
}

// The reader of the messages is gone, and allocations fail at their end.
TEST(CudaMallocLease, MessagesThatNobodyReads) {
  NEEDS_THE_FAKE("a driver has needs of its own");
  in_one([] {
    tenon_cuda_arena* arena = new_cuda_arena(TENON_CUDA_IPC);
    Passes passes;
    for (int pass = 0; pass < kPasses; ++pass) {
      until_enough("the end of a connection", [&](long allowed) {
        const auto ends = fault::socket_ends();
        tenon_connection* left = fault::new_connection(ends[0]);
        tenon_connection* right = fault::new_connection(ends[1]);
        for (unsigned char i = 0; i < 3; ++i) {
          tenon_message* message = blocks_of(arena, i);
          REQUIRE_OK(tenon_send(left, message, nullptr, err));
          tenon_message_release(message);
        }
        CHECK_EQ(blocks_used(arena), 3 * kBlocks);
        // Lets a receive fail half-way at one of the messages.
        tenon_message* got = nullptr;
        const tenon_wait now = fault::wait_ns(0);
        bool refused = with_allocations(allowed, "tenon_recv",
                                        [&] { (void)tenon_recv(right, &now, &got, nullptr); });
        refused |= with_allocations(allowed, "tenon_connection_release",
                                    [&] { tenon_connection_release(right); });
        refused |= with_allocations(allowed, "tenon_connection_release",
                                    [&] { tenon_connection_release(left); });
        if (got != nullptr) tenon_message_release(got);
        refused |=
            with_allocations(allowed, "tenon_cuda_collect", [] { (void)tenon_cuda_collect(); });
        CHECK_SAYING(blocks_come_back(arena), std::to_string(allowed) + " allocations");
        return refused;
      });
      passes.end_of_one();
    }
    tenon_cuda_arena_release(arena);
  });
}

}  // namespace
}  // namespace cuda_test

#else
TEST(CudaMallocLease, Injection) {
  GTEST_SKIP() << "skipped: the sanitizer stands in for malloc itself";
}
#endif

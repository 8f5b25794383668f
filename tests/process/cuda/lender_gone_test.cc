// Tests device memory of a lender that died, in a borrower whose connection drops it.
#include <poll.h>

#include "support/must.h"

#include "connected_kit.h"
#include "gate.h"

namespace cuda_test {
namespace {

ConnectionOptions dropping() {
  ConnectionOptions options;
  options.drop_when_gone = true;
  return options;
}

bool is_open(const Ref<Storage>& storage) {
  return cuda::find_allocation(pointer_of(storage)).is_ok();
}

void wait_until_gone(Connection& connection) {
  int fd = must(connection.gone_fd());
  pollfd polled{fd, POLLIN, 0};
  EXPECT_EQ(poll(&polled, 1, 30'000), 1);
}

// Lends one storage, and is killed when the borrower asks for it.
void lend_and_die(Line& line, Connection& connection) {
  use_device();
  Memory memory(kNbytes);
  Ref<Storage> storage = wrap(&memory);
  send(connection, {storage});
  line.expect('k');
  raise(SIGKILL);
}

TEST(CudaLenderGone, ItsMemoryIsClosedAtOnce) {
  for (const bool keep_open : {false, true}) {
    ConnectionOptions options = dropping();
    options.cuda_keep_open = keep_open;
    in_two_connected(
        [](Line& line, Connection& connection) {
          use_device();
          const std::vector<Ref<Storage>> storages = receive(connection);
          ASSERT_EQ(storages.size(), 1U);
          EXPECT_TRUE(is_open(storages[0]));
          line.say('k');
          wait_until_gone(connection);
          EXPECT_FALSE(is_open(storages[0]));
          EXPECT_EQ(storages[0]->check_lender().code(), Code::kPeerGone);
          EXPECT_EQ(try_send(connection, storages).code(), Code::kPeerGone);
          EXPECT_EQ(device::order_stream(*storages[0], nullptr).code(), Code::kPeerGone);
        },
        &lend_and_die, options);
  }
}

TEST(CudaLenderGone, ItsMemoryIsClosedWhenTheStreamsThatUseItHavePassed) {
  in_two_connected(
      [](Line& line, Connection& connection) {
        use_device();
        Gate gate;
        CUstream stream = nullptr;
        CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        EXPECT_TRUE(connection.set_stream(0, stream).is_ok());
        const std::vector<Ref<Storage>> storages = receive(connection);
        ASSERT_EQ(storages.size(), 1U);
        gate.stand_in(stream);
        line.say('k');
        wait_until_gone(connection);
        EXPECT_EQ(storages[0]->check_lender().code(), Code::kPeerGone);
        EXPECT_GT(collect_cuda(), 0U);
        EXPECT_TRUE(is_open(storages[0]));
        gate.open();
        EXPECT_TRUE(wait_until([] { return collect_cuda() == 0; }));
        EXPECT_FALSE(is_open(storages[0]));
        CU(cuStreamDestroy(stream));
      },
      &lend_and_die, dropping());
}

TEST(CudaLenderGone, ItsMemoryIsKeptByDefault) {
  in_two_connected(
      [](Line& line, Connection& connection) {
        use_device();
        const std::vector<Ref<Storage>> storages = receive(connection);
        ASSERT_EQ(storages.size(), 1U);
        line.say('k');
        wait_until_gone(connection);
        EXPECT_TRUE(storages[0]->check_lender().is_ok());
        EXPECT_TRUE(is_open(storages[0]));
      },
      &lend_and_die);
}

}  // namespace
}  // namespace cuda_test

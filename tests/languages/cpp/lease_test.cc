// Tests of leases: memory that another process holds is not reused, and it comes back however that
// process ends.
#include <poll.h>

#include "kit.h"

namespace {

using namespace std::chrono_literals;
using kit::kMiB;
using kit::kPatience;
using Leases = kit::Leaves;

// Receives one tensor and says so. Drops the tensor when the lender says so, or dies with it.
bool borrow(kit::Sockets& sockets) {
  tenon::Connection connection = tenon::Connection::make(sockets.keep_there());
  {
    const tenon::Message message = connection.recv({.timeout = kPatience});
    connection.send(tenon::Message::make(), {.timeout = kPatience});
    (void)connection.recv({.timeout = kPatience});
  }
  connection.send(tenon::Message::make(), {.timeout = kPatience});
  return true;
}

// Lends a tensor that fills the arena, and waits until the borrower has it. Keeps no reference to
// it.
void lend_all(const tenon::Arena& arena, tenon::Connection& connection) {
  const tenon::Tensor tensor =
      tenon::zeros<std::uint8_t>({static_cast<std::int64_t>(kMiB)}, {.arena = &arena});
  connection.send(tenon::Message::of({{"all", tensor}}), {.timeout = kPatience});
  (void)connection.recv({.timeout = kPatience});
}

TEST_F(Leases, ALentBlockStaysUntilItIsGivenBack) {
  kit::Sockets sockets;
  kit::Child borrower([&] { return borrow(sockets); });
  tenon::Connection connection = tenon::Connection::make(sockets.keep_here());
  const tenon::Arena arena = tenon::Arena::make({.capacity_nbytes = kMiB});
  lend_all(arena, connection);
  EXPECT_EQ(arena.stats().blocks_live, 0U);
  EXPECT_EQ(arena.stats().blocks_lent, 1U);
  EXPECT_EQ(arena.stats().bytes_lent, kMiB);
  const std::vector<tenon::LeaseHolder> holders = tenon::lease_holders();
  ASSERT_EQ(holders.size(), 1U);
  EXPECT_EQ(holders[0].pid, borrower.pid());
  EXPECT_EQ(holders[0].uid, getuid());
  EXPECT_EQ(holders[0].leases, 1U);
  EXPECT_EQ(holders[0].nbytes, kMiB);
  EXPECT_EQ(holders[0].granted, 1U);
  EXPECT_EQ(holders[0].granted_bytes, kMiB);
  EXPECT_GT(holders[0].age_ns, 0U);
  const tenon::Result<tenon::Storage> full =
      tenon::Storage::try_make(1, {.arena = &arena, .wait = {.timeout = 1ms}});
  ASSERT_EQ(full.code(), tenon::Code::kTimeout);
  EXPECT_NE(
      full.error().detail("holders").value_or("").find("pid " + std::to_string(borrower.pid())),
      std::string_view::npos);
  connection.send(tenon::Message::make(), {.timeout = kPatience});
  (void)tenon::Storage::make(kMiB, {.arena = &arena, .wait = {.timeout = kPatience}});
  (void)connection.recv({.timeout = kPatience});
  EXPECT_EQ(borrower.wait(), 0);
  EXPECT_EQ(arena.stats().blocks_lent, 0U);
}

TEST_F(Leases, AKilledBorrowerEndsTheWait) {
  kit::Sockets sockets;
  kit::Child borrower([&] { return borrow(sockets); });
  tenon::Connection connection = tenon::Connection::make(sockets.keep_here());
  const tenon::Arena arena = tenon::Arena::make({.capacity_nbytes = kMiB});
  lend_all(arena, connection);
  kill(borrower.pid(), SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(borrower.wait()));
  (void)tenon::Storage::make(kMiB, {.arena = &arena, .wait = {.timeout = kPatience}});
  EXPECT_TRUE(tenon::lease_holders().empty());
}

TEST_F(Leases, WithAThreadThereIsNothingToPoll) {
  EXPECT_CODE(kInvalidArgument, tenon::try_lease_use_no_thread());
  EXPECT_CODE(kInvalidArgument, tenon::try_lease_fd());
  EXPECT_CODE(kInvalidArgument, tenon::try_lease_poll());
}

// A forked child has no library thread yet, so it can still choose to have none.
TEST_F(Leases, WithoutAThread) {
  kit::Child lender([] {
    tenon::lease_use_no_thread();
    kit::Sockets sockets;
    kit::Child borrower([&] { return borrow(sockets); });
    tenon::Connection connection = tenon::Connection::make(sockets.keep_here());
    const tenon::Arena arena = tenon::Arena::make({.capacity_nbytes = kMiB});
    lend_all(arena, connection);
    tenon::lease_poll();
    if (arena.stats().blocks_lent != 1) return false;
    kill(borrower.pid(), SIGKILL);
    while (arena.stats().blocks_lent != 0) {
      pollfd one{tenon::lease_fd(), POLLIN, 0};
      if (poll(&one, 1, 60'000) != 1) return false;
      tenon::lease_poll();
    }
    return true;
  });
  EXPECT_EQ(lender.wait(), 0);
}

}  // namespace

// Tests of deposits: receivers in other processes, whole messages and messages in pieces, limits,
// and a lender that ends.
#include <fcntl.h>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "kit.h"

namespace {

using kit::kPatience;
using namespace std::chrono_literals;
using Carried = std::vector<std::byte>;

// The depot lives as long as the process, so the fixture makes it before it counts fds.
class Deposits : public kit::Leaves {
 protected:
  void SetUp() override {
    const tenon::Ticket ticket = tenon::deposit(tenon::Message::make());
    EXPECT_TRUE(tenon::withdraw(ticket.bytes()));
    kit::Leaves::SetUp();
  }
  void TearDown() override {
    for (int tries = 0; tries < 2000 && !tenon::lease_holders().empty(); ++tries)
      std::this_thread::sleep_for(5ms);
    EXPECT_EQ(tenon::deposit_stats().messages, 0U);
    kit::Leaves::TearDown();
  }
};

void put(int socket, std::span<const std::byte> bytes) {
  if (write(socket, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) std::abort();
}

Carried take(int socket) {
  Carried bytes(65536);
  const ssize_t nbytes = read(socket, bytes.data(), bytes.size());
  if (nbytes <= 0) std::abort();
  bytes.resize(static_cast<std::size_t>(nbytes));
  return bytes;
}

Carried ticket_of(const tenon::Tensor& tensor) {
  const tenon::Ticket ticket = tenon::deposit(tenon::Message::of({{"weight", tensor}}));
  return kit::copy_of(ticket.bytes());
}

bool is_gone(const tenon::WeakStorage& storage) {
  for (int tries = 0; tries < 2000 && !storage.expired(); ++tries) {
    (void)tenon::lease_holders();  // takes back leases that were given back
    std::this_thread::sleep_for(5ms);
  }
  return storage.expired();
}

TEST_F(Deposits, AMessageIsFetchedOnceAndGivenBack) {
  kit::Sockets sockets;
  kit::Child receiver([&] {
    const int socket = sockets.keep_there();
    const Carried ticket = take(socket);
    {
      const tenon::Message message = tenon::fetch(ticket, {}, {.timeout = kPatience});
      tenon::Tensor weight = message["weight"];
      weight.view_mut<float>()[7] += 41;
      if (tenon::try_fetch(ticket).code() != tenon::Code::kNotFound) return false;
      put(socket, std::as_bytes(std::span("held", 4)));
      (void)take(socket);
    }
    put(socket, std::as_bytes(std::span("over", 4)));
    (void)take(socket);
    return true;
  });
  const int socket = sockets.keep_here();
  tenon::Tensor weight = tenon::zeros<float>({8});
  weight.view_mut<float>()[7] = 1;
  put(socket, ticket_of(weight));
  (void)take(socket);
  EXPECT_EQ(weight.view<float>()[7], 42.0F);
  const std::vector<tenon::LeaseHolder> holders = tenon::lease_holders();
  ASSERT_EQ(holders.size(), 1U);
  EXPECT_EQ(holders[0].pid, receiver.pid());
  const tenon::WeakStorage storage = tenon::WeakStorage::make(weight.storage());
  weight.close();
  put(socket, std::as_bytes(std::span("go", 2)));
  (void)take(socket);
  EXPECT_TRUE(is_gone(storage));
  put(socket, std::as_bytes(std::span("end", 3)));
  EXPECT_EQ(receiver.wait(), 0);
}

TEST_F(Deposits, AKilledReceiverGivesBack) {
  kit::Sockets sockets;
  kit::Child receiver([&] {
    const int socket = sockets.keep_there();
    const tenon::Message message =
        tenon::fetch(take(socket), {.access = tenon::Access::kReadOnly}, {.timeout = kPatience});
    if (!message["weight"].is_read_only()) return false;
    put(socket, std::as_bytes(std::span("held", 4)));
    pause();
    return false;
  });
  const int socket = sockets.keep_here();
  tenon::Tensor weight = tenon::zeros<float>({8});
  put(socket, ticket_of(weight));
  (void)take(socket);
  const tenon::WeakStorage storage = tenon::WeakStorage::make(weight.storage());
  weight.close();
  kill(receiver.pid(), SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(receiver.wait()));
  EXPECT_TRUE(is_gone(storage));
}

TEST_F(Deposits, TheLenderFetchesTheSameStorage) {
  const tenon::Tensor weight = tenon::zeros<float>({8});
  const Carried ticket = ticket_of(weight);
  EXPECT_EQ(tenon::deposit_stats().messages, 1U);
  EXPECT_EQ(tenon::deposit_stats().segments, 1U);
  const tenon::Message message = tenon::fetch(ticket);
  EXPECT_EQ(message["weight"].storage(), weight.storage());
  kit::thrown_by<tenon::NotFound>([&] { (void)tenon::fetch(ticket); });
  EXPECT_FALSE(tenon::withdraw(ticket));
}

TEST_F(Deposits, AWithdrawnMessageIsNotFound) {
  const Carried ticket = ticket_of(tenon::zeros<float>({8}));
  EXPECT_TRUE(tenon::withdraw(ticket));
  EXPECT_FALSE(tenon::withdraw(ticket));
  kit::Child receiver([&] {
    return tenon::try_fetch(ticket, {}, {.timeout = kPatience}).code() == tenon::Code::kNotFound;
  });
  EXPECT_EQ(receiver.wait(), 0);
  kit::Child stranger(
      [&] { return tenon::try_withdraw(ticket).code() == tenon::Code::kInvalidArgument; });
  EXPECT_EQ(stranger.wait(), 0);
}

TEST_F(Deposits, AMessageThatItsCarrierLetGoOfIsTakenBack) {
  const Carried ticket = ticket_of(tenon::zeros<float>({8}));
  int marker[2];
  ASSERT_EQ(pipe2(marker, O_CLOEXEC), 0);
  tenon::watch(ticket, marker[0], 1ms);
  EXPECT_CODE(kInvalidArgument, tenon::try_watch(ticket, -1, 1ms));
  EXPECT_EQ(tenon::deposit_stats().messages, 1U);
  close(marker[1]);
  for (int tries = 0; tries < 2000 && tenon::deposit_stats().messages > 0; ++tries)
    std::this_thread::sleep_for(5ms);
  EXPECT_CODE(kNotFound, tenon::try_fetch(ticket));
}

TEST_F(Deposits, InPieces) {
  tenon::Storage first = tenon::Storage::make(5000, {.zeroed = true});
  tenon::Storage second =
      tenon::Storage::make(100, {.mode = tenon::Mode::kLenderWrites, .zeroed = true});
  second.bytes_mut()[99] = std::byte{8};
  tenon::Deposit deposit = tenon::Deposit::make();
  const Carried head = kit::copy_of(deposit.head());
  const std::vector<Carried> records{deposit.add(first),
                                     deposit.add(second, tenon::Access::kReadOnly),
                                     deposit.add(tenon::Storage::make(0))};
  kit::thrown_by<tenon::PermissionDenied>(
      [&] { (void)deposit.add(first, tenon::Access::kReadOnly); });
  const tenon::WeakStorage unopened = tenon::WeakStorage::make(first);
  first.close();
  deposit.close();
  kit::Sockets sockets;
  kit::Child receiver([&] {
    const int socket = sockets.keep_there();
    second.close();  // else the identity cache would return the inherited storage
    tenon::Storage kept;
    {
      tenon::Fetched fetched = tenon::Fetched::make(head, {}, {.timeout = kPatience});
      if (tenon::Fetched::try_make(head).code() != tenon::Code::kNotFound) return false;
      kept = fetched.storage(records[1], {.timeout = kPatience});
      if (fetched.try_storage(records[1]).code() != tenon::Code::kCorrupt) return false;
      if (fetched.storage(records[2]).nbytes() != 0) return false;
    }
    put(socket, std::as_bytes(std::span("held", 4)));
    (void)take(socket);
    return kept.nbytes() == 100 && kept.bytes()[99] == std::byte{8} && kept.is_read_only();
  });
  const int socket = sockets.keep_here();
  (void)take(socket);
  EXPECT_TRUE(is_gone(unopened));
  put(socket, std::as_bytes(std::span("end", 3)));
  EXPECT_EQ(receiver.wait(), 0);
}

TEST_F(Deposits, AMessageInPiecesIsTakenBack) {
  tenon::Deposit deposit = tenon::Deposit::make();
  const tenon::Storage storage = tenon::Storage::make(100);
  (void)deposit.add(storage);
  EXPECT_TRUE(deposit.withdraw());
  EXPECT_FALSE(deposit.withdraw());
  kit::thrown_by<tenon::InvalidArgument>([&] { (void)deposit.add(storage); });
  kit::thrown_by<tenon::NotFound>([&] { (void)tenon::Fetched::make(deposit.head()); });
}

// A lender answers no receiver while it is stopped.
TEST_F(Deposits, AWaitForAStoppedLenderEnds) {
  kit::Sockets sockets;
  kit::Child lender([&] {
    const int socket = sockets.keep_there();
    const tenon::Tensor weight = tenon::zeros<float>({8});
    put(socket, ticket_of(weight));
    (void)take(socket);
    return tenon::hand_over_deposits() == 0;
  });
  const int socket = sockets.keep_here();
  const Carried ticket = take(socket);
  ASSERT_EQ(kill(lender.pid(), SIGSTOP), 0);
  ASSERT_EQ(waitpid(lender.pid(), nullptr, WUNTRACED), lender.pid());
  kit::Child receiver([&] {
    const tenon::Cancel cancel = tenon::Cancel::make();
    cancel.trigger();
    if (tenon::try_fetch(ticket, {}, {.timeout = 1ms}).code() != tenon::Code::kTimeout)
      return false;
    if (tenon::try_fetch(ticket, {}, {.cancel = &cancel}).code() != tenon::Code::kCancelled)
      return false;
    if (tenon::try_fetch(ticket, {}, {.timeout = 0s}).code() != tenon::Code::kWouldBlock)
      return false;
    kill(lender.pid(), SIGCONT);
    return tenon::fetch(ticket, {}, {.timeout = kPatience}).size() == 1;
  });
  EXPECT_EQ(receiver.wait(), 0);
  put(socket, std::as_bytes(std::span("end", 3)));
  EXPECT_EQ(lender.wait(), 0);
}

// In a child, because limits last as long as the process.
TEST_F(Deposits, Limits) {
  kit::Child lender([] {
    tenon::set_deposit_limits({.max_unfetched_segments = 1});
    const auto isolated = [] { return tenon::zeros<float>({8}, {.isolated = true}); };
    const Carried first = ticket_of(isolated());
    const tenon::Result<tenon::Ticket> refused =
        tenon::try_deposit(tenon::Message::of({{"weight", isolated()}}));
    if (refused.code() != tenon::Code::kResourceExhausted ||
        refused.error().detail("limit") != "max_unfetched_segments")
      return false;
    tenon::set_deposit_limits({.max_unfetched_nbytes = 40});
    const Carried second = ticket_of(tenon::zeros<float>({8}));
    const Carried third = ticket_of(tenon::zeros<float>({8}));
    if (tenon::try_fetch(second).code() != tenon::Code::kNotFound ||
        tenon::deposit_stats().expired != 1)
      return false;
    if (tenon::fetch(first).size() != 1 || tenon::fetch(third).size() != 1) return false;
    tenon::set_deposit_limits({.max_unfetched_time = 1ms});
    const Carried fourth = ticket_of(tenon::zeros<float>({8}));
    for (int tries = 0; tries < 2000 && tenon::deposit_stats().expired != 2; ++tries)
      std::this_thread::sleep_for(5ms);
    if (tenon::try_fetch(fourth).code() != tenon::Code::kNotFound) return false;
    tenon::set_deposit_limits({});
    return tenon::hand_over_deposits() == 0 && tenon::deposit_stats().messages == 0;
  });
  EXPECT_EQ(lender.wait(), 0);
  kit::thrown_by<tenon::InvalidArgument>(
      [] { tenon::set_deposit_limits({.max_unfetched_time = -1ns}); });
}

TEST_F(Deposits, AKeeperHandsOutWhatALenderLeft) {
  const char* const program = std::getenv("TENON_TEST_MANAGER");
  if (program == nullptr) GTEST_SKIP() << "tenon-manager is not built";
  const kit::Sockets sockets;
  kit::Child lender([&] {
    tenon::Tensor weight = tenon::zeros<float>({8});
    weight.view_mut<float>()[7] = 42;
    put(sockets.there, ticket_of(weight));
    return tenon::hand_over_deposits({.timeout = kPatience, .program = program}) == 1;
  });
  EXPECT_EQ(lender.wait(), 0);
  const Carried ticket = take(sockets.here);
  kit::Child receiver([&] {
    const tenon::Message message = tenon::fetch(ticket, {}, {.timeout = kPatience});
    const tenon::Tensor weight = message["weight"];
    return weight.view<float>()[7] == 42.0F;
  });
  EXPECT_EQ(receiver.wait(), 0);
}

TEST_F(Deposits, WhatIsRefused) {
  kit::thrown_by<tenon::InvalidArgument>([] { (void)tenon::deposit(tenon::Message()); });
  const tenon::Storage private_storage = tenon::Storage::make(32, {.private_memory = true});
  tenon::Deposit deposit = tenon::Deposit::make();
  EXPECT_CODE(kUnsupported, deposit.try_add(private_storage));
  EXPECT_TRUE(deposit.withdraw());
  Carried ticket = ticket_of(tenon::zeros<float>({8}));
  kit::thrown_by<tenon::Unsupported>([&] { (void)tenon::fetch(ticket, {.private_copy = true}); });
  kit::thrown_by<tenon::InvalidArgument>(
      [&] { (void)tenon::fetch(ticket, {}, {.timeout = -1ns}); });
  kit::thrown_by<tenon::Corrupt>([&] { (void)tenon::Fetched::make(ticket); });
  EXPECT_TRUE(tenon::withdraw(ticket));
  ticket[40] ^= std::byte{1};
  kit::thrown_by<tenon::Corrupt>([&] { (void)tenon::fetch(ticket); });
  kit::thrown_by<tenon::Corrupt>([&] { (void)tenon::withdraw(ticket); });
  kit::thrown_by<tenon::Corrupt>([] { (void)tenon::fetch({}); });
  const tenon::Ticket no_ticket;
  EXPECT_TRUE(no_ticket.bytes().empty());
  tenon::Deposit no_deposit;
  EXPECT_TRUE(no_deposit.head().empty());
  EXPECT_FALSE(no_deposit.withdraw());
  EXPECT_CODE(kInvalidArgument, no_deposit.try_add(private_storage));
  EXPECT_CODE(kInvalidArgument, tenon::Fetched().try_storage(ticket));
  const std::string nul("a\0b", 3);
  EXPECT_CODE(kInvalidArgument, tenon::try_hand_over_deposits({.family = nul}));
  EXPECT_CODE(kInvalidArgument, tenon::try_hand_over_deposits({.program = nul}));
  EXPECT_CODE(kInvalidArgument, tenon::try_hand_over_deposits({.timeout = -1ns}));
}

}  // namespace

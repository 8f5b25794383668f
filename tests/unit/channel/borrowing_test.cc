// These tests use lease blocks that end a message and not the connection. The tests in
// tests/process/lease use real connections.
#include "channel/borrowing.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <memory>
#include <utility>
#include <vector>

#include "memory/holding.h"
#include "memory/ledger.h"
#include "os/token.h"

namespace tenon::channel {
namespace {

struct BorrowingTest : testing::Test {
  // Adds a ledger of this process to the block, as the account of its leases.
  void add_account(LeaseBlock* block, std::vector<os::Fd>* fds) {
    Result<Ref<memory::Ledger>> made = memory::Ledger::create({getpid(), getuid()}, true);
    ASSERT_TRUE(made.is_ok()) << made.status().message();
    ledgers.push_back(std::move(made).value());
    const std::shared_ptr<memory::TokenFds> own = ledgers.back()->take_fds();
    for (const os::Fd* const each : {&own->token, &own->page, &own->bell})
      fds->push_back(os::duplicate(each->get()).value());
    block->account = ++last_id;
    block->tokens.push_back({block->account, TokenKind::kAccount});
  }
  // Adds the token of a lender further up. The test keeps the watch.
  void add_inherited(LeaseBlock* block, std::vector<os::Fd>* fds) {
    os::TokenPair pair = os::create_token().value();
    watches.push_back(std::move(pair.watch));
    fds->push_back(std::move(pair.token));
    block->tokens.push_back({++last_id, TokenKind::kInherited});
  }
  Status take(const LeaseBlock& block, std::vector<os::Fd> fds,
              std::vector<memory::Lease>* leases) {
    return borrowing.take(block, fds, leases);
  }

  std::vector<Ref<memory::Ledger>> ledgers;
  std::vector<os::Fd> watches;
  uint64_t last_id = 0;
  memory::UnreadGuard guard{[](void*) noexcept { return memory::Drained::kYes; }, nullptr};
  Borrowing borrowing{&guard};
};

TEST_F(BorrowingTest, ATokenBehindAnAccountThatIsRefusedIsKept) {
  std::vector<std::vector<memory::Lease>> kept;
  Code code = Code::kOk;
  for (int i = 0; i < 100 && code == Code::kOk; ++i) {
    LeaseBlock block;
    std::vector<os::Fd> fds;
    add_account(&block, &fds);
    block.slots = {0};
    if (i >= 31) add_inherited(&block, &fds);
    kept.emplace_back();
    const Status status = take(block, std::move(fds), &kept.back());
    code = status.code();
    if (code != Code::kOk) EXPECT_EQ(status.detail("limit"), "accounts");
  }
  EXPECT_EQ(code, Code::kResourceExhausted);
  ASSERT_EQ(watches.size(), 2U);  // of the last message that came, and of the one that was refused
  kept.clear();
  // The next account counts on both tokens, because the sender does not send them again.
  LeaseBlock block;
  std::vector<os::Fd> fds;
  add_account(&block, &fds);
  block.slots = {0};
  std::vector<memory::Lease> leases;
  const Status status = take(block, std::move(fds), &leases);
  ASSERT_TRUE(status.is_ok()) << status.message();
  EXPECT_EQ(leases[0].holding()->tokens().size(), 3U);
  for (const os::Fd& watch : watches) EXPECT_FALSE(os::has_hung_up(watch.get()));
}

TEST_F(BorrowingTest, NoLeaseIsTakenOnceATokenCouldNotBeKept) {
  constexpr size_t kTokens = 1025;  // one more than a connection keeps
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max < 4 * kTokens) GTEST_SKIP() << "RLIMIT_NOFILE is too low";
  LeaseBlock block;
  std::vector<os::Fd> fds;
  add_account(&block, &fds);
  for (size_t i = 0; i < kTokens; ++i) add_inherited(&block, &fds);
  std::vector<memory::Lease> leases;
  Status status = take(block, std::move(fds), &leases);
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_EQ(status.detail("limit"), "inherited_tokens");
  block.tokens.clear();
  block.slots = {0};
  status = take(block, {}, &leases);
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_FALSE(leases[0].stands());
}

}  // namespace
}  // namespace tenon::channel

// These tests change the words of a claims page, over memory of this process. Each case is one rule
// of docs/format/deposit.md about who may change a word.
#include "memory/claims_page.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

namespace tenon::memory::claims_page {
namespace {

constexpr uint32_t kNewer = 7, kOlder = 6, kOne = 11, kOther = 12;

struct ClaimsPage : testing::Test {
  static constexpr uint32_t kWords = 4;

  std::byte* base() { return bytes_.data(); }
  uint64_t word(uint32_t message = 0) { return claim_word(base(), message).load(); }

 private:
  alignas(4096) std::array<std::byte, kClaimsOffset + kWords * sizeof(Word)> bytes_{};
};

TEST_F(ClaimsPage, OneOfTwoBorrowersClaims) {
  open(base(), 0, kNewer);
  EXPECT_TRUE(claim(base(), 0, kNewer, kOne));
  EXPECT_FALSE(claim(base(), 0, kNewer, kOther));
  EXPECT_FALSE(claim(base(), 0, kNewer, kOne));
  EXPECT_EQ(look(base(), 0), (Claim{kNewer, kOne}));
}

TEST_F(ClaimsPage, ATicketOfAnOlderMessageClaimsNothing) {
  open(base(), 0, kNewer);
  EXPECT_FALSE(claim(base(), 0, kOlder, kOne));
  EXPECT_FALSE(claim(base(), 0, kNewer + 1, kOne));
  EXPECT_EQ(look(base(), 0), (Claim{kNewer, kUnfetched}));
}

TEST_F(ClaimsPage, AMessageThatTheLenderTookBackCannotBeClaimed) {
  open(base(), 0, kNewer);
  EXPECT_TRUE(claim(base(), 0, kNewer, kClosed));
  EXPECT_FALSE(claim(base(), 0, kNewer, kOne));
  open(base(), 1, kNewer);
  EXPECT_TRUE(claim(base(), 1, kNewer, kOne));
  EXPECT_FALSE(claim(base(), 1, kNewer, kClosed));
}

TEST_F(ClaimsPage, OnlyTheBorrowerOfThisClaimSaysOpened) {
  open(base(), 0, kNewer);
  say_opened(base(), 0, {kNewer, kOne});
  EXPECT_EQ(word(), word_of({kNewer, kUnfetched}));
  EXPECT_TRUE(claim(base(), 0, kNewer, kOne));
  say_opened(base(), 0, {kNewer, kOther});
  say_opened(base(), 0, {kOlder, kOne});
  EXPECT_EQ(word(), word_of({kNewer, kOne}));
  say_opened(base(), 0, {kNewer, kOne});
  EXPECT_EQ(word(), word_of({kNewer, kOne}) | kOpened);
  EXPECT_EQ(look(base(), 0), (Claim{kNewer, kOne}));
}

TEST_F(ClaimsPage, AMessageIsPendingUntilItsBorrowerHasOpenedIt) {
  EXPECT_FALSE(is_pending(base(), 0, kNewer));
  open(base(), 0, kNewer);
  EXPECT_TRUE(is_pending(base(), 0, kNewer));
  EXPECT_FALSE(is_pending(base(), 0, kOlder));
  EXPECT_TRUE(claim(base(), 0, kNewer, kOne));
  EXPECT_TRUE(is_pending(base(), 0, kNewer));
  say_opened(base(), 0, {kNewer, kOne});
  EXPECT_FALSE(is_pending(base(), 0, kNewer));
  open(base(), 1, kNewer);
  close(base(), 1, kNewer);
  EXPECT_FALSE(is_pending(base(), 1, kNewer));
}

TEST_F(ClaimsPage, ASearchEndsAtTheFirstWordThatWasNeverUsed) {
  EXPECT_FALSE(has_unfetched(base(), kWords));
  open(base(), 0, 1);
  close(base(), 0, 1);
  open(base(), 3, 1);
  EXPECT_FALSE(has_unfetched(base(), kWords));
  open(base(), 1, 1);
  close(base(), 1, 1);
  open(base(), 2, 1);
  EXPECT_TRUE(has_unfetched(base(), kWords));
  EXPECT_FALSE(has_unfetched(base(), 2));
}

TEST_F(ClaimsPage, OneOfManyThreadsClaims) {
  constexpr uint32_t kThreads = 4;
  for (uint32_t generation = 1; generation <= 200; ++generation) {
    std::array<int, kThreads> won{};
    open(base(), 0, generation);
    {
      std::vector<std::jthread> threads;
      for (uint32_t i = 0; i < kThreads; ++i)
        threads.emplace_back([&, i] { won.at(i) = claim(base(), 0, generation, i + 1) ? 1 : 0; });
    }
    const uint32_t winner = look(base(), 0).borrower;
    ASSERT_TRUE(winner >= 1 && winner <= kThreads);
    for (uint32_t i = 0; i < kThreads; ++i) EXPECT_EQ(won.at(i), i + 1 == winner ? 1 : 0);
  }
}

}  // namespace
}  // namespace tenon::memory::claims_page

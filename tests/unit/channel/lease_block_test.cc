// These tests check the lease block. A block that was written is read back unchanged, every wrong
// field is refused, and the committed bytes of tests/peers/golden/lease stay the same.
#include "channel/lease_block.h"

#include <gtest/gtest.h>

#include <vector>

#include "unit/channel/block_kit.h"

namespace tenon::channel {
namespace {

LeaseBlock small_lease_block() {
  return {.account = 7, .tokens = {{7, TokenKind::kAccount}}, .slots = {0}};
}

LeaseBlock full_lease_block() {
  LeaseBlock block;
  block.account = 0x1122334455667788;
  block.tokens = {{3, TokenKind::kInherited},
                  {block.account, TokenKind::kAccount},
                  {0xffffffffffffffff, TokenKind::kForgotten}};
  block.slots = {0, 5, kNoLease, 4'194'303, 64};
  return block;
}

LeaseBlock no_tokens() { return {.account = 1, .tokens = {}, .slots = {1, 2, 3, 4}}; }
LeaseBlock no_leases() { return {.account = 1, .tokens = {}, .slots = {}}; }

struct GoldenLeaseBlock {
  const char* file;
  LeaseBlock block;
};
std::vector<GoldenLeaseBlock> golden_lease_blocks() {
  return {{"first.bin", small_lease_block()},
          {"every_token.bin", full_lease_block()},
          {"known_account.bin", no_tokens()},
          {"nothing.bin", no_leases()}};
}

void expect_same_leases(const LeaseBlock& a, const LeaseBlock& b) {
  EXPECT_EQ(a.account, b.account);
  EXPECT_EQ(a.slots, b.slots);
  ASSERT_EQ(a.tokens.size(), b.tokens.size());
  for (size_t i = 0; i < a.tokens.size(); ++i) {
    EXPECT_EQ(a.tokens[i].id, b.tokens[i].id);
    EXPECT_EQ(a.tokens[i].kind, b.tokens[i].kind);
  }
}

constexpr BlockCodec<LeaseBlock> kLeases{decode_lease_block, encode_lease_block, expect_same_leases,
                                         "leases"};

TEST(LeaseBlock, ComesBack) { kLeases.expect_round_trips(golden_lease_blocks()); }

TEST(LeaseBlock, CountsItsFds) {
  EXPECT_EQ(full_lease_block().n_fds(), 4U);
  EXPECT_EQ(small_lease_block().n_fds(), 3U);
  EXPECT_EQ(no_tokens().n_fds(), 0U);
}

TEST(LeaseBlock, EveryWrongFieldIsRefused) {
  const Bytes good = encode_lease_block(full_lease_block());
  const auto nbytes = static_cast<uint32_t>(good.size());
  kLeases.expect_every_cut_refused(good);
  kLeases.expect_refused(good, {{0, 0, "length 0"},
                                {0, nbytes + 8, "length too long"},
                                {0, UINT32_MAX, "length without end"},
                                {4, 0, "version 0", Code::kIncompatible},
                                {4, 2, "version 2", Code::kIncompatible},
                                {16, 2, "fewer tokens"},
                                {16, UINT32_MAX, "tokens without end"},
                                {16, 4097, "more tokens than any message has"},
                                {20, 0, "no leases"},
                                {20, UINT32_MAX, "leases without end"},
                                {32, 0, "a token of kind 0"},
                                {32, 4, "a token of kind 4"},
                                {36, 0, "a token with too few fds"},
                                {36, 253, "a token with too many fds"},
                                {nbytes - 4, 1, "padding"}});
  const auto refused = [&](size_t at, uint64_t value, const char* what) {
    kLeases.expect_refused(with(good, at, value), Code::kCorrupt, what);
  };
  refused(8, 0, "account 0");
  refused(8, 5, "another account than its token");
  refused(24, 0, "a token without an id");
}

TEST(LeaseBlock, OneAccountBegins) {
  LeaseBlock twice = small_lease_block();
  twice.tokens.push_back(twice.tokens.front());
  kLeases.expect_refused(encode_lease_block(twice), Code::kCorrupt, "two beginnings");
}

TEST(LeaseBlock, GoldenFiles) { kLeases.expect_committed("lease", golden_lease_blocks()); }

}  // namespace
}  // namespace tenon::channel

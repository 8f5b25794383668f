// These tests check the lease block. A block that was written is read back unchanged, every wrong
// field is refused, and the committed bytes of tests/peers/golden/lease stay the same.
//
// TENON_REGENERATE_GOLDEN=1 writes the files again. The test then fails, so that the variable
// cannot be left on.
#include "channel/lease_block.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

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

void expect_leases_refused(const Bytes& bytes, Code code, const char* what) {
  size_t used = 12345;
  Result<LeaseBlock> result = decode_lease_block(bytes, &used);
  ASSERT_FALSE(result.is_ok()) << what;
  EXPECT_EQ(result.status().code(), code) << what << ": " << result.status().message();
  EXPECT_EQ(used, 12345U) << what;
  bool named = false;
  for (const Detail& detail : result.status().info()->details)
    named = named || (detail.key == "field" && detail.value == "leases");
  EXPECT_TRUE(named) << what;
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

TEST(LeaseBlock, ComesBack) {
  for (const GoldenLeaseBlock& each : golden_lease_blocks()) {
    Bytes bytes = encode_lease_block(each.block);
    EXPECT_EQ(bytes.size() % 8, 0U);
    const size_t nbytes = bytes.size();
    bytes.resize(nbytes + 100);  // room for the descriptor behind the block
    size_t used = 0;
    Result<LeaseBlock> back = decode_lease_block(bytes, &used);
    ASSERT_TRUE(back.is_ok()) << each.file;
    EXPECT_EQ(used, nbytes);
    expect_same_leases(each.block, back.value());
  }
}

TEST(LeaseBlock, CountsItsFds) {
  EXPECT_EQ(full_lease_block().n_fds(), 4U);
  EXPECT_EQ(small_lease_block().n_fds(), 3U);
  EXPECT_EQ(no_tokens().n_fds(), 0U);
}

TEST(LeaseBlock, EveryWrongFieldIsRefused) {
  const Bytes good = encode_lease_block(full_lease_block());
  for (size_t length = 0; length < good.size(); ++length) {
    const Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length));
    expect_leases_refused(cut, Code::kCorrupt, "cut short");
  }
  expect_leases_refused(with<uint32_t>(good, 0, 0), Code::kCorrupt, "length 0");
  expect_leases_refused(with<uint32_t>(good, 0, static_cast<uint32_t>(good.size()) + 8),
                        Code::kCorrupt, "length too long");
  expect_leases_refused(with<uint32_t>(good, 0, UINT32_MAX), Code::kCorrupt, "length without end");
  expect_leases_refused(with<uint32_t>(good, 4, 0), Code::kIncompatible, "version 0");
  expect_leases_refused(with<uint32_t>(good, 4, 2), Code::kIncompatible, "version 2");
  expect_leases_refused(with<uint64_t>(good, 8, 0), Code::kCorrupt, "account 0");
  expect_leases_refused(with<uint64_t>(good, 8, 5), Code::kCorrupt,
                        "another account than its token");
  expect_leases_refused(with<uint32_t>(good, 16, 2), Code::kCorrupt, "fewer tokens");
  expect_leases_refused(with<uint32_t>(good, 16, UINT32_MAX), Code::kCorrupt, "tokens without end");
  expect_leases_refused(with<uint32_t>(good, 16, 4097), Code::kCorrupt,
                        "more tokens than any message has");
  expect_leases_refused(with<uint32_t>(good, 20, 0), Code::kCorrupt, "no leases");
  expect_leases_refused(with<uint32_t>(good, 20, UINT32_MAX), Code::kCorrupt, "leases without end");
  expect_leases_refused(with<uint64_t>(good, 24, 0), Code::kCorrupt, "a token without an id");
  expect_leases_refused(with<uint32_t>(good, 32, 0), Code::kCorrupt, "a token of kind 0");
  expect_leases_refused(with<uint32_t>(good, 32, 4), Code::kCorrupt, "a token of kind 4");
  expect_leases_refused(with<uint32_t>(good, 36, 0), Code::kCorrupt, "a token with too few fds");
  expect_leases_refused(with<uint32_t>(good, 36, 253), Code::kCorrupt, "a token with too many fds");
  expect_leases_refused(with<uint32_t>(good, good.size() - 4, 1), Code::kCorrupt, "padding");
}

TEST(LeaseBlock, OneAccountBegins) {
  LeaseBlock twice = small_lease_block();
  twice.tokens.push_back(twice.tokens.front());
  expect_leases_refused(encode_lease_block(twice), Code::kCorrupt, "two beginnings");
}

TEST(LeaseBlock, GoldenFiles) {
  const char* const source = std::getenv("TENON_SOURCE_DIR");
  if (source == nullptr) GTEST_SKIP() << "skipped: TENON_SOURCE_DIR is not set";
  const std::filesystem::path folder = std::filesystem::path(source) / "tests/peers/golden/lease";
  const bool regenerate = std::getenv("TENON_REGENERATE_GOLDEN") != nullptr;
  std::set<std::string> known;
  for (const GoldenLeaseBlock& each : golden_lease_blocks()) {
    known.insert(each.file);
    const Bytes bytes = encode_lease_block(each.block);
    if (regenerate) {
      std::ofstream out(folder / each.file, std::ios::binary);
      out.write(reinterpret_cast<const char*>(bytes.data()),
                static_cast<std::streamsize>(bytes.size()));
      continue;
    }
    std::ifstream in(folder / each.file, std::ios::binary);
    ASSERT_TRUE(in) << each.file;
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    Bytes read(text.size());
    std::memcpy(read.data(), text.data(), text.size());
    EXPECT_EQ(read, bytes) << each.file;
    size_t used = 0;
    Result<LeaseBlock> back = decode_lease_block(read, &used);
    ASSERT_TRUE(back.is_ok()) << each.file;
    expect_same_leases(each.block, back.value());
  }
  EXPECT_FALSE(regenerate) << "the golden files were written anew";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    EXPECT_TRUE(known.contains(entry.path().filename())) << entry.path() << " is nobody's";
  }
}

}  // namespace
}  // namespace tenon::channel

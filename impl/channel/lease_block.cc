#include "channel/lease_block.h"

#include <cstring>

#include "base/checked.h"

namespace tenon::channel {
namespace {

struct LeaseBlockHeader {
  uint32_t nbytes;
  uint32_t version;
  uint64_t account;
  uint32_t n_tokens;
  uint32_t n_leases;
};
struct WireToken {
  uint64_t id;
  uint32_t kind;
  uint32_t n_fds;
};
static_assert(sizeof(LeaseBlockHeader) == 24 && sizeof(WireToken) == 16);

constexpr uint32_t kLeaseBlockVersion = 1;
constexpr uint32_t kMostTokens = 4096;

Status corrupt_lease_block(const char* what) {
  return Status(Code::kCorrupt, what).with("field", std::string("leases"));
}

uint64_t lease_block_length(uint64_t n_tokens, uint64_t n_leases) noexcept {
  return round_up(
      sizeof(LeaseBlockHeader) + n_tokens * sizeof(WireToken) + n_leases * sizeof(uint32_t), 8);
}

}  // namespace

uint64_t LeaseBlock::n_fds() const noexcept {
  uint64_t count = 0;
  for (const TokenRecord& token : tokens) count += fds_of(token.kind);
  return count;
}

std::vector<std::byte> encode_lease_block(const LeaseBlock& block) {
  LeaseBlockHeader header{};
  header.nbytes =
      static_cast<uint32_t>(lease_block_length(block.tokens.size(), block.slots.size()));
  header.version = kLeaseBlockVersion;
  header.account = block.account;
  header.n_tokens = static_cast<uint32_t>(block.tokens.size());
  header.n_leases = static_cast<uint32_t>(block.slots.size());
  std::vector<std::byte> bytes(header.nbytes);
  std::byte* to = bytes.data();
  std::memcpy(to, &header, sizeof header);
  to += sizeof header;
  for (const TokenRecord& token : block.tokens) {
    const WireToken record{token.id, static_cast<uint32_t>(token.kind), fds_of(token.kind)};
    std::memcpy(to, &record, sizeof record);
    to += sizeof record;
  }
  if (!block.slots.empty())
    std::memcpy(to, block.slots.data(), block.slots.size() * sizeof(uint32_t));
  return bytes;
}

Result<LeaseBlock> decode_lease_block(std::span<const std::byte> bytes, size_t* used) {
  LeaseBlockHeader header{};
  if (bytes.size() < sizeof header) return corrupt_lease_block("a lease block that is cut short");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version != kLeaseBlockVersion) {
    return Status(Code::kIncompatible, format("a lease block of version %u", header.version))
        .with("field", std::string("leases"));
  }
  if (header.n_tokens > kMostTokens)
    return corrupt_lease_block("a lease block with too many tokens");
  const uint64_t nbytes = lease_block_length(header.n_tokens, header.n_leases);
  if (header.nbytes != nbytes || nbytes > bytes.size())
    return corrupt_lease_block("a lease block of another length than it says");
  if (header.account == 0) return corrupt_lease_block("a lease block without an account");
  LeaseBlock block;
  block.account = header.account;
  block.tokens.resize(header.n_tokens);
  const std::byte* from = bytes.data() + sizeof header;
  bool begins = false;
  for (TokenRecord& token : block.tokens) {
    WireToken record{};
    std::memcpy(&record, from, sizeof record);
    from += sizeof record;
    token.id = record.id;
    token.kind = static_cast<TokenKind>(record.kind);
    if (record.id == 0 || record.kind < 1 || record.kind > 3 || record.n_fds != fds_of(token.kind))
      return corrupt_lease_block("a token of no known kind");
    if (token.kind != TokenKind::kAccount) continue;
    if (begins || record.id != header.account)
      return corrupt_lease_block("a token of another account than the block's");
    begins = true;
  }
  block.slots.resize(header.n_leases);
  if (header.n_leases > 0)
    std::memcpy(block.slots.data(), from, header.n_leases * sizeof(uint32_t));
  from += header.n_leases * sizeof(uint32_t);
  for (; from < bytes.data() + nbytes; ++from) {
    if (*from != std::byte{0}) return corrupt_lease_block("padding of a lease block that is not 0");
  }
  *used = nbytes;
  return block;
}

}  // namespace tenon::channel

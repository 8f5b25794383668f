// The lease block stands before the descriptor in a message whose storages are lent under leases.
// lending.h makes it and borrowing.h uses it. This file only encodes and decodes its bytes
// (docs/format/lease.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace tenon::channel {

inline constexpr uint32_t kNoLease = UINT32_MAX;

enum class TokenKind : uint32_t {
  kAccount = 1,    // a ledger that begins here: its token, lease page and bell travel along
  kInherited = 2,  // a token of a lender further up
  kForgotten = 3,  // an inherited token that the sender has let go of
};

struct TokenRecord {
  uint64_t id = 0;  // chosen by the sender, never used again on this connection
  TokenKind kind = TokenKind::kAccount;
};
constexpr uint32_t fds_of(TokenKind kind) noexcept {
  return kind == TokenKind::kAccount ? 3 : kind == TokenKind::kInherited ? 1 : 0;
}

struct LeaseBlock {
  uint64_t account = 0;  // the id of the ledger to which the slots belong
  std::vector<TokenRecord> tokens;
  std::vector<uint32_t> slots;  // one for each storage of the descriptor; kNoLease: it has none

  uint64_t n_fds() const noexcept;
};

std::vector<std::byte> encode_lease_block(const LeaseBlock& block);
// Decodes the block at the start of `bytes`, which must be private to this process. `used` gets the
// length of the block. CORRUPT or INCOMPATIBLE, with detail "field" = "leases".
Result<LeaseBlock> decode_lease_block(std::span<const std::byte> bytes, size_t* used);

}  // namespace tenon::channel

// What a connection's receiver knows of leases: the token that its peer waits for, and those of
// lenders further up.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/counted.h"
#include "base/keyed_hash.h"
#include "base/status.h"
#include "channel/lease_block.h"
#include "memory/lease.h"
#include "memory/unread_guard.h"
#include "os/fd.h"

namespace tenon::channel {

class Borrowing {
 public:
  // `guard`: the connection's, borrowed.
  explicit Borrowing(memory::UnreadGuard* guard) noexcept : guard_(guard) {}
  // Takes the tokens' fds, the first of `fds`, or leaves those that are not kept; those that the
  // kernel dropped are missing. The leases are given back with `out`, whatever becomes of the
  // message. CORRUPT: the peer does not keep to the protocol.
  Status take(const LeaseBlock& block, std::span<os::Fd> fds, std::vector<memory::Lease>* out);
  // Tokens came that could not be read. The peer takes them for known, so nothing that it lends can
  // be counted on any more.
  void miss() noexcept { missed_ = true; }
  // Whether the peer's token is shared by a fork, and asks for another if so.
  void renew() noexcept;
  // Nothing more will be taken, so nothing need be kept for it.
  void end() noexcept;

 private:
  Ref<memory::Holding> account_;
  uint64_t account_id_ = 0;
  // The token of the account found no place: the lender takes its leases for ended.
  bool lost_ = false;
  bool missed_ = false;
  std::unordered_map<uint64_t, std::shared_ptr<memory::Token>, KeyedHash> inherited_;
  memory::UnreadGuard* guard_;
  std::vector<Weak<memory::Holding>> holdings_;  // of this connection, that may count on those
};

}  // namespace tenon::channel

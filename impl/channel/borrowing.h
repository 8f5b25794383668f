// The borrower's side of the leases of one connection. Connection calls Borrowing for every lease
// block that comes. Borrowing keeps the token and the lease page under which the peer lends (a
// memory::Holding), and the tokens of lenders further up that the peer handed on.
//
// The connection's receive mutex guards the object. A forked child only destroys it, and the leases
// that came before the fork are FAMILY (memory/holding.h).
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
  // `guard` is the connection's, borrowed.
  explicit Borrowing(memory::UnreadGuard* guard) noexcept : guard_(guard) {}
  // Takes the leases that `block` lists. `fds` are the fds of the block's tokens, in order. Fds
  // that were dropped are missing at the end. An fd that is not kept stays in `fds`. `out` gets one
  // lease for each slot, and whatever is still in `out` when it goes is given back, whatever
  // becomes of the message. CORRUPT: the peer breaks the protocol. INCOMPATIBLE: the lease page is
  // of another version. RESOURCE_EXHAUSTED: a token was lost, or there are too many. After
  // std::bad_alloc the call can be repeated with the same arguments.
  Status take(const LeaseBlock& block, std::span<os::Fd> fds, std::vector<memory::Lease>* out);
  // Notes that tokens came and could not be read. The peer believes that this side has them, so no
  // later lease can be relied on, and every later take() fails.
  void miss() noexcept { missed_ = true; }
  // Asks the peer for a new token if a fork has shared the present one.
  void renew() noexcept;
  // The peer is gone, so no more leases come. Lets go of the tokens that were kept for them.
  void end() noexcept;

 private:
  Ref<memory::Holding> account_;
  uint64_t account_id_ = 0;
  // The fds of the account did not arrive or found no place here. The lender takes the account's
  // leases for ended, because the token hung up.
  bool lost_ = false;
  bool missed_ = false;
  std::unordered_map<uint64_t, std::shared_ptr<memory::LeaseToken>, KeyedHash> inherited_;  // by id
  memory::UnreadGuard* guard_;
  // The holdings of this connection. Each of them may depend on the tokens in `inherited_`.
  std::vector<Weak<memory::Holding>> holdings_;
};

}  // namespace tenon::channel

// The borrower's side of the leases of one connection. Connection calls Borrowing for every lease
// block that comes. Borrowing keeps the token and the lease page under which the peer lends (a
// memory::Holding), and the tokens of lenders further up that the peer handed on.
//
// The connection's receive mutex guards the object. The caller holds no ranked lock
// (base/lock_rank.h). A forked child only destroys it, and the leases that came before the fork are
// FAMILY (memory/holding.h).
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
  // `guard` is the connection's. Only take() uses it: if a token of this process's own ledger comes
  // home, take() notes that in the guard, and the fd is closed with the frame.
  explicit Borrowing(memory::UnreadGuard* guard) noexcept : guard_(guard) {}
  // Takes the leases that `block` lists. `fds` are the fds of the block's tokens, in order. If the
  // receiver dropped fds (frames.h), the last ones are missing. An fd that is not kept stays in
  // `fds`. `out` gets one lease for each slot. A lease that is still in `out` when `out` is
  // destroyed is given back then, even if the message was not opened. After an error `out` has no
  // lease.
  //
  // CORRUPT: the peer breaks the protocol. INCOMPATIBLE: the lease page is of another version.
  // RESOURCE_EXHAUSTED: a token was lost, the lease page cannot be mapped, or the peer lends under
  // too many tokens or hands on too many (kMostAccounts, kMostInherited in the .cc file). After
  // std::bad_alloc the call can be repeated with the same arguments.
  Status take(const LeaseBlock& block, std::span<os::Fd> fds, std::vector<memory::Lease>* out);
  // Notes that tokens came and could not be read. The peer believes that this side has them, so no
  // later lease can be relied on, and every later take() fails.
  void miss() noexcept { missed_ = true; }
  // Asks the peer for a new token if a fork has shared the present one. Each receive calls it.
  void renew() noexcept;
  // The peer is gone, so no more leases come. Lets go of the tokens that were kept for later
  // leases. The leases that stand keep their own references to tokens.
  void end() noexcept;

 private:
  Ref<memory::Holding> account_;
  uint64_t account_id_ = 0;  // chosen by the peer (TokenRecord::id)
  // The fds of the account did not arrive, or no holding could be made of them. The lender takes
  // the account's leases for ended, because the token hung up. So take() fails until the peer
  // begins another account.
  bool lost_ = false;
  bool missed_ = false;
  // The tokens of lenders further up, by id, until the peer says that a token is forgotten. Any
  // lease of the connection may be of such a lender's memory, so each holding keeps all of them.
  std::unordered_map<uint64_t, std::shared_ptr<memory::LeaseToken>, KeyedHash> inherited_;
  memory::UnreadGuard* guard_;
  // The holdings of this connection, which get new inherited tokens and drop forgotten ones.
  std::vector<Weak<memory::Holding>> holdings_;
};

}  // namespace tenon::channel

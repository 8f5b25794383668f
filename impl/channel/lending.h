// The lender's side of the leases of one connection (docs/format/lease.md). Connection calls
// Lending for every message that it sends. Lending keeps the ledger of what the peer was lent
// (memory/ledger.h). It also notes which tokens have crossed of lenders further up, whose memory
// this process borrowed and lends on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/counted.h"
#include "base/status.h"
#include "channel/lease_block.h"
#include "memory/holding.h"
#include "memory/ledger.h"
#include "tensor/pack.h"

namespace tenon::channel {

// The tokens of a frame that is being sent. They are let go of when the kernel has the frame.
struct CarriedTokens {
  std::shared_ptr<memory::TokenFds> account;
  std::vector<std::shared_ptr<memory::LeaseToken>> inherited;
};

// The connection's send mutex guards the object. prepare() and prepare_renewal() make memory
// (memory/spare.h), and the destructors of Grant and Lending can end leases. So their caller holds
// no lock that has a rank (base/lock_rank.h). In a forked child only the destructor may be called,
// and it leaves the parent's ledger alone.
class Lending {
 public:
  // `renewer` sends a lease block without leases when the borrower asks for a new token, or when a
  // token that was handed on is not needed any more (memory/ledger.h).
  Lending(const memory::Borrower& borrower, memory::Ledger::Renewer renewer, void* context) noexcept
      : borrower_(borrower), renewer_(renewer), context_(context) {}
  Lending(const Lending&) = delete;
  Lending& operator=(const Lending&) = delete;
  ~Lending();

  // The leases for one message. Unless they are committed, the destructor gives the leases back,
  // and the peer counts as told nothing.
  class Grant {
   public:
    Grant() noexcept = default;
    Grant(const Grant&) = delete;
    Grant& operator=(const Grant&) = delete;
    ~Grant();
    bool needed() const noexcept { return needed_; }
    const LeaseBlock& block() const noexcept { return block_; }
    // The fds of the block's tokens, in order. They are borrowed: the result of commit() keeps them
    // open.
    const std::vector<int>& fds() const noexcept { return fds_; }
    // The ledger of block().slots. Null: the message needs no lease.
    const Ref<memory::Ledger>& ledger() const noexcept { return ledger_; }

   private:
    friend class Lending;
    bool needed_ = false;
    LeaseBlock block_;
    std::vector<int> fds_;
    CarriedTokens tokens_;
    Ref<memory::Ledger> ledger_;
    std::unordered_map<uint64_t, std::weak_ptr<memory::LeaseToken>> told_;
  };
  // Grants the leases of a message. `always`: the message has a lease block even if nothing in it
  // needs a lease, as the frame of a message with a device block must. RESOURCE_EXHAUSTED with
  // limit "leases", or the errors of memory::Ledger::create(). After a failure or std::bad_alloc
  // the grant gives back what it has.
  Status prepare(const tensor::Packed& packed, Grant* grant, bool always = false);
  // Prepares a lease block without leases. It brings a new token if the borrower wants one, and it
  // names the tokens that were handed on and are not needed any more. If there is nothing to tell,
  // the grant is not needed().
  Status prepare_renewal(Grant* grant);
  // Makes the grant final. From here to the frame's place in the queue nothing may fail. The caller
  // keeps the result as long as the frame.
  CarriedTokens commit(Grant* grant) noexcept;
  // The borrower, as the kernel told it last (memory::Borrower).
  memory::Borrower borrower() const noexcept {
    return ledger_ ? ledger_->totals().borrower : borrower_;
  }
  // Call before destruction, holding the lock that the renewer needs, because a renewal may be
  // replacing the ledger. No renewal starts afterwards.
  void stop_renewals() noexcept;

 private:
  Status find_ledger();
  void name_account(Grant* grant);
  void name_forgotten(LeaseBlock* block) const;

  memory::Borrower borrower_;
  memory::Ledger::Renewer renewer_;
  void* context_;
  Ref<memory::Ledger> ledger_;
  // Earlier ledgers, whose tokens the borrower shares with its fork children.
  std::vector<Weak<memory::Ledger>> renewed_;
  std::unordered_map<uint64_t, std::weak_ptr<memory::LeaseToken>> told_;
};

}  // namespace tenon::channel

// What a connection's sender knows of leases: the ledger of what its peer was lent, and which
// tokens of lenders further up crossed.
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

// Tokens on their way: they are let go of when the kernel has them.
struct CarriedTokens {
  std::shared_ptr<memory::TokenFds> account;
  std::vector<std::shared_ptr<memory::Token>> inherited;
};

class Lending {
 public:
  // `renewer`: who sends a block without leases when the borrower asks for a new token
  // (memory/ledger.h).
  Lending(const memory::Borrower& borrower, memory::Ledger::Renewer renewer, void* context) noexcept
      : borrower_(borrower), renewer_(renewer), context_(context) {}
  Lending(const Lending&) = delete;
  Lending& operator=(const Lending&) = delete;
  ~Lending();

  // Leases for one message. Given back, and nothing told, unless it is committed.
  class Grant {
   public:
    Grant() noexcept = default;
    Grant(const Grant&) = delete;
    Grant& operator=(const Grant&) = delete;
    ~Grant();
    bool needed() const noexcept { return needed_; }
    const LeaseBlock& block() const noexcept { return block_; }
    // The fds of the block's tokens, in order. Borrowed from what commit() gives.
    const std::vector<int>& fds() const noexcept { return fds_; }

   private:
    friend class Lending;
    bool needed_ = false;
    LeaseBlock block_;
    std::vector<int> fds_;
    CarriedTokens tokens_;
    Ref<memory::Ledger> ledger_;
    std::unordered_map<uint64_t, std::weak_ptr<memory::Token>> told_;
  };
  // `always`: the message has a lease block even if nothing in it needs a lease.
  Status prepare(const tensor::Packed& packed, Grant* grant, bool always = false);
  // A new token, if the borrower wants one, and which of those handed on are not needed any more: a
  // block without leases. Else the grant is not needed().
  Status prepare_renewal(Grant* grant);
  // The frame is in the queue. What it returns lives as long as the frame.
  CarriedTokens commit(Grant* grant) noexcept;
  // Before it ends, with the lock that keeps the renewer out: a call of it may be changing which
  // ledger there is. It is called no more then.
  void stop_renewals() noexcept;

 private:
  Status find_ledger();
  void name_account(Grant* grant);
  void name_forgotten(LeaseBlock* block) const;

  memory::Borrower borrower_;
  memory::Ledger::Renewer renewer_;
  void* context_;
  Ref<memory::Ledger> ledger_;
  // Ledgers before this one, whose tokens are a family's.
  std::vector<Weak<memory::Ledger>> renewed_;
  std::unordered_map<uint64_t, std::weak_ptr<memory::Token>> told_;
};

}  // namespace tenon::channel

#include "channel/borrowing.h"

#include <algorithm>
#include <array>
#include <utility>

#include "memory/ledger.h"
#include "os/token.h"

namespace tenon::channel {
namespace {

// The most lenders further up through one connection. A peer with more of them only makes tokens to
// use up this process's fds.
constexpr size_t kMostInherited = 1024;
// The most accounts under which something is still held. A lender renews its token at most 16 times
// and notices each hang-up. This side may notice later, hence twice as many.
constexpr size_t kMostAccounts = 32;

Status corrupt_lease(const char* what) {
  return Status(Code::kCorrupt, what).with("field", std::string("leases"));
}

}  // namespace

Status Borrowing::take(const LeaseBlock& block, std::span<os::Fd> fds,
                       std::vector<memory::Lease>* out) {
  // Every step leaves a state in which the same block can be taken again if memory runs out
  // halfway: an fd that moved out of `fds` is in its place by then.
  out->resize(block.slots.size());
  // The first error that ends the message and not the connection. The sender does not send an
  // inherited token again, so the tokens behind the error are taken before the error is returned.
  Status failed;
  const auto fail = [&failed](Status status) {
    if (failed.is_ok()) failed = std::move(status);
  };
  size_t next = 0;
  for (const TokenRecord& record : block.tokens) {
    std::array<os::Fd*, 3> own{};
    for (uint32_t i = 0; i < fds_of(record.kind); ++i, ++next)
      own[i] = next < fds.size() ? &fds[next] : nullptr;
    const auto is_here = [&](size_t i) { return own[i] != nullptr && own[i]->is_open(); };
    switch (record.kind) {
      case TokenKind::kAccount: {
        if (account_id_ != record.id || !account_) {
          account_ = nullptr;
          account_id_ = record.id;
          lost_ = !is_here(0) || !is_here(1) || !is_here(2);
          if (lost_) break;
          std::erase_if(holdings_, [](const auto& each) { return each.expired(); });
          if (holdings_.size() >= kMostAccounts) {
            lost_ = true;
            fail(Status(Code::kResourceExhausted,
                        format("the peer lends under more than %zu tokens at once", kMostAccounts))
                     .with("limit", std::string("accounts"))
                     .with("limit_value", uint64_t{kMostAccounts}));
            break;
          }
          Result<Ref<memory::Holding>> opened = memory::Holding::open(own[0], own[1], own[2]);
          if (opened.status().code() == Code::kCorrupt) return std::move(opened).status();
          lost_ = !opened.is_ok();
          if (lost_) {
            fail(std::move(opened).status());
            break;
          }
          account_ = std::move(opened).value();
        }
        // This also runs when the block is taken a second time, after memory ran out.
        if (std::none_of(holdings_.begin(), holdings_.end(),
                         [&](const auto& each) { return each.lock().get() == account_.get(); }))
          holdings_.emplace_back(account_.get());
        for (const auto& [id, inherited] : inherited_) account_->inherit(inherited);
        break;
      }
      case TokenKind::kInherited: {
        if (is_here(0)) {
          if (!os::is_token(own[0]->get()))
            return corrupt_lease("an inherited token that is no end of a pipe");
          // The block keeps memory that comes home (tensor/pack.cc), so this process needs no copy
          // of the token. The fd is closed with the frame, after the message was opened.
          if (const uint64_t ledger = memory::own_ledger_of(own[0]->get()); ledger != 0) {
            guard_->add(ledger);
            break;
          }
          if (inherited_.contains(record.id))
            return corrupt_lease("an inherited token that came before");
          if (inherited_.size() >= kMostInherited) {
            missed_ = true;
            fail(Status(Code::kResourceExhausted,
                        format("the peer hands on tokens of more than %zu lenders: let some of the "
                               "tensors go that came over it, and make a new connection",
                               kMostInherited))
                     .with("limit", std::string("inherited_tokens"))
                     .with("limit_value", uint64_t{kMostInherited}));
            break;
          }
          const std::shared_ptr<memory::LeaseToken> token = memory::make_token({});
          inherited_.emplace(record.id, token);
          token->fd = std::move(*own[0]);
        }
        const auto found = inherited_.find(record.id);
        if (found == inherited_.end()) {  // dropped, as fds_status says
          missed_ = true;
          break;
        }
        for (const auto& each : holdings_) {
          if (const Ref<memory::Holding> holding = each.lock()) holding->inherit(found->second);
        }
        break;
      }
      case TokenKind::kForgotten: {
        const auto found = inherited_.find(record.id);
        if (found == inherited_.end()) break;  // this side could not keep it when it came
        for (const auto& each : holdings_) {
          if (const Ref<memory::Holding> holding = each.lock())
            holding->disinherit(found->second.get());
        }
        inherited_.erase(found);
        break;
      }
    }
  }
  if (!failed.is_ok()) return failed;
  if (missed_) {
    return Status(Code::kResourceExhausted,
                  "a token that came here before could not be kept, and leases may count on it: "
                  "raise RLIMIT_NOFILE (ulimit -n) or close fds, and make a new connection")
        .with("limit", std::string("RLIMIT_NOFILE"));
  }
  if (block.account != account_id_)
    return corrupt_lease("leases of an account that did not come over this connection");
  if (lost_) {
    return Status(Code::kResourceExhausted,
                  "the token of the leases found no free fd here, so the lender may use their "
                  "memory again: raise RLIMIT_NOFILE (ulimit "
                  "-n) or close fds, and make a new connection")
        .with("limit", std::string("RLIMIT_NOFILE"));
  }
  if (!account_) return corrupt_lease("leases of an account that could not be opened");
  uint32_t count = 0;
  for (const uint32_t slot : block.slots) {
    if (slot == kNoLease) continue;
    if (slot >= account_->slots()) return corrupt_lease("a lease beyond the lease page");
    ++count;
  }
  // All leases have one mark. A fork from here on makes all of them FAMILY.
  const uint32_t mark = fork_mark();
  account_->retain(count);
  for (size_t i = 0; i < block.slots.size(); ++i) {
    if (block.slots[i] != kNoLease)
      (*out)[i] = memory::Lease(Ref<memory::Holding>::adopt(account_.get()), block.slots[i], mark);
  }
  return Status::ok();
}

void Borrowing::end() noexcept {
  account_ = nullptr;
  account_id_ = 0;
  inherited_.clear();
}

void Borrowing::renew() noexcept {
  if (account_) account_->renew();
}

}  // namespace tenon::channel

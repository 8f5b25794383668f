#include "channel/lending.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "memory/spare.h"

namespace tenon::channel {
namespace {

// The most renewed ledgers of one connection that have not ended. A borrower that forks all the
// time, or claims to, gets no more tokens.
constexpr size_t kMostRenewed = 16;

// Returns one slot for each element of `leased`, and kNoLease where the element is null.
std::vector<uint32_t> spread(std::span<memory::Leased* const> leased,
                             std::span<const uint32_t> slots) {
  std::vector<uint32_t> all;
  all.reserve(leased.size());
  size_t next = 0;
  for (const memory::Leased* const each : leased)
    all.push_back(each != nullptr ? slots[next++] : kNoLease);
  return all;
}

}  // namespace

Lending::Grant::~Grant() {
  if (ledger_) ledger_->take_back(block_.slots);
}

void Lending::stop_renewals() noexcept {
  if (ledger_) ledger_->set_renewer(nullptr, nullptr);
}

// Ends a ledger whose token never left this process.
Lending::~Lending() {
  // In a forked child the ledger is the parent's, and its locks are as the parent's threads had
  // them.
  if (!ledger_ || !ledger_->made_by_this_process() || !ledger_->has_fds()) return;
  (void)ledger_->take_fds();
  memory::settle_ledger(*ledger_);
}

Status Lending::find_ledger() {
  if (ledger_ && !ledger_->has_ended()) {
    if (!ledger_->wants_renewal()) return Status::ok();
    std::erase_if(renewed_, [](const Weak<memory::Ledger>& each) { return each.expired(); });
    if (renewed_.size() >= kMostRenewed) return Status::ok();
    renewed_.emplace_back(ledger_.get());
  }
  TENON_ASSIGN(Ref<memory::Ledger> made,
               memory::with_spare([&] { return memory::Ledger::create(borrower_, true); }));
  if (ledger_) ledger_->set_renewer(nullptr, nullptr);
  if (!told_.empty()) made->always_ring();  // the new ledger must be notified of forgotten tokens
  ledger_ = std::move(made);
  ledger_->set_renewer(renewer_, context_);
  return Status::ok();
}

void Lending::name_account(Grant* grant) {
  grant->ledger_ = ledger_;
  grant->needed_ = true;
  grant->block_.account = ledger_->id();
  if (!ledger_->has_fds()) return;
  grant->block_.tokens.push_back({grant->block_.account, TokenKind::kAccount});
  for (const os::Fd* fd : {&ledger_->fds().token, &ledger_->fds().page, &ledger_->fds().bell})
    grant->fds_.push_back(fd->get());
}

Status Lending::prepare_renewal(Grant* grant) {
  if (!ledger_ || ledger_->has_ended()) return Status::ok();
  if (ledger_->wants_renewal()) TENON_TRY(find_ledger());
  name_forgotten(&grant->block_);
  if (ledger_->has_fds() || !grant->block_.tokens.empty()) name_account(grant);
  return Status::ok();
}

void Lending::name_forgotten(LeaseBlock* block) const {
  for (const auto& [id, token] : told_) {
    if (token.expired()) block->tokens.push_back({id, TokenKind::kForgotten});
  }
}

Status Lending::prepare(const tensor::Packed& packed, Grant* grant, bool always) {
  std::span<memory::Leased* const> objects = packed.leased;
  std::vector<memory::Leased*> some;  // the objects, if some storages need no lease
  if (std::find(objects.begin(), objects.end(), nullptr) != objects.end()) {
    std::copy_if(objects.begin(), objects.end(), std::back_inserter(some),
                 [](const memory::Leased* each) { return each != nullptr; });
    objects = some;
  }
  if (objects.empty() && !always) return Status::ok();
  TENON_TRY(find_ledger());
  std::vector<uint32_t>& slots = grant->block_.slots;
  slots.resize(objects.size());
  Status status = ledger_->grant(objects, slots.data());
  if (status.code() == Code::kPeerGone) {  // the ledger ended after find_ledger()
    TENON_TRY(find_ledger());
    status = ledger_->grant(objects, slots.data());
  }
  if (!status.is_ok()) return status;
  name_account(grant);
  LeaseBlock& block = grant->block_;
  if (!packed.upstream.empty()) ledger_->always_ring();
  for (const memory::Holding* holding : packed.upstream) {
    for (std::shared_ptr<memory::LeaseToken>& token : holding->tokens()) {
      const auto same = [&](const TokenRecord& each) {
        return each.id == token->id && each.kind == TokenKind::kInherited;
      };
      if (told_.contains(token->id) || std::any_of(block.tokens.begin(), block.tokens.end(), same))
        continue;
      block.tokens.push_back({token->id, TokenKind::kInherited});
      grant->fds_.push_back(token->fd.get());
      token->told.store(true, std::memory_order_relaxed);
      grant->tokens_.inherited.push_back(std::move(token));
    }
  }
  name_forgotten(&block);
  for (const auto& token : grant->tokens_.inherited) grant->told_.emplace(token->id, token);
  told_.reserve(told_.size() + grant->told_.size());
  if (slots.size() != packed.leased.size()) slots = spread(packed.leased, slots);
  return status;
}

CarriedTokens Lending::commit(Grant* grant) noexcept {
  if (!grant->needed_) return {};
  for (const TokenRecord& token : grant->block_.tokens) {
    if (token.kind == TokenKind::kForgotten) told_.erase(token.id);
  }
  told_.merge(grant->told_);
  CarriedTokens tokens = std::move(grant->tokens_);
  if (grant->ledger_->has_fds()) tokens.account = grant->ledger_->take_fds();
  grant->ledger_ = nullptr;  // the destructor must not give the leases back
  return tokens;
}

}  // namespace tenon::channel

#include "memory/holding.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/process_state.h"
#include "memory/lease_page.h"
#include "memory/ledger.h"
#include "memory/peer_page.h"
#include "os/memfd.h"
#include "os/token.h"

namespace tenon::memory {
namespace {

std::atomic<uint64_t> g_next_token_id{1};

thread_local GivingBack* t_giving_back = nullptr;

// One lock for all holdings, because fork takes it, so a forked child can use the holdings of its
// parent. Each use copies or changes a short list.
struct InheritedTokens : ProcessState<LockRank::kInheritedTokens> {};

Status refuse(const char* why) {
  return Status(Code::kCorrupt, why).with("field", std::string("tokens"));
}

constexpr PageKind kLeasePage{
    .magic = lease_page::kMagic,
    .version = lease_page::kVersion,
    .incompat_offset = offsetof(lease_page::Header, incompat),
    .name = "a lease page",
    .unsealed = "a lease page that is not sealed, or cannot be written",
    .of_huge_pages = "a lease page of huge pages",
    .too_short = "a lease page that is too short",
    .field = "tokens",
};

// Checks a page that came, and reads its number of slots.
Status check_page(int fd, uint32_t* slots) {
  std::array<std::byte, sizeof(lease_page::Header)> bytes;
  TENON_ASSIGN(const uint64_t nbytes,
               check_page_file(fd, kLeasePage, PageUse::kWrite, bytes.size()));
  TENON_TRY(os::read_file(fd, 0, bytes.data(), bytes.size()));
  TENON_TRY(check_page_header(bytes, kLeasePage));
  std::memcpy(slots, bytes.data() + offsetof(lease_page::Header, slots), sizeof *slots);
  if (*slots == 0 || *slots % lease_page::kSlotsUnit != 0 || *slots > lease_page::kMostSlots ||
      nbytes != lease_page::page_nbytes(*slots))
    return refuse("a lease page of another size than it says");
  return Status::ok();
}

}  // namespace

LeaseToken::~LeaseToken() {
  if (told.load(std::memory_order_relaxed) && generation == fork_generation()) tell_forgotten();
}

std::shared_ptr<LeaseToken> make_token(os::Fd fd) {
  auto token = std::make_shared<LeaseToken>();
  token->id = g_next_token_id.fetch_add(1, std::memory_order_relaxed);
  token->fd = std::move(fd);
  return token;
}

Result<Ref<Holding>> Holding::open(os::Fd* token, os::Fd* page, os::Fd* bell) {
  if (!os::is_token(token->get())) return refuse("a token that is no end of a pipe");
  if (page->is_open() && !os::is_bell(bell->get())) return refuse("a bell that is no socket");
  // All memory is allocated first. If an allocation fails, the fds still belong to the caller, who
  // may try again.
  auto holding = Ref<Holding>::adopt(new Holding());
  holding->token_ = make_token({});
  if (page->is_open()) {
    TENON_TRY(check_page(page->get(), &holding->slots_));
    TENON_ASSIGN(holding->page_,
                 os::Mapping::create(os::Mapping::Kind::kSharedWritable, page->get(), 0,
                                     lease_page::page_nbytes(holding->slots_)));
    page->reset();
  }
  holding->token_->fd = std::move(*token);
  holding->bell_ = std::move(*bell);
  // This ring lets the kernel tell the lender which process took the token, because another process
  // may have made the other end of the lender's connection.
  if (holding->bell_.is_open()) os::ring(holding->bell_.get());
  return holding;
}

void Holding::dispose() noexcept {
  token_.reset();
  inherited_.clear();
  bell_.reset();
  page_ = os::Mapping();
}

// If the lease is FAMILY, another process of the family may read the block, and only the token can
// say when all have released it.
bool Holding::can_give_back(uint32_t slot, uint32_t mark) const noexcept {
  return state_of(mark) == LeaseState::kHeld && page_.base() != nullptr && slot < slots_;
}

void Holding::give_back(uint32_t slot, uint32_t mark) noexcept {
  if (can_give_back(slot, mark) && lease_page::release(page_.base(), slots_, slot))
    os::ring(bell_.get());
}

void Holding::end_lease(uint32_t slot, uint32_t mark) noexcept {
  if (t_giving_back != nullptr && can_give_back(slot, mark)) return t_giving_back->add(this, slot);
  give_back(slot, mark);
  release();
}

GivingBack::GivingBack() noexcept : outer_(std::exchange(t_giving_back, this)) {}

GivingBack::~GivingBack() {
  tell();
  t_giving_back = outer_;
}

GivingBack::Pause::Pause() noexcept : paused_(std::exchange(t_giving_back, nullptr)) {
  for (GivingBack* each = paused_; each != nullptr; each = each->outer_) each->tell();
}

GivingBack::Pause::~Pause() { t_giving_back = paused_; }

void GivingBack::add(Holding* holding, uint32_t slot) noexcept {
  if (holding != holding_ || slot / 64 != word_) {
    tell();
    holding_ = holding;
    word_ = slot / 64;
  }
  bits_ |= uint64_t{1} << (slot % 64);
  ++count_;
}

// A fork since add() changes nothing: the last reference to each block had gone, so a child has
// none. But a child that was forked in a signal handler has a copy of this list. Only its parent
// may set the bits.
void GivingBack::tell() noexcept {
  if (holding_ == nullptr) return;
  Holding* const holding = std::exchange(holding_, nullptr);
  const uint64_t bits = std::exchange(bits_, 0);
  const bool ours = holding->generation_ == fork_generation();
  if (ours && lease_page::release_word(holding->page_.base(), holding->slots_, word_, bits))
    os::ring(holding->bell_.get());
  holding->release(std::exchange(count_, 0));
}

bool Holding::lender_is_gone() const noexcept {
  return token_ && os::is_unwatched(token_->fd.get());
}

void Holding::renew() noexcept {
  if (generation_ != fork_generation() || !forked_since(mark_) || page_.base() == nullptr ||
      asked_.exchange(true))
    return;
  lease_page::header(page_.base()).renew.store(1, std::memory_order_release);
  os::ring(bell_.get());
}

void Holding::inherit(std::shared_ptr<LeaseToken> token) {
  const std::lock_guard<std::mutex> lock(process_state<InheritedTokens>().mutex);
  if (std::find(inherited_.begin(), inherited_.end(), token) == inherited_.end())
    inherited_.push_back(std::move(token));
}

void Holding::disinherit(const LeaseToken* token) noexcept {
  const std::lock_guard<std::mutex> lock(process_state<InheritedTokens>().mutex);
  std::erase_if(inherited_, [token](const auto& each) { return each.get() == token; });
}

std::vector<std::shared_ptr<LeaseToken>> Holding::tokens() const {
  const std::lock_guard<std::mutex> lock(process_state<InheritedTokens>().mutex);
  std::vector<std::shared_ptr<LeaseToken>> result{token_};
  result.insert(result.end(), inherited_.begin(), inherited_.end());
  return result;
}

}  // namespace tenon::memory

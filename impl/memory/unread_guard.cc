#include "memory/unread_guard.h"

#include <mutex>
#include <unordered_map>

#include "base/process_state.h"
#include "memory/ledgers.h"

namespace tenon::memory {
namespace {

struct UnreadGuardState : ProcessState<LockRank::kUnreadGuards> {
  std::unordered_multimap<uint64_t, UnreadGuard*> guards;  // by the id of the ledger

  void in_child() noexcept { guards.clear(); }  // ledgers and connections are the parent's
};

UnreadGuardState& unread_guard_state() noexcept { return process_state<UnreadGuardState>(); }

}  // namespace

UnreadGuard::~UnreadGuard() {
  if (!has_any_) return;
  {
    const std::lock_guard<std::mutex> lock(unread_guard_state().mutex);
    std::erase_if(unread_guard_state().guards,
                  [this](const auto& each) { return each.second == this; });
  }
  if (is_wanted()) end_hung_up_soon();
}

void UnreadGuard::add(uint64_t ledger) {
  UnreadGuardState& all = unread_guard_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto [begin, end] = all.guards.equal_range(ledger);
  for (auto at = begin; at != end; ++at) {
    if (at->second == this) return;
  }
  all.guards.emplace(ledger, this);
  has_any_ = true;
}

void UnreadGuard::drained() noexcept {
  wanted_.store(false, std::memory_order_release);
  end_hung_up_soon();
}

Drained ask_guards(uint64_t ledger) noexcept {
  UnreadGuardState& all = unread_guard_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  Drained result = Drained::kYes;
  const auto [begin, end] = all.guards.equal_range(ledger);
  for (auto at = begin; at != end;) {
    UnreadGuard& guard = *at->second;
    // The mark is set before the connection is asked, so that a thread which reads the last bytes
    // in between finds it.
    guard.wanted_.store(true, std::memory_order_seq_cst);
    const Drained answer = guard.ask_(guard.context_);
    if (answer == Drained::kYes) {
      at = all.guards.erase(at);
      continue;
    }
    if (result != Drained::kBusy) result = answer;
    ++at;
  }
  return result;
}

}  // namespace tenon::memory

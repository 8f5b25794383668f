#include "memory/ledgers.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <unordered_map>

#include "base/process_state.h"
#include "memory/unread_guard.h"
#include "os/process.h"
#include "os/service.h"
#include "os/shared_tick.h"
#include "os/socket.h"
#include "os/token.h"

namespace tenon::memory {
namespace {

// How many leases one slice of work ends, in well under a millisecond.
constexpr size_t kSlice = 4096;
constexpr int64_t kRenewAgainNs = 5'000'000;
constexpr int64_t kEndAgainNs = 1'000'000;

void end_hung_up() noexcept;
void renew_again() noexcept;

constinit os::SharedTick g_end_hung_up{&end_hung_up};
constinit os::SharedTick g_renew_again{&renew_again};

struct LedgersState : ProcessState<LockRank::kLedgers> {
  std::unordered_map<int, Ref<Ledger>> open;  // by watch
  std::unordered_map<int, int> by_bell;       // listener -> watch
  std::vector<Ref<Ledger>> ending;            // hung up, but some leases have not ended yet
  uint32_t waiting = 0;
  std::atomic<int64_t> leases{0};
  std::atomic<uint64_t> forgotten{0};

  // The leases are the parent's, so they never end in a child.
  void in_child() noexcept {
    for (auto& [watch, ledger] : open) {
      ledger->forget_in_child();
      (void)ledger.detach();
    }
    for (Ref<Ledger>& ledger : ending) (void)ledger.detach();
    open.clear();
    by_bell.clear();
    ending.clear();
    waiting = 0;
    leases = 0;
    g_end_hung_up.forget();
    g_renew_again.forget();
  }
};

LedgersState& ledgers_state() noexcept { return process_state<LedgersState>(); }

bool end_slice() noexcept;

// Moves a ledger whose token is gone from `open` to `ending`. The caller holds the lock.
void hang_up(Ref<Ledger> ledger) {
  LedgersState& all = ledgers_state();
  all.ending.reserve(all.ending.size() + 1);
  os::stop_serving_fd(ledger->watch());
  if (ledger->listener() >= 0) os::stop_serving_fd(ledger->listener());
  all.by_bell.erase(ledger->listener());
  all.open.erase(ledger->watch());
  ledger->end();
  all.ending.push_back(std::move(ledger));
}

// Drops a ledger that has no lease left. Several threads may find that at once.
void forget_ended(const Ref<Ledger>& ledger) noexcept {
  LedgersState& all = ledgers_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = std::find_if(all.ending.begin(), all.ending.end(),
                                  [&](const auto& each) { return each.get() == ledger.get(); });
  if (found != all.ending.end()) all.ending.erase(found);
}

// Has the library's thread end leases in slices. False: there is no memory for that, or no thread.
bool add_end_slice() noexcept {
  try {
    return os::add_work(&end_slice).is_ok();
  } catch (...) {
    return false;
  }
}

// Whether the token of this watch is gone and its ledger need not wait (unread_guard.h). If so, one
// slice of its leases ends here. The rest ends on the library's thread, or here if there can be no
// such thread.
bool end_if_gone(int watch) noexcept {
  LedgersState& all = ledgers_state();
  Ref<Ledger> ledger;
  try {
    const std::lock_guard<std::mutex> lock(all.mutex);
    const auto found = all.open.find(watch);
    if (found == all.open.end() || !os::has_hung_up(watch)) return false;
    if (const Drained drained = ask_guards(found->second->id()); drained != Drained::kYes) {
      os::stop_serving_fd(watch);
      if (drained == Drained::kBusy) g_end_hung_up.request(kEndAgainNs);
      return false;
    }
    ledger = found->second;
    hang_up(ledger);
  } catch (...) {
    return false;  // No memory. The fd stays hung up, and the next check finds that.
  }
  // Forgets this ledger, and not the last one in the list, on which another thread may be working.
  if (!ledger->end_some(kSlice)) {
    forget_ended(ledger);
  } else if (!add_end_slice()) {
    while (ledger->end_some(kSlice)) {
    }
    forget_ended(ledger);
  }
  signal_space();
  return true;
}

// The event may belong to another fd that had this number before, so end_if_gone() asks again.
void on_hang_up(int fd, bool /*readable*/, bool /*hung_up*/) noexcept { (void)end_if_gone(fd); }

// The bell is read before the bits, so a release that comes later rings again.
void on_bell(int fd, bool /*readable*/, bool hung_up) noexcept {
  LedgersState& all = ledgers_state();
  Ref<Ledger> ledger;
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    const auto found = all.by_bell.find(fd);
    if (found == all.by_bell.end()) return;
    ledger = all.open.at(found->second);
    // Nobody rings any more. Only the token tells whether the leases have ended. The event may
    // belong to another fd that had this number before, so the kernel is asked.
    if (hung_up && os::peer_hung_up(fd)) os::stop_serving_fd(fd);
  }
  ledger->hear_bell();
  if (ledger->drain() > 0) signal_space();
  // A borrower that forked does not wait for the next message to get a new token: the lender may be
  // waiting for leases whose end only the old token can tell.
  if (ledger->wants_renewal() && !ledger->renew()) g_renew_again.request(kRenewAgainNs);
}

// Ends one slice of the leases that are left in ledgers whose token is gone. False: none is left.
bool end_slice() noexcept {
  LedgersState& all = ledgers_state();
  Ref<Ledger> ledger;
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (all.ending.empty()) return false;
    ledger = all.ending.back();
  }
  if (!ledger->end_some(kSlice)) {
    forget_ended(ledger);
    const std::lock_guard<std::mutex> lock(all.mutex);
    return !all.ending.empty();
  }
  signal_space();
  return true;
}

std::vector<Ref<Ledger>> list() {
  LedgersState& all = ledgers_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::vector<Ref<Ledger>> result;
  result.reserve(all.open.size() + all.ending.size());
  for (const auto& [watch, ledger] : all.open) result.push_back(ledger);
  result.insert(result.end(), all.ending.begin(), all.ending.end());
  return result;
}

size_t end_all_gone() noexcept {
  size_t count = 0;
  try {
    std::vector<int> watches;
    {
      LedgersState& all = ledgers_state();
      const std::lock_guard<std::mutex> lock(all.mutex);
      watches.reserve(all.open.size());
      for (const auto& [watch, ledger] : all.open) watches.push_back(watch);
    }
    for (const int watch : watches) count += end_if_gone(watch) ? 1 : 0;
  } catch (...) {
    // No memory. Ledgers that are watched end later, and the others with the next check.
  }
  return count;
}

void end_hung_up() noexcept {
  if (g_end_hung_up.begin()) (void)end_all_gone();
}

// Calls the renewers of ledgers that have news (Ledger::has_news()), and asks again for those whose
// connections are busy.
void renew_again() noexcept {
  if (!g_renew_again.begin()) return;
  bool again = false;
  try {
    for (const Ref<Ledger>& ledger : list())
      again |= !ledger->has_ended() && ledger->has_news() && !ledger->renew();
  } catch (...) {
    again = true;
  }
  if (again) g_renew_again.request(kRenewAgainNs);
}

}  // namespace

Status register_ledger(const Ref<Ledger>& ledger) {
  LedgersState& all = ledgers_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const int watch = ledger->watch();
  const int listener = ledger->listener();
  // The registration is undone unless all of it works. Any step may lack memory.
  struct Undo {
    int watch;
    int listener;
    bool done = false;
    ~Undo() {
      if (done) return;
      os::stop_serving_fd(watch);
      if (listener >= 0) os::stop_serving_fd(listener);
      ledgers_state().by_bell.erase(listener);
      ledgers_state().open.erase(watch);
    }
  } undo{watch, listener};
  all.open.emplace(watch, ledger);
  if (listener >= 0) all.by_bell.emplace(listener, watch);
  TENON_TRY(os::serve_fd(watch, &on_hang_up));
  if (listener >= 0) TENON_TRY(os::serve_fd(listener, &on_bell));
  if (all.waiting > 0) ledger->set_waiting(true);
  undo.done = true;
  return Status::ok();
}

void settle_ledger(Ledger& ledger) noexcept {
  int watch = -1;
  {
    const std::lock_guard<std::mutex> lock(ledgers_state().mutex);
    if (ledger.has_ended()) return;
    watch = ledger.watch();
  }
  (void)end_if_gone(watch);
}

uint64_t own_ledger_of(int token) noexcept {
  LedgersState& all = ledgers_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (all.open.empty()) return 0;
  Result<uint64_t> id = os::token_id(token);
  if (!id.is_ok()) return 0;
  const auto found = std::find_if(all.open.begin(), all.open.end(), [&](const auto& each) {
    return each.second->token_id() == id.value();
  });
  return found == all.open.end() ? 0 : found->second->id();
}

void end_hung_up_soon() noexcept { g_end_hung_up.request(0); }

uint64_t tokens_forgotten() noexcept {
  return ledgers_state().forgotten.load(std::memory_order_acquire);
}

void tell_forgotten() noexcept {
  ledgers_state().forgotten.fetch_add(1, std::memory_order_release);
  g_renew_again.request(0);
}

void count_leases(int64_t more) noexcept {
  ledgers_state().leases.fetch_add(more, std::memory_order_relaxed);
}

bool has_leases() noexcept { return ledgers_state().leases.load(std::memory_order_relaxed) > 0; }

size_t drain_ledgers() noexcept {
  if (!has_leases()) return 0;
  if (os::has_no_thread()) (void)os::poll_service();
  size_t count = 0;
  try {
    for (const Ref<Ledger>& ledger : list()) {
      if (ledger->has_ended()) {
        (void)ledger->end_some(kSlice);
        ++count;
      } else {
        count += ledger->drain();
      }
    }
  } catch (...) {
    // No memory for the list. The next check will do as well.
  }
  return count;
}

size_t settle_ledgers() noexcept {
  const size_t count = end_all_gone() + drain_ledgers();
  if (!has_leases()) return count;
  constexpr int64_t kPauseNs = 50'000;
  int64_t left_ns = 100'000'000;
  try {
    for (const Ref<Ledger>& ledger : list()) {
      for (; left_ns > 0 && ledger->is_ending_elsewhere(); left_ns -= kPauseNs)
        std::this_thread::sleep_for(std::chrono::nanoseconds(kPauseNs));
    }
  } catch (...) {
    // No memory for the list. The next check will do as well.
  }
  return count;
}

void begin_waiting() noexcept {
  LedgersState& all = ledgers_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (all.waiting++ > 0) return;
  for (const auto& [watch, ledger] : all.open) ledger->set_waiting(true);
}

void stop_waiting() noexcept {
  LedgersState& all = ledgers_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (all.waiting > 0) --all.waiting;
  if (all.waiting > 0) return;
  for (const auto& [watch, ledger] : all.open) ledger->set_waiting(false);
}

std::vector<Ledger::Totals> ledger_totals() {
  std::vector<Ledger::Totals> result;
  for (const Ref<Ledger>& ledger : list()) {
    // A borrower tells by its bell which process it is, and the library's thread may not have read
    // the bell yet. So the bell is read here, and all that a ring requests is done here.
    if (!ledger->has_ended()) {
      ledger->hear_bell();
      if (ledger->drain() > 0) signal_space();
      if (ledger->wants_renewal()) g_renew_again.request(0);
    }
    const Ledger::Totals totals = ledger->totals();
    if (totals.leases > 0) result.push_back(totals);
  }
  return result;
}

std::string describe_holders() {
  constexpr size_t kMost = 4;
  std::vector<Ledger::Totals> all = ledger_totals();
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.nbytes > b.nbytes; });
  std::string text;
  for (size_t i = 0; i < all.size() && i < kMost; ++i) {
    const Ledger::Totals& each = all[i];
    if (!text.empty()) text += "; ";
    if (each.borrower.pid > 0) {
      text += format("pid %d", each.borrower.pid);
      if (const auto facts = os::process_facts(each.borrower.pid))
        text += " (" + facts->command + ")";
    } else {
      text += format("a process of uid %u that this one cannot see", each.borrower.uid);
    }
    text += format(": %llu leases of %llu bytes", static_cast<unsigned long long>(each.leases),
                   static_cast<unsigned long long>(each.nbytes));
  }
  if (all.size() > kMost) text += format("; and %zu more", all.size() - kMost);
  return text.empty() ? "nobody" : text;
}

}  // namespace tenon::memory

#include "channel/deposit_limits.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "channel/deposit_server.h"
#include "os/clock.h"
#include "os/limits.h"

namespace tenon::channel {
namespace {

using memory::Depot;

bool is_same(Depot::MessageSlot a, Depot::MessageSlot b) noexcept {
  return a.message == b.message && a.generation == b.generation;
}

// Requests a tick for the time when the oldest message becomes too old. The caller holds the lock.
void want_age_tick(DepositState* all, int64_t now_ns) noexcept {
  const int64_t oldest = all->waiting.oldest_ns();
  if (all->limits.age_ns == 0 || oldest == 0) return;
  // The age of a message is never negative, so the subtraction cannot overflow.
  all->age_tick.request(std::max<int64_t>(all->limits.age_ns - (now_ns - oldest), 1'000'000));
}

}  // namespace

void age_tick_came() noexcept {
  DepositState& all = deposit_state();
  if (!all.age_tick.begin()) return;
  Ref<Depot> depot;
  std::vector<Depot::MessageSlot> places;
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (!all.depot) return;
    depot = all.depot;
    const int64_t now = os::monotonic_ns();
    try {
      all.waiting.take_expired(*depot, all.limits, now, &places);
    } catch (...) {
      // No memory: the next tick checks again.
    }
    want_age_tick(&all, now);
  }
  withdraw_expired(&all, depot, places);
}

void withdraw_expired(DepositState* all, const Ref<Depot>& depot,
                      const std::vector<Depot::MessageSlot>& places) noexcept {
  uint64_t expired = 0;
  for (const Depot::MessageSlot place : places) expired += depot->withdraw(place) ? 1 : 0;
  if (expired == 0) return;
  const std::lock_guard<std::mutex> lock(all->mutex);
  all->expired += expired;
}

void Waiting::add(Depot::MessageSlot place, uint64_t nbytes, int64_t now_ns) {
  all_.push_back({place, nbytes, now_ns});
  nbytes_ += nbytes;
}

void Waiting::clear() noexcept {
  all_.clear();
  nbytes_ = 0;
}

void Waiting::forget_fetched(const Depot& depot) {
  std::erase_if(all_, [&](const One& each) {
    if (depot.is_unfetched(each.place)) return false;
    nbytes_ -= each.nbytes;
    return true;
  });
  look_at_ = std::max<size_t>(1024, all_.size() * 2);
}

void Waiting::take_expired(const Depot& depot, const DepositLimits& limits, int64_t now_ns,
                           std::vector<Depot::MessageSlot>* expired) {
  if (all_.empty()) return;
  const bool is_too_much = limits.nbytes > 0 && nbytes_ > limits.nbytes;
  const bool is_too_old = limits.age_ns > 0 && now_ns - all_.front().since_ns >= limits.age_ns;
  if (is_too_much || is_too_old || all_.size() > look_at_) forget_fetched(depot);
  while (!all_.empty()) {
    const One oldest = all_.front();
    const bool over =
        limits.nbytes > 0 && nbytes_ > limits.nbytes && !is_same(oldest.place, all_.back().place);
    const bool old = limits.age_ns > 0 && now_ns - oldest.since_ns >= limits.age_ns;
    if (!over && !old) break;
    expired->push_back(oldest.place);
    nbytes_ -= oldest.nbytes;
    all_.pop_front();
  }
}

void count_deposit(const Ref<Depot>& depot, Depot::MessageSlot place, uint64_t nbytes) noexcept {
  DepositState& all = deposit_state();
  if (!all.counts_messages.load(std::memory_order_relaxed)) return;
  std::vector<Depot::MessageSlot> expired;
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    if ((all.limits.nbytes == 0 && all.limits.age_ns == 0) || all.depot.get() != depot.get())
      return;
    const int64_t now = os::monotonic_ns();
    try {
      all.waiting.add(place, nbytes, now);
      all.waiting.take_expired(*depot, all.limits, now, &expired);
    } catch (...) {
      // No memory: the message is not counted, or the messages over the limit are withdrawn at the
      // next check.
    }
    want_age_tick(&all, now);
  }
  if (!expired.empty()) withdraw_expired(&all, depot, expired);
}

uint64_t most_segments(const DepositState& all) noexcept {
  if (all.limits.segments > 0) return all.limits.segments;
  return std::max<uint64_t>(os::fd_limit() / 2, 1);
}

Status set_deposit_limits(const DepositLimits& limits) {
  DepositState& all = deposit_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.limits = limits;
  all.counts_messages.store(limits.nbytes > 0 || limits.age_ns > 0, std::memory_order_relaxed);
  if (limits.nbytes == 0 && limits.age_ns == 0) all.waiting.clear();
  want_age_tick(&all, os::monotonic_ns());
  return Status::ok();
}

DepositStats deposit_stats() {
  DepositState& all = deposit_state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  DepositStats stats;
  stats.expired = all.expired;
  if (!all.depot) return stats;
  stats.messages = all.depot->count_pending();
  if (stats.messages == 0) return stats;
  // A program that waits for its messages to expire calls this again and again, so a tick that was
  // lost is requested here too.
  want_age_tick(&all, os::monotonic_ns());
  want_watch_tick(&all);
  sweep_things(&all, all.things.size());
  stats.segments = all.segment_serials.size();
  return stats;
}

}  // namespace tenon::channel

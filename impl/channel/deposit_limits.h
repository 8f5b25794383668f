// Limits how many bytes and segments of deposited messages (deposit.h) may wait to be fetched, and
// for how long. Only the carrier of a ticket, such as a queue, can tell whether the message will
// ever be fetched. So a lender may withdraw messages that wait for too long, or that are too large
// together. deposit.cc counts its messages here.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/counted.h"
#include "base/status.h"
#include "memory/depot.h"

namespace tenon::channel {

struct DepositState;  // deposit_server.h

struct DepositLimits {
  // The most segments for whose fds receivers can ask. A deposit that needs one more fails with
  // RESOURCE_EXHAUSTED (limit max_unfetched_segments). 0: half of RLIMIT_NOFILE.
  uint64_t segments = 0;
  uint64_t nbytes = 0;  // bytes of the storages in unfetched messages; 0: no limit
  int64_t age_ns = 0;   // how long a message may stay unfetched; 0: for ever
};
// Sets the limits, and always returns OK. The call withdraws nothing itself. The next deposit
// applies the limits. This call and each deposit also request a timer tick for the time when the
// oldest message becomes too old, so a message that waits too long is withdrawn without another
// deposit, also under a limit that was lowered. If there was no memory for the tick, the next
// deposit, set_deposit_limits() or deposit_stats() requests it again.
//
// Only messages that are deposited while `nbytes` or `age_ns` is a limit are counted. A call with
// both 0 forgets the counted ones. A forked child keeps the limits and begins without messages.
Status set_deposit_limits(const DepositLimits& limits);

struct DepositStats {
  uint64_t messages = 0;  // messages that nobody has fetched
  uint64_t segments = 0;  // segments for whose fds receivers can ask; 0 if `messages` is 0
  // Messages that were withdrawn by a limit, or because their carrier was gone (deposit_watch.h).
  uint64_t expired = 0;
};
DepositStats deposit_stats();

// The deposits that a limit counts, the oldest first. A message that was fetched meanwhile stays in
// the list until a limit is exceeded or the list has grown long. The caller of each function holds
// the lock of the DepositState.
class Waiting {
 public:
  // Adds a message. A message that is deposited in pieces (Deposit::add()) is added once for each
  // piece, with the same `place`, and is withdrawn whole. `place` has a generation, so an entry of
  // a message that is over never stands for the next message in its slot.
  void add(memory::Depot::MessageSlot place, uint64_t nbytes, int64_t now_ns);
  // Moves the messages that are over a limit to the end of `expired`. The limit of bytes never
  // takes the newest message, however large that is. If std::bad_alloc is thrown, `expired` has the
  // messages that were moved before, and the others stay.
  void take_expired(const memory::Depot& depot, const DepositLimits& limits, int64_t now_ns,
                    std::vector<memory::Depot::MessageSlot>* expired);
  // When the oldest message was deposited, on CLOCK_MONOTONIC. 0: the list is empty.
  int64_t oldest_ns() const noexcept { return all_.empty() ? 0 : all_.front().since_ns; }
  void clear() noexcept;

 private:
  struct One {
    memory::Depot::MessageSlot place;
    uint64_t nbytes;
    int64_t since_ns;
  };
  void forget_fetched(const memory::Depot& depot);
  std::deque<One> all_;
  uint64_t nbytes_ = 0;
  size_t look_at_ = 1024;  // with more entries than this, fetched ones are removed
};

// Counts a message, or a piece of one, and withdraws the messages that are over a limit. If there
// is no memory, the message is not counted. The caller holds no lock: the end of a message releases
// storages.
void count_deposit(const Ref<memory::Depot>& depot, memory::Depot::MessageSlot place,
                   uint64_t nbytes) noexcept;
// Withdraws those of the messages that nobody has fetched, and counts them in
// DepositState::expired. The caller holds no lock, as for count_deposit().
void withdraw_expired(DepositState* all, const Ref<memory::Depot>& depot,
                      const std::vector<memory::Depot::MessageSlot>& places) noexcept;
// DepositLimits::segments or its default. The caller holds the lock of the state.
uint64_t most_segments(const DepositState& all) noexcept;

}  // namespace tenon::channel

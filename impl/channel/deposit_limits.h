// How much may wait to be fetched, and for how long. Whether a message will ever be fetched only
// its carrier can tell, so a lender may give up those that wait for too long or are too large
// together.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/counted.h"
#include "base/status.h"
#include "memory/depot.h"

namespace tenon::channel {

struct DepositState;

struct DepositLimits {
  uint64_t segments = 0;  // 0: half of RLIMIT_NOFILE
  uint64_t nbytes = 0;    // of storages in messages that wait; 0: any number
  int64_t age_ns = 0;     // 0: for ever
};
Status set_deposit_limits(const DepositLimits& limits);

struct DepositStats {
  uint64_t messages = 0;  // that nobody has fetched
  uint64_t segments = 0;  // for which receivers may ask; 0 if there is no message
  uint64_t expired = 0;   // messages that were withdrawn by a limit
};
DepositStats deposit_stats();

// Deposits that a limit counts, the oldest first. Those that were fetched meanwhile stand there
// until the next look.
class Waiting {
 public:
  // With the lock of the state, as all here. Of a message in pieces each piece is added.
  void add(memory::Depot::Place place, uint64_t nbytes, int64_t now_ns);
  // Those that have to go, taken out. The newest message stays, however large it is.
  std::vector<memory::Depot::Place> take_expired(const memory::Depot& depot,
                                                 const DepositLimits& limits, int64_t now_ns);
  // When the oldest message was deposited; 0: none waits.
  int64_t oldest_ns() const noexcept { return all_.empty() ? 0 : all_.front().since_ns; }
  void clear() noexcept;

 private:
  struct One {
    memory::Depot::Place place;
    uint64_t nbytes;
    int64_t since_ns;
  };
  void forget_fetched(const memory::Depot& depot);
  std::deque<One> all_;
  uint64_t nbytes_ = 0;
  size_t look_at_ = 1024;  // entries at which those that were fetched are forgotten
};

// Counts a deposit that is open, or a piece of one, and withdraws what waits beyond the limits.
void count_deposit(const Ref<memory::Depot>& depot, memory::Depot::Place place,
                   uint64_t nbytes) noexcept;
// Without the lock. Withdraws those that nobody has fetched, and counts them.
void withdraw_expired(DepositState* all, const Ref<memory::Depot>& depot,
                      const std::vector<memory::Depot::Place>& places) noexcept;
// With the lock. The most segments that may be numbered.
uint64_t most_segments(const DepositState& all) noexcept;

}  // namespace tenon::channel

// The state of a process's depot, and the server at the depot's socket. deposit.cc fills the state.
// A keeper (deposit_keeper.h) inherits a part of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/counted.h"
#include "base/process_state.h"
#include "base/status.h"
#include "channel/deposit_limits.h"
#include "channel/deposit_watch.h"
#include "channel/ticket.h"
#include "memory/depot.h"
#include "memory/holding.h"
#include "memory/segment.h"
#include "names/filename.h"
#include "os/fd.h"
#include "os/shared_tick.h"

namespace tenon::channel {

// A thing is a segment, or a token of a lender further up. The depot numbers it, and receivers can
// ask for its fd by that number.
struct NumberedThing {
  memory::Depot::Number number;
  Weak<memory::Segment> segment;
  std::weak_ptr<memory::LeaseToken> token;
  os::Fd inherited;  // in a keeper: the fd, instead of `segment` and `token`
  // The segment's serial in this process, or the token's id in this process.
  uint64_t key = 0;
  ThingKind kind = ThingKind::kSegment;
  bool is_over() const noexcept {
    if (inherited.is_open()) return false;
    return kind == ThingKind::kSegment ? segment.expired() : token.expired();
  }
};

// A process that has connected to the socket and has no answer yet.
struct DepotClient {
  os::Fd socket;
  int64_t since_ns = 0;
};

// The ticks of the service thread. clients_tick_came() drops silent clients (deposit_server.cc),
// age_tick_came() applies DepositLimits::age_ns (deposit_limits.cc), and watch_tick_came() checks
// the watches (deposit_watch.cc).
void clients_tick_came() noexcept;
void age_tick_came() noexcept;
void watch_tick_came() noexcept;

// `mutex` guards all fields. A forked child begins without a depot: in_child() forgets the
// parent's, closes the child's copies of the fds, and keeps the limits.
struct DepositState : ProcessState<LockRank::kDeposits> {
  Ref<memory::Depot> depot;
  DepotId id{};
  names::Filename name;
  os::Fd listener;
  std::unordered_map<uint64_t, NumberedThing> things;  // by serial
  // The serial of a segment in the depot, by the segment's own serial in this process.
  std::unordered_map<uint64_t, uint64_t> segment_serials;
  // The segment that a deposit named last, by its own serial in this process, and its number. Most
  // processes lend from one segment again and again. Serial 0: there is none.
  uint64_t last_segment_key = 0;
  Thing last_segment;
  // The serial of a token in the depot, by the token's id in this process.
  std::unordered_map<uint64_t, uint64_t> token_serials;
  std::unordered_map<int, DepotClient> clients;
  DepositLimits limits;
  // Whether `limits` counts messages (count_deposit()). Deposits read it without the lock.
  std::atomic<bool> counts_messages{false};
  Waiting waiting;
  std::vector<DepositWatch> watches;
  std::vector<LetGo> let_go;
  size_t look_at_watches = 0;  // with as many watches as this, all are checked before one is added
  uint64_t expired = 0;        // as DepositStats::expired
  bool exit_hook = false;      // leave_deposits() will be called at exit
  os::SharedTick clients_tick{&clients_tick_came};
  os::SharedTick age_tick{&age_tick_came};
  os::SharedTick watch_tick{&watch_tick_came};

  void in_child() noexcept;
};

DepositState& deposit_state() noexcept;

// Ends the numbers of things that are gone. Looks at no more than `looks` things. The caller holds
// the lock, as for the next three functions.
void sweep_things(DepositState* all, size_t looks) noexcept;
// Makes the library's thread answer processes that connect. The errors are those of os::serve_fd().
Status serve_depot(DepositState* all);
// Hangs up on the clients and accepts no others. The listener stays open.
void stop_serving_depot(DepositState* all) noexcept;
// Forgets the depot, closes the listener, and does not end the leases. In this process they stand
// until it ends. The next deposit makes a new depot. Call stop_serving_depot() before, and
// unlink_depot() too unless a keeper has the socket. A forked child calls this without the lock and
// without both.
void forget_depot(DepositState* all) noexcept;
// Removes dead names in /dev/shm, sockets of killed lenders among them, as sweep_some_names() does
// (names/directories.h). The caller holds no lock.
void sweep_depots() noexcept;
// Removes the name of the socket, so that no process finds it any more. Does nothing once the
// listener is closed. The caller holds the lock.
void unlink_depot(const DepositState& all) noexcept;

}  // namespace tenon::channel

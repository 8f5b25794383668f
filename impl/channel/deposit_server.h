// A process's depot and its socket: what deposit.cc fills, and what a keeper (deposit_keeper.h)
// inherits.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/counted.h"
#include "base/status.h"
#include "channel/deposit_limits.h"
#include "channel/deposit_watch.h"
#include "channel/ticket.h"
#include "memory/depot.h"
#include "memory/holding.h"
#include "memory/segment.h"
#include "os/fd.h"
#include "share/filename.h"

namespace tenon::channel {

// A segment or a token that receivers can ask for.
struct NumberedThing {
  memory::Depot::Number number;
  Weak<memory::Segment> segment;
  std::weak_ptr<memory::Token> token;
  os::Fd inherited;  // in a keeper, instead of the two
  uint64_t key = 0;  // the segment's serial, or the token's id
  ThingKind kind = ThingKind::kSegment;
  bool is_over() const noexcept {
    if (inherited.is_open()) return false;
    return kind == ThingKind::kSegment ? segment.expired() : token.expired();
  }
};

struct DepotClient {
  os::Fd socket;
  int64_t since_ns = 0;
};

struct DepositState {
  std::mutex mutex;
  Ref<memory::Depot> depot;
  DepotId id{};
  share::Filename name;
  os::Fd listener;
  std::unordered_map<uint64_t, NumberedThing> things;  // by serial
  // By the segment's serial in this process.
  std::unordered_map<uint64_t, uint64_t> segment_serials;
  std::unordered_map<uint64_t, uint64_t> token_serials;  // by the token's id in this process
  std::unordered_map<int, DepotClient> clients;
  DepositLimits limits;
  Waiting waiting;
  std::vector<DepositWatch> watches;
  std::vector<LetGo> let_go;
  size_t look_at_watches = 0;  // so many are looked at before one more is added
  uint64_t expired = 0;
  bool exit_hook = false;
  bool tick_is_due = false;      // for clients that are silent
  bool age_tick_is_due = false;  // for messages that wait too long
  bool watch_tick_is_due = false;
};

DepositState& deposit_state() noexcept;

// With the lock, as the next three. Ends the numbers of some things that are gone; so many are
// looked at.
void sweep_things(DepositState* all, size_t looks) noexcept;
// From now on the library's thread answers whoever connects.
Status serve_depot(DepositState* all);
// Clients that are being served see this process hang up. The listener stays open.
void stop_serving_depot(DepositState* all) noexcept;
// Its leases stand for ever. The next deposit makes a new one.
void forget_depot(DepositState* all) noexcept;
// Without the lock. Removes sockets of lenders that were killed: some at each call, and all at the
// first.
void sweep_depots() noexcept;
// Where the socket was nobody finds one any more.
void unlink_depot(const DepositState& all) noexcept;

}  // namespace tenon::channel

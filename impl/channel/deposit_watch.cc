#include "channel/deposit_watch.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "channel/deposit.h"
#include "channel/deposit_limits.h"
#include "channel/deposit_server.h"
#include "os/clock.h"
#include "os/limits.h"
#include "os/socket.h"

namespace tenon::channel {
namespace {

using memory::Depot;

// A marker of a message that is read at once hangs up at once. One event for each would wake the
// library's thread for every message, so all watches are checked together, four times a second.
constexpr int64_t kLookNs = 250'000'000;
constexpr size_t kFewWatches = 64;
// A century, so that the sum of a time and a grace does not overflow.
constexpr int64_t kLongestGraceNs = int64_t{100} * 365 * 24 * 3600 * 1'000'000'000;

// The most watches. Each is an fd. They may use an eighth of the fds that this process may open,
// and at least 16. The program needs the rest.
size_t most_watches() noexcept {
  return std::max<size_t>(static_cast<size_t>(os::fd_limit() / 8), 16);
}

// Ends the watches of fetched messages, and those whose fds have hung up. A message whose carrier
// has been gone for long enough is added to `due`. The caller holds the lock.
void look_at_watches(DepositState* all, int64_t now_ns, std::vector<Depot::MessageSlot>* due) {
  all->let_go.reserve(all->let_go.size() + all->watches.size());
  std::erase_if(all->watches, [&](const DepositWatch& each) {
    if (!all->depot->is_unfetched(each.place)) return true;
    if (!os::peer_hung_up(each.fd.get())) return false;
    all->let_go.push_back({each.place, now_ns + each.grace_ns});
    return true;
  });
  due->reserve(all->let_go.size());
  std::erase_if(all->let_go, [&](const LetGo& each) {
    if (each.due_ns <= now_ns) due->push_back(each.place);
    return each.due_ns <= now_ns || !all->depot->is_unfetched(each.place);
  });
  all->look_at_watches = std::max(kFewWatches, 2 * all->watches.size());
}

}  // namespace

void want_watch_tick(DepositState* all) noexcept {
  if (!all->watches.empty() || !all->let_go.empty()) all->watch_tick.request(kLookNs);
}

void watch_tick_came() noexcept {
  DepositState& all = deposit_state();
  if (!all.watch_tick.begin()) return;
  Ref<Depot> depot;
  std::vector<Depot::MessageSlot> due;
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (!all.depot) return;
    depot = all.depot;
    try {
      look_at_watches(&all, os::monotonic_ns(), &due);
    } catch (...) {
      // There is no memory. The next tick tries again.
    }
    want_watch_tick(&all);
  }
  withdraw_expired(&all, depot, due);
}

Status watch_deposit(std::span<const std::byte> ticket, int fd, int64_t grace_ns) {
  TENON_ASSIGN(const OwnMessage own, own_message(ticket));
  if (!os::can_hang_up(fd)) {
    return Status(Code::kInvalidArgument, format("fd %d is no open end of a pipe or socket, so it "
                                                 "does not tell that its other end is gone",
                                                 fd))
        .with("fd", fd);
  }
  grace_ns = std::min(grace_ns, kLongestGraceNs);
  DepositState& all = deposit_state();
  std::vector<Depot::MessageSlot> due;
  const size_t most = most_watches();
  bool is_full = false;
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (all.depot.get() != own.depot.get())
      return Status(Code::kInvalidArgument, "the message was handed over to a keeper");
    // The room is made first. After look_at_watches() nothing may fail: the messages that are due
    // must be taken back, and the fd that is adopted must stay open.
    if (all.watches.size() == all.watches.capacity())
      all.watches.reserve(std::max(kFewWatches, 2 * all.watches.size()));
    if (all.watches.size() >= std::min(all.look_at_watches, most))
      look_at_watches(&all, os::monotonic_ns(), &due);
    is_full = all.watches.size() >= most;
    if (!is_full) all.watches.push_back({os::Fd(fd), own.place, grace_ns});
    want_watch_tick(&all);
  }
  withdraw_expired(&all, own.depot, due);
  if (!is_full) return Status::ok();
  return Status(Code::kResourceExhausted,
                format("%zu messages with markers wait to be read, an eighth of the limit of open "
                       "files: let their receivers read, raise the limit (ulimit -n), or send "
                       "without a marker",
                       most))
      .with("limit", std::string("RLIMIT_NOFILE"))
      .with("limit_value", uint64_t{most});
}

}  // namespace tenon::channel

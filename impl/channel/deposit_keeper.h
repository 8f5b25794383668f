// The keeper is a process that stays behind when a lender ends with messages that nobody has
// fetched. It has the lender's socket, the page in which receivers claim messages
// (memory/claims_page.h), and the fds of the segments and tokens that receivers can ask for. It
// maps none of the lender's memory. It ends when all messages are fetched, when no process that
// KeepOptions names is left, or after a time. A lender calls hand_over_deposits(). The program
// tenon-manager is the keeper, and calls the other functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace tenon::channel {

// Without `relatives` and `family` the keeper ends only when all messages are fetched or the time
// is over. All fds are borrowed for the call.
struct KeepOptions {
  int64_t ns = 60'000'000'000;  // how long the keeper stays at the most
  // pidfds. While one of these processes lives, it may still fetch.
  std::span<const int> relatives;
  // An fd of a file that was opened for this call alone. While any process has a shared lock
  // (flock) on that file, it may still fetch. The keeper finds that out by trying for the exclusive
  // lock through this fd, which would replace a shared lock of the same opening. -1: there is no
  // such file.
  int family = -1;
  std::string program;  // empty: tenon-manager beside this library
};

// Hands the messages whose fetching is not over to a keeper. Call it before this process ends. A
// message that is deposited afterwards goes into a new depot, and ends with the process. Returns
// how many messages the keeper has. 0: there was no message, and there is no keeper. On failure
// this process keeps the messages and goes on serving them. NOT_FOUND: there is no program.
// PEER_GONE: the program ended or refused. TIMEOUT: it did not answer within 10 s. Other errors are
// those of memory::Segment::lending_fd() and os::run_for_line(). Until the program has answered,
// the call holds the lock of the DepositState (LockRank::kDeposits), so deposits and forks of other
// threads wait. The caller holds no ranked lock, because segments and tokens may end in the call. A
// forked child has no messages of its parent's.
Result<size_t> hand_over_deposits(const KeepOptions& options);

// The line that the keeper prints when it has taken over.
inline constexpr const char* kKeeping = "keeping";

// What a keeper has inherited.
struct Keeping;

// In the keeper's process: reads the plan from the fd `plan`, takes over the fds that the plan
// names, and closes all other fds, `plan` too, except stdin, stdout and stderr. CORRUPT: the plan
// is of another version of the library.
Result<std::shared_ptr<Keeping>> inherit_deposits(int plan);
// Serves receivers. Returns when no message is left to keep, when no process that KeepOptions names
// is left, or after the time. Calls `ready` once processes that connect are answered.
Status keep_deposits(Keeping* keeping, const std::function<void()>& ready);

}  // namespace tenon::channel

// Limits how many bytes all weights of a directory may have together. A process that loads or
// publishes with a budget checks it first (shared_weights.cc, publish.cc). The check adds what
// status.h finds, and what the publishers have announced that still load.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/status.h"
#include "modules/shared_weights/fork_closed.h"
#include "modules/shared_weights/place.h"

namespace tenon::shared_weights {

// Keeps other processes from checking, until what this process is about to load counts: a server
// listens, or a publisher has called note_nbytes() for NAME.turn. It removes its file at the end.
class BudgetLock {
 public:
  BudgetLock() = default;
  BudgetLock(BudgetLock&&) noexcept = default;
  BudgetLock& operator=(BudgetLock&& other) noexcept {
    std::swap(lock_, other.lock_);
    std::swap(path_, other.path_);
    return *this;
  }
  ~BudgetLock();
  // Does not wait. Not open: another process checks now.
  static Result<BudgetLock> try_take(const Place& place);
  bool is_open() const noexcept { return lock_.is_open(); }

 private:
  ForkClosed lock_;
  std::string path_;
};

// RESOURCE_EXHAUSTED, with the limit "budget_nbytes" and a message that names the largest names:
// `wanted` more bytes would exceed the budget. `publishes`: the caller has NAME.turn, and the
// versions of its own name count. Otherwise no process has the name, whose NAME.hold the caller
// has. The caller has the BudgetLock. Waits at most 200 ms for each server. The versions that only
// processes of another pid namespace have, and not the server, do not count.
Status check_budget(const Place& place, uint64_t wanted, uint64_t budget_nbytes, bool publishes);

}  // namespace tenon::shared_weights

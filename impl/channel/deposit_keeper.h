// The keeper: a process that stays behind when a lender ends with messages that nobody has fetched.
// It has the lender's socket, claims page and the fds of its segments, and none of its memory. It
// ends when all of the messages are fetched, when nobody is left who could, or after a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace tenon::channel {

struct KeepOptions {
  int64_t ns = 60'000'000'000;     // how long at the most
  std::span<const int> relatives;  // pidfds: while one of these processes lives, somebody may fetch
  // A file, opened for this call alone: while anybody has a shared lock on it, too.
  int family = -1;
  std::string program;  // empty: tenon-manager beside this library
};

// Before this process ends: what is deposited afterwards has a depot of its own, and ends with the
// process. Returns how many messages the keeper has; 0: none was there, and there is no keeper.
Result<size_t> hand_over_deposits(const KeepOptions& options);

// What the keeper prints when it has taken over.
inline constexpr const char* kKeeping = "keeping";

// What a keeper inherited.
struct Keeping;

// In the keeper's process: takes what the plan says, and closes all other fds.
Result<std::shared_ptr<Keeping>> inherit_deposits(int plan);
// Returns when there is nothing more to keep, or nobody for whom. Calls `ready` when who connects
// is answered.
Status keep_deposits(Keeping* keeping, const std::function<void()>& ready);

}  // namespace tenon::channel

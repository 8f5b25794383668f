// Gives back the memory, fds and mappings that this process keeps for later, and then tries a
// failed allocation once more. The functions that make or open memory for the user go through
// with_spare().
#pragma once

#include <utility>

#include "base/status.h"

namespace tenon::memory {

// Gives back what a higher layer keeps for later. device/import.cc registers one, for mappings of
// device memory. Any thread may call the function. It takes LockRank::kCudaMemory, which stands
// near the start of the lock order. So the caller of it, of give_back_spare() and of with_spare()
// holds no ranked lock (base/lock_rank.h). A connection's locks have no rank.
using SpareFunction = void (*)() noexcept;
// A static initialiser calls this. There is room for 4 functions. A fifth would be ignored.
void register_spare(SpareFunction give_back) noexcept;

// Calls the registered functions. Then trim_arena() settles the ledgers and gives back the segments
// of the default homes that have no LIVE or LENT block. Segments with retired blocks go too.
void give_back_spare() noexcept;

// Whether `status` names a limit that giving back may relieve. An arena's capacity is no such
// limit.
bool is_shortage(const Status& status) noexcept;

// Adds to a shortage how much this process has, and what the caller can do.
Status describe_shortage(const Status& status);

namespace detail {
inline const Status* status_of(const Status& status) noexcept { return &status; }
template <typename T>
const Status* status_of(const Result<T>& result) noexcept {
  return &result.status();
}
}  // namespace detail

// `attempt` returns a Status or a Result, and leaves nothing behind when it fails. `give_back_more`
// is called before the second attempt. A std::bad_alloc that `attempt` throws goes to the caller
// without a second attempt.
template <typename Attempt, typename Function>
auto with_spare(Attempt&& attempt, Function&& give_back_more) -> decltype(attempt()) {
  auto first = attempt();
  if (const Status* why = detail::status_of(first); why->is_ok() || !is_shortage(*why))
    return first;
  give_back_spare();
  give_back_more();
  auto second = attempt();
  const Status* why = detail::status_of(second);
  if (why->is_ok()) return second;
  return describe_shortage(*why);
}
template <typename Attempt>
auto with_spare(Attempt&& attempt) -> decltype(attempt()) {
  return with_spare(std::forward<Attempt>(attempt), [] {});
}

}  // namespace tenon::memory

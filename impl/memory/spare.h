// What this process keeps for later and can do without. An allocation that fails for want of memory, fds or mappings is tried once more
// after all of it was given back; every way to make or open memory goes through with_spare().
#pragma once

#include <utility>

#include "base/status.h"

namespace tenon::memory {

// Gives back what a folder above this one keeps. Called by any thread, with no lock held but a connection's.
using SpareFunction = void (*)() noexcept;
// From a static initialiser.
void register_spare(SpareFunction give_back) noexcept;

// The segments of the default homes without a living block, retired ones too, and what was registered.
void give_back_spare() noexcept;

// Whether a limit of the machine or of the process was met, of whose kind something may be kept here. Not an arena's capacity.
bool is_shortage(const Status& status) noexcept;

// Adds to a shortage what this process has and what can be done.
Status describe_shortage(const Status& status);

namespace detail {
inline const Status* status_of(const Status& status) noexcept { return &status; }
template <typename T>
const Status* status_of(const Result<T>& result) noexcept {
  return &result.status();
}
}  // namespace detail

// `attempt` returns a Status or a Result, and leaves nothing behind when it fails. `give_back_more` is called before the second attempt.
// The caller holds no lock whose rank at fork is 3 or more.
template <typename Attempt, typename Function>
auto with_spare(Attempt&& attempt, Function&& give_back_more) -> decltype(attempt()) {
  auto first = attempt();
  if (const Status* why = detail::status_of(first); why->is_ok() || !is_shortage(*why)) return first;
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

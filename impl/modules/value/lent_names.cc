#include "modules/value/lent_names.h"

#include <mutex>

#include "base/process_state.h"

namespace tenon::value {

namespace {

// One mutex guards the names of all objects, because fork knows only the locks of process states.
struct LentNamesState : ProcessState<LockRank::kLentNames> {};

}  // namespace

const char* LentNames::lend(std::string_view name) {
  const std::lock_guard<std::mutex> lock(process_state<LentNamesState>().mutex);
  if (!names_) names_ = std::make_unique<Names>();
  const auto found = names_->find(name);
  return (found != names_->end() ? found : names_->emplace(name).first)->c_str();
}

}  // namespace tenon::value

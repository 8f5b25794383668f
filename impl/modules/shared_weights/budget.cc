#include "modules/shared_weights/budget.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "modules/shared_weights/status.h"
#include "os/lock_file.h"
#include "os/named_file.h"

namespace tenon::shared_weights {
namespace {

constexpr std::string_view kBudgetLeaf = "/.tenon-budget";
constexpr std::string_view kTurnSuffix = ".turn";
constexpr size_t kMostNamed = 3;
// A publisher counts twice for a moment, between its switch and the end of its turn.
constexpr int kBudgetTries = 4;
constexpr useconds_t kBudgetPauseUs = 5000;

struct NameUse {
  std::string name;
  uint64_t nbytes = 0;
};

void add_saturating(uint64_t* sum, uint64_t more) noexcept {
  if (!checked_add(*sum, more, sum)) *sum = UINT64_MAX;
}

uint64_t use_of(const Place& place, const NameStatus& status) {
  const Facts& facts = status.facts;
  const bool has_server = status.state == NameState::kLive || status.state == NameState::kLoading;
  const uint64_t newest = std::max(facts.segment_nbytes, facts.file.nbytes);
  const auto size_of = [&](uint64_t version) {
    const uint64_t noted = noted_nbytes(hold_path(place, version));
    return noted != 0 ? noted : newest;
  };
  uint64_t sum = 0;
  bool has_newest = false;
  for (const VersionStatus& each : status.versions) {
    add_saturating(&sum, size_of(each.version));
    has_newest = has_newest || each.version == facts.version;
  }
  if (has_server && !has_newest) add_saturating(&sum, size_of(facts.version));
  return sum;
}

// The bytes that other publishers have announced.
Result<std::vector<NameUse>> announced(const Place& place, bool publishes) {
  std::vector<NameUse> found;
  TENON_ASSIGN(const os::Fd directory, os::open_directory(place.directory));
  TENON_TRY(os::list_names(directory.get(), [&](const char* leaf) {
    const std::string_view each(leaf);
    if (!each.ends_with(kTurnSuffix)) return true;
    const std::string name(each.substr(0, each.size() - kTurnSuffix.size()));
    const bool is_own = publishes && name == place.name;
    if (!is_own && is_turn_taken(place_in(place.directory, name)))
      found.push_back({name, noted_nbytes(place_in(place.directory, name).turn)});
    return true;
  }));
  return found;
}

Result<std::vector<NameUse>> list_use(const Place& place, bool publishes) {
  TENON_ASSIGN(std::vector<NameUse> all, announced(place, publishes));
  TENON_ASSIGN(const std::vector<NameStatus> names, list_names(place.directory));
  for (const NameStatus& each : names) {
    if (each.name == place.name && !publishes) continue;
    all.push_back({each.name, use_of(place_in(place.directory, each.name), each)});
  }
  std::ranges::sort(all, std::greater(), &NameUse::nbytes);
  return all;
}

Status over_budget(const Place& place, uint64_t wanted, uint64_t in_use, uint64_t budget_nbytes,
                   const std::vector<NameUse>& all) {
  std::string largest;
  for (size_t i = 0; i < std::min(kMostNamed, all.size()) && all[i].nbytes != 0; ++i)
    largest += format("%s\"%s\" with %llu bytes", i == 0 ? ": " : ", ", all[i].name.c_str(),
                      as_llu(all[i].nbytes));
  return Status(
             Code::kResourceExhausted,
             format(
                 "the weights \"%s\" need %llu bytes, the weights in %s have %llu already%s, and "
                 "budget_nbytes allows %llu in all: drop one of them, or raise the budget",
                 place.name.c_str(), as_llu(wanted), place.directory.c_str(), as_llu(in_use),
                 largest.c_str(), as_llu(budget_nbytes)))
      .with("limit", "budget_nbytes")
      .with("limit_value", budget_nbytes)
      .with("wanted", wanted)
      .with("path", place.directory);
}

}  // namespace

BudgetLock::~BudgetLock() {
  if (lock_.is_open()) ::unlink(path_.c_str());
}

Result<BudgetLock> BudgetLock::try_take(const Place& place) {
  BudgetLock taken;
  taken.path_ = place.directory + std::string(kBudgetLeaf);
  TENON_ASSIGN(taken.lock_, try_exclusive(place, taken.path_));
  return taken;
}

Status check_budget(const Place& place, uint64_t wanted, uint64_t budget_nbytes, bool publishes) {
  for (int tries = 1;; ++tries) {
    TENON_ASSIGN(const std::vector<NameUse> all, list_use(place, publishes));
    uint64_t in_use = 0;
    for (const NameUse& each : all) add_saturating(&in_use, each.nbytes);
    if (wanted <= budget_nbytes && in_use <= budget_nbytes - wanted) return Status::ok();
    if (tries == kBudgetTries) return over_budget(place, wanted, in_use, budget_nbytes, all);
    ::usleep(kBudgetPauseUs);
  }
}

}  // namespace tenon::shared_weights

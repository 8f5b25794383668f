#include "modules/script/nearest.h"

#include <algorithm>
#include <array>

namespace tenon::script {
namespace {

// The number of single edits that turn `a` into `b`. An edit inserts, removes or changes a letter,
// or swaps two neighbouring ones. Returns `limit` if the number is `limit` or more.
size_t distance(std::string_view a, std::string_view b, size_t limit) {
  std::array<std::array<size_t, 121>, 3> rows{};
  for (size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    auto& row = rows[i % 3];
    const auto& before = rows[(i + 2) % 3];
    const auto& twice_before = rows[(i + 1) % 3];
    row[0] = i;
    size_t least = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] =
          std::min({before[j] + 1, row[j - 1] + 1, before[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], twice_before[j - 2] + 1);
      least = std::min(least, row[j]);
    }
    if (least >= limit) return limit;
  }
  return std::min(limit, rows[a.size() % 3][b.size()]);
}

}  // namespace

void Nearest::consider(std::string_view candidate) {
  if (candidate == name_ || name_.size() > kMaxNbytes || candidate.size() > kMaxNbytes) return;
  const size_t longer = std::max(name_.size(), candidate.size());
  const size_t shorter = std::min(name_.size(), candidate.size());
  const size_t limit = std::min(best_distance_ + 1, shorter < 4 ? size_t{2} : size_t{3});
  if (longer - shorter >= limit) return;
  const size_t d = distance(name_, candidate, limit);
  if (d >= limit) return;
  // Of equally near names the first in the alphabet wins, because hash tables list their names in
  // another order in every process.
  if (d == best_distance_ && candidate >= best_) return;
  best_distance_ = d;
  best_ = candidate;
}

std::string did_you_mean(std::string_view nearest) {
  return nearest.empty() ? std::string() : "; did you mean " + std::string(nearest) + "?";
}

}  // namespace tenon::script

#include "compile/environment.h"

#include <utility>

namespace tenon::compile {

const Variable* Environment::find(std::string_view name) const {
  const auto found = ids_.find(std::string(name));
  return found != ids_.end() ? &variables_[found->second] : nullptr;
}

void Environment::set(std::string_view name, Variable variable) {
  const auto [found, is_new] = ids_.try_emplace(std::string(name), static_cast<uint32_t>(names_.size()));
  if (is_new) {
    names_.emplace_back(name);
    variables_.emplace_back();
    stamps_.push_back(0);
  }
  change(found->second, std::move(variable));
}

void Environment::change(uint32_t id, Variable after) {
  Variable before = std::exchange(variables_[id], std::move(after));
  if (open_marks_ > 0) undo_.push_back({id, std::move(before)});
}

size_t Environment::begin() {
  ++open_marks_;
  return undo_.size();
}

Environment::Changes Environment::take(size_t mark) {
  ++stamp_;
  Changes changes;
  for (size_t i = undo_.size(); i > mark; --i) {
    Undo& undo = undo_[i - 1];
    if (stamps_[undo.id] != stamp_) {
      stamps_[undo.id] = stamp_;
      changes.push_back({undo.id, variables_[undo.id]});
    }
    variables_[undo.id] = std::move(undo.before);
  }
  undo_.resize(mark);
  --open_marks_;
  return changes;
}

}  // namespace tenon::compile

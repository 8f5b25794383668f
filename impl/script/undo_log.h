// UndoLog: what names stand for while code is walked, where changes since a mark can be taken back.
// Two ways through a function are compared with it. The checker and the compiler each have one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "script/declarations.h"

namespace tenon::script {

template <typename T>
class UndoLog {
 public:
  struct Change {
    uint32_t id = 0;
    T after;
  };
  using Changes = std::vector<Change>;

  // Null: no variable of that name was ever changed. Valid until the next call that is not const.
  const T* find(std::string_view name) const {
    const uint32_t* const id = find_in(ids_, name);
    return id != nullptr ? &variables_[*id] : nullptr;
  }

  // The number of a name. A new name gets a variable that is T().
  uint32_t id_of(std::string_view name) {
    if (const uint32_t* const known = find_in(ids_, name)) return *known;
    const auto id = static_cast<uint32_t>(variables_.size());
    names_.emplace_back(name);
    ids_.emplace(name, id);
    variables_.emplace_back();
    stamps_.push_back(0);
    return id;
  }

  size_t size() const noexcept { return variables_.size(); }
  const std::string& name_of(uint32_t id) const noexcept { return names_[id]; }
  const T& at(uint32_t id) const noexcept { return variables_[id]; }

  void change(uint32_t id, T after) {
    T before = std::exchange(variables_[id], std::move(after));
    if (open_marks_ > 0) undo_.push_back({id, std::move(before)});
  }

  // Marks are opened and taken in the order of brackets.
  size_t begin() {
    ++open_marks_;
    return undo_.size();
  }

  // Takes back what changed since the mark, and returns how the variables stood. Each of them is
  // there once.
  Changes take(size_t mark) {
    ++stamp_;
    Changes changes;
    for (size_t i = undo_.size(); i > mark; --i) {
      Undo& undo = undo_[i - 1];
      if (stamps_[undo.id] != stamp_) {
        stamps_[undo.id] = stamp_;
        changes.push_back({undo.id, std::move(variables_[undo.id])});
      }
      variables_[undo.id] = std::move(undo.before);
    }
    undo_.resize(mark);
    --open_marks_;
    return changes;
  }

 private:
  struct Undo {
    uint32_t id = 0;
    T before;
  };
  NameMap<uint32_t> ids_;
  std::vector<std::string> names_;
  std::vector<T> variables_;
  std::vector<uint32_t> stamps_;  // of a variable: the last take() that met it
  std::vector<Undo> undo_;
  size_t open_marks_ = 0;
  uint32_t stamp_ = 0;
};

}  // namespace tenon::script

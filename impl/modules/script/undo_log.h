// UndoLog: a table of variables by name whose changes since a mark can be undone. It serves to
// compare two paths through a function: walk the first one, undo it, and walk the other. The
// checker (scope.h) and the compiler (compile/environment.h) each have one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "modules/script/declarations.h"

namespace tenon::script {

template <typename T>
class UndoLog {
 public:
  struct Change {
    uint32_t id = 0;
    T after;
  };
  using Changes = std::vector<Change>;

  // Null: there was no variable of that name so far. Valid until the next call that is not const.
  const T* find(std::string_view name) const {
    const uint32_t* const id = find_in(ids_, name);
    return id != nullptr ? &variables_[*id] : nullptr;
  }

  // Returns the number of a name. A new name gets a variable with the value T().
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

  // Opens a mark. Pairs of begin() and take() nest like brackets.
  size_t begin() {
    ++open_marks_;
    return undo_.size();
  }

  // Undoes the changes since the mark. Returns the values of the changed variables from just before
  // the undo, one element for each variable.
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
  std::vector<uint32_t> stamps_;  // for each variable: the stamp_ of the last take() that met it
  std::vector<Undo> undo_;
  size_t open_marks_ = 0;
  uint32_t stamp_ = 0;
};

}  // namespace tenon::script

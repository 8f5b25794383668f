// Environment: what the names of a function stand for while it is compiled. Every block opens a mark, and what changed since then is
// taken back at its end, so that two ways through the function can be compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compile/graph.h"

namespace tenon::compile {

struct Variable {
  GraphValue* value = nullptr;  // null: not set on every way that leads here
  value::TypeRef declared;      // of `x : T = ...`; null: what is assigned first decides
};

class Environment {
 public:
  // Null: the function never sets a variable of that name.
  const Variable* find(std::string_view name) const;
  void set(std::string_view name, Variable variable);

  struct Change {
    uint32_t id = 0;
    Variable after;
  };
  using Changes = std::vector<Change>;

  size_t begin();
  // Takes back what changed since the mark, and returns how the variables stood. Each stands there once.
  Changes take(size_t mark);

  const std::string& name_of(uint32_t id) const noexcept { return names_[id]; }
  const Variable& at(uint32_t id) const noexcept { return variables_[id]; }

 private:
  void change(uint32_t id, Variable after);

  struct Undo {
    uint32_t id = 0;
    Variable before;
  };
  std::unordered_map<std::string, uint32_t> ids_;
  std::vector<std::string> names_;
  std::vector<Variable> variables_;
  std::vector<uint32_t> stamps_;
  std::vector<Undo> undo_;
  size_t open_marks_ = 0;
  uint32_t stamp_ = 0;
};

}  // namespace tenon::compile

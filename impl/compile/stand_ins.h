// Calls for which an older PyTorch has another operator that does the same.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "compile/graph.h"
#include "compile/target.h"

namespace tenon::compile {

struct LoweredCall;

// What an operator of a target takes in one place.
struct LoweredArgument {
  GraphValue* value = nullptr;  // of the call; null: `constant`, or what `made` returns
  value::ValueRef constant;
  std::shared_ptr<LoweredCall> made = nullptr;
};

// A call by a schema of the target.
struct LoweredCall {
  const script::Schema* schema = nullptr;
  std::vector<LoweredArgument> arguments;
  value::TypeRef returns = {};  // of a call that is an argument of another one
};

// `version`: the target's place in SchemaTable::versions(). Nothing: the operator stands for
// itself.
//
// - `pad` came with 1.12. Before, PyTorch's Python code called one operator for each mode.
// - `meshgrid` with `indexing` came with 1.10. "ij" is what it did before.
// - `floor_divide` rounded to zero up to 1.12. `div` with a rounding mode always did what it says.
// - `unflatten` had a fourth argument, `names`, up to 1.10. Where all arguments are loaded, a newer
//   PyTorch would take the wrong three of the four. `view` makes the same shape in all of them.
std::optional<LoweredCall> stand_in(const Node& call, const Target& target, uint8_t version);

}  // namespace tenon::compile

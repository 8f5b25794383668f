// Calls for which an older PyTorch has another operator that does the same.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compile/graph.h"

namespace tenon::compile {

// What an operator of a target takes in one place.
struct LoweredArgument {
  GraphValue* value = nullptr;  // of the call; null: `constant`
  value::ValueRef constant;
};

// A call by a schema of the target.
struct LoweredCall {
  const script::Schema* schema = nullptr;
  std::vector<LoweredArgument> arguments;
};

// `version`: the target's place in SchemaTable::versions(). Nothing: the operator stands for itself.
//
// - `pad` came with 1.12. Before, PyTorch's Python code called one operator for each mode.
// - `meshgrid` with `indexing` came with 1.10. "ij" is what it did before.
// - `floor_divide` rounded to zero up to 1.12. `div` with a rounding mode always did what it says.
std::optional<LoweredCall> stand_in(const Node& call, uint8_t version);

}  // namespace tenon::compile

// Replaces calls for which an older PyTorch has another operator that does the same. lower.cc asks
// for these stand-ins.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "modules/compile/graph.h"
#include "modules/compile/target.h"

namespace tenon::compile {

struct LoweredCall;

// One argument of a call that is made for the target.
struct LoweredArgument {
  // A value of the original call. Null: the argument is `constant`, or the result of `made`.
  GraphValue* value = nullptr;
  value::ValueRef constant;
  std::shared_ptr<LoweredCall> made = nullptr;
};

// A call by a schema of the target.
struct LoweredCall {
  const script::Schema* schema = nullptr;
  std::vector<LoweredArgument> arguments;
  value::TypeRef returns = {};  // the type of the result, if the call is an argument of another one
};

// Returns the call that replaces `call` in the target. `version` is the target's index in
// SchemaTable::versions(). Nothing: the call is not replaced.
//
// - `pad` came with 1.12. Before, PyTorch's Python code called one operator for each mode.
// - `meshgrid` with `indexing` came with 1.10. "ij" is what it did before.
// - `floor_divide` rounded to zero up to 1.12. `div` with a rounding mode always did what it says.
// - `unflatten` had a fourth argument, `names`, up to 1.10. If all arguments are loaded, a newer
//   PyTorch would take the wrong three of the four. `view` makes the same shape in every version.
std::optional<LoweredCall> stand_in(const Node& call, const Target& target, uint8_t version);

}  // namespace tenon::compile

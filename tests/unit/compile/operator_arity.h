// How many values an operator takes and gives, for the verifier of bytecode. The unit tests and the
// fuzz target of the compiler use it: they do not link impl/module, whose find_operator_arity does
// the same.
#pragma once

#include <optional>
#include <string>

#include "bytecode/verify.h"
#include "script/schema_table.h"

namespace tenon::compile::test {

inline std::optional<bytecode::OperatorArity> find_arity(const std::string& name, const std::string& overload) {
  using bytecode::OperatorArity;
  std::optional<OperatorArity> found;
  for (const script::Torch torch : {script::Torch::kOldest, script::Torch::kNewest}) {
    for (const script::Schema* const schema : script::SchemaTable::get().schemas(name, torch)) {
      if (schema->overload != overload) continue;
      OperatorArity arity;
      if (!schema->takes_more) arity.inputs = static_cast<int>(schema->arguments.size());
      if (!schema->returns_more) arity.outputs = static_cast<int>(schema->returns.size());
      if (found && found->inputs != arity.inputs) arity.inputs = OperatorArity::kAny;
      if (found && found->outputs != arity.outputs) arity.outputs = OperatorArity::kAny;
      found = arity;
    }
  }
  return found;
}

}  // namespace tenon::compile::test

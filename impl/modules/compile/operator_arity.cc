#include "modules/compile/operator_arity.h"

#include "modules/script/schema_table.h"

namespace tenon::compile {

using bytecode::OperatorArity;

namespace {

OperatorArity arity_of(const script::Schema& schema) {
  OperatorArity arity;
  if (!schema.takes_more) arity.inputs = static_cast<int>(schema.arguments.size());
  if (!schema.returns_more) arity.outputs = static_cast<int>(schema.returns.size());
  return arity;
}

// Returns the number if both agree on it, and kAny if not.
int agreed(int one, int other) { return one == other ? one : OperatorArity::kAny; }

}  // namespace

std::optional<OperatorArity> find_operator_arity(const std::string& name,
                                                 const std::string& overload) {
  std::optional<OperatorArity> found;
  const script::SchemaTable& table = script::SchemaTable::get();
  // Bytecode is lowered for the lite interpreters of 1.8 to 1.10.
  for (const std::string_view version : {"1.8", "1.9", "1.10", "1.13", "newest"}) {
    const uint8_t column = table.find_version(version).value_or(table.all_versions().last);
    for (const script::Schema* const schema : table.schemas_in(name, column)) {
      if (schema->overload != overload) continue;
      const OperatorArity arity = arity_of(*schema);
      found = found ? OperatorArity{agreed(found->inputs, arity.inputs),
                                    agreed(found->outputs, arity.outputs)}
                    : arity;
    }
  }
  return found;
}

}  // namespace tenon::compile

// Which overload of an operator, or which signature, a call means: the rules of PyTorch's matching,
// with its implicit conversions.
//
// Source of the rules: experiments with PyTorch 1.13 and 2.15, and docs/format/bytecode.md.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "compile/builder.h"
#include "script/schema.h"

namespace tenon::compile {

// What a call gives for one parameter.
struct Given {
  std::string_view keyword;  // empty: by its position
  GraphValue* value = nullptr;
  script::Range range;
};

struct GivenArguments {
  const Given* self = nullptr;  // what stands before the dot; null: nothing
  std::vector<Given> positional;
  std::vector<Given> keywords;
};

// The call as one of the candidates takes it: conversions are in the graph already.
struct Match {
  size_t candidate = 0;
  std::vector<GraphValue*> inputs;
  std::vector<TypeRef> returns;
};

// Tries the candidates in their order: without conversions first, and then with them. With one
// candidate, conversions are allowed at once. The error names `what` and says why each candidate
// does not fit.
Result<Match> match(Builder* builder, std::string_view what,
                    std::span<const script::Schema* const> candidates, const GivenArguments& given);

// Converts a value to a type, where PyTorch does so by itself. Null: it cannot be converted.
GraphValue* convert(Builder* builder, GraphValue* value, const TypeRef& wanted,
                    bool allow_conversions);

// One value from one operator with one argument: "aten::Bool".
Result<GraphValue*> call_unary(Builder* builder, std::string_view name, GraphValue* operand);

// Whether an argument of a schema takes a value of that type as it is. Type variables are bound by
// the first argument that has them.
bool takes_as_it_is(const Classes& classes, const script::SchemaType& formal, const TypeRef& type,
                    Bindings* bindings);

// The overload that PyTorch runs a node by: the first that takes the types of its operands as they
// are. It can be another one than the call meant, when more is known of the operands by now. The
// node's own, if none takes them.
const script::Schema* overload_of(const Classes& classes, script::Torch torch, const Node& node);

// A type of the archive as a schema has it.
script::SchemaType schema_type(const value::Type& type);

}  // namespace tenon::compile

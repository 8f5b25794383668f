// Finds the overload of an operator, or the signature, that a call means. The rules are those of
// PyTorch's matching, with its implicit conversions. The function compiler, the emitter and
// lower.cc call this.
//
// Source of the rules: experiments with PyTorch 1.13 and 2.15, and docs/format/bytecode.md.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "modules/compile/builder.h"
#include "modules/script/schema.h"

namespace tenon::compile {

// One argument of a call.
struct Given {
  std::string_view keyword;  // empty: it is given by position
  GraphValue* value = nullptr;
  script::Range range;
};

struct GivenArguments {
  const Given* self = nullptr;  // the value before the dot; null: there is none
  std::vector<Given> positional;
  std::vector<Given> keywords;
};

// The call as one of the candidates takes it. The nodes of conversions are in the graph already.
struct Match {
  size_t candidate = 0;
  std::vector<GraphValue*> inputs;
  std::vector<TypeRef> returns;
};

// Tries the candidates in their order: without conversions first, and then with them. With one
// candidate, conversions are allowed at once. INVALID_ARGUMENT names `what` and says why each
// candidate does not fit. Then no node is left in the graph.
Result<Match> match(Builder* builder, std::string_view what,
                    std::span<const script::Schema* const> candidates, const GivenArguments& given);

// Converts a value to a type if PyTorch converts it implicitly. If PyTorch has no conversion, the
// result is the value itself or a part of the way to `wanted`, so the caller must check the type of
// the result. Null: a conversion failed. `allow_conversions` is about operators such as
// aten::FloatImplicit. A tuple that fits a list becomes a list in any case.
GraphValue* convert(Builder* builder, GraphValue* value, const TypeRef& wanted,
                    bool allow_conversions);

// Calls an operator with one argument and one result, such as "aten::Bool".
Result<GraphValue*> call_unary(Builder* builder, std::string_view name, GraphValue* operand);

// Whether an argument of a schema takes a value of that type without a conversion. The first
// argument that has a type variable binds it.
bool takes_as_it_is(const Classes& classes, const script::SchemaType& formal, const TypeRef& type,
                    Bindings* bindings);

// The overload that PyTorch runs for a node: the first one that takes the types of its operands
// without a conversion. It can differ from the overload that the call meant, because more may be
// known of the operands by now. If no overload takes the operands, the result is the node's own.
const script::Schema* overload_of(const Classes& classes, script::Torch torch, const Node& node);

// Converts a type of the archive to a type of a schema.
script::SchemaType schema_type(const value::Type& type);

}  // namespace tenon::compile

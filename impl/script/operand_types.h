// Could PyTorch take operands of these types for an operator's arguments? The checker asks this of
// each overload of a call, and refuses the call when the answer is no for all of them.
//
// The rules are those of PyTorch's matching with its implicit conversions, for 1.13 and the newest
// together. An operand whose type nobody knows fits everything, and so does a rule that is not
// written down here: "no" is certain, and "yes" is not.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "script/arguments.h"
#include "script/schema.h"
#include "value/type.h"

namespace tenon::script {

struct OperandType {
  std::string_view keyword;           // empty: given by position
  const value::Type* type = nullptr;  // null: not known
};

// How a call fits one overload.
struct TypeMatch {
  size_t mismatches = 0;  // operands that cannot be what the overload wants
  // Of the first of them.
  size_t operand = 0;                        // its index; SIZE_MAX: the value before the dot
  const SchemaArgument* argument = nullptr;  // what it is given for
  const SchemaType* wanted = nullptr;        // the type of the argument, or of an element of it
};

// The names and the number of arguments of a schema, for accepts().
Formals formals_of(const Schema& schema, bool is_aten);

// `self`: the value before the dot, or null. Call this only for a schema that accepts() takes and
// with no `*x` among the operands.
TypeMatch match_types(const Schema& schema, const OperandType* self,
                      std::span<const OperandType> given, bool is_aten);

// The type of what the operator returns, if it has no type variables. Null: it has, or the operator
// returns something that value::Type does not know.
value::TypeRef result_type(const Schema& schema);

}  // namespace tenon::script

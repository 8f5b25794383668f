// Says whether PyTorch could take operands of some types for an operator's arguments. The checker
// asks this for each overload of a call, and refuses the call if the answer is no for all of them.
//
// The rules are those of PyTorch's matching with its implicit conversions, for 1.13 and the newest
// together. An operand of unknown type fits everything. The rules are not complete: the answer "no"
// is certain, and the answer "yes" is not.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "modules/script/arguments.h"
#include "modules/script/schema.h"
#include "modules/value/type.h"

namespace tenon::script {

struct OperandType {
  std::string_view keyword;           // empty: given by position
  const value::Type* type = nullptr;  // null: not known
};

// How a call fits one overload.
struct TypeMatch {
  size_t mismatches = 0;  // how many operands cannot be what the overload wants
  // The first of these operands.
  size_t operand = 0;                        // its index; SIZE_MAX: the value before the dot
  const SchemaArgument* argument = nullptr;  // the argument for which it is given
  const SchemaType* wanted = nullptr;        // the type of the argument, or of an element of it
};

// The parameters of a schema without their types, for accepts(). The names are views into `schema`.
Formals formals_of(const Schema& schema, bool is_aten);

// Matches the operands of a call with one overload. `self` is the value before the dot, or null.
// Call this only for a schema that accepts() takes and with no `*x` among the operands.
TypeMatch match_types(const Schema& schema, const OperandType* self,
                      std::span<const OperandType> given, bool is_aten);

// The type of the operator's result, or the tuple of its results. Null: nothing is returned, the
// number of results is open, or a result has a type variable or another type than a simple type, a
// class, a list or an Optional of these.
value::TypeRef result_type(const Schema& schema);

}  // namespace tenon::script

// CheckedValue: what an expression or a name stands for, as far as the checker can tell. The
// checker computes one for every expression and keeps one for every variable (scope.h).
#pragma once

#include <cstdint>
#include <string>

#include "modules/script/declarations.h"
#include "modules/script/frontend_names.h"
#include "modules/value/type.h"

namespace tenon::script {

// All pointers and views are borrowed: from the environment, the checker and the schema tables.
struct CheckedValue {
  enum class Kind : uint8_t {
    // A value that exists when the code runs. All other kinds exist only for the compiler. The
    // words behind a kind name the fields of CheckedValue that say more.
    kValue,
    kGlobal,     // global
    kNamespace,  // operators of the namespace `name`: `torch`, `ops.quantized`
    kOperator,   // the operator `name`, such as "aten::relu"
    kQualified,  // the beginning of a qualified name, `name`
    kClass,      // owner, or the custom class `name`
    kNew,        // `__new__` of the class
    kFunction,   // function
    kMethod,     // function, a method of a value whose class is owner
    kClosure,    // a nested function
  };
  Kind kind = Kind::kValue;
  Global global = Global::kNumber;
  // kOperator: the operator was looked up on a value, which is its `self`. If owner is set, the
  // value is an object of that class.
  bool has_self = false;
  // kValue: the value comes from a library that the schema table does not know, so it may be an
  // object of any class.
  bool is_foreign = false;
  // kValue: PyTorch may know the value when it compiles. An `if` of it may then lose a branch.
  bool may_be_constant = false;
  // kValue: code compared the value with None or asked for its type, so PyTorch may know more than
  // `type` from here on.
  bool was_tested = false;
  // kValue: whatever its type, neither the value nor anything in it is a Tensor. kOperator with
  // has_self: this holds for the value before the dot.
  bool holds_no_tensor = false;
  // kOperator with has_self: the value before the dot may be a NamedTuple that an operator
  // returned, and the name a field of it, as in `r.values`. Then this is a value, and no operator.
  bool may_be_result = false;
  // kValue: the number of items, if the value is a tuple whose display stands in the code. -1: not
  // known.
  int32_t tuple_size = -1;
  // kValue: the value's type. Null: not known. kOperator with has_self: the sure_type() of the
  // value before the dot.
  const value::Type* type = nullptr;
  // kValue: the class of which the value is an object. Null: not known, or none.
  const ClassDeclaration* owner = nullptr;
  const FunctionDeclaration* function = nullptr;
  std::string name;  // kValue: the custom class, if the value is an object of one
  // kValue: the result_names() of the operator that returned it. Empty: no such operator is known
  // to have returned it.
  std::string_view result_names;

  bool is_value() const noexcept { return kind == Kind::kValue; }
  // Whether the value may be a Tensor or have one in it, as far as is known.
  bool may_hold_tensor() const noexcept {
    return !holds_no_tensor && (type == nullptr || type->may_hold_tensor());
  }
  static CheckedValue of(Kind kind, std::string name = {}) {
    CheckedValue meaning;
    meaning.kind = kind;
    meaning.name = std::move(name);
    return meaning;
  }
};

// What a name stands for where two paths meet that gave it the meanings `a` and `b`.
CheckedValue common(const CheckedValue& a, const CheckedValue& b);

// The type of a value, if PyTorch certainly has the same type for it. Null: the type is not known,
// or the value was tested, so that PyTorch may know more than the declared type.
const value::Type* sure_type(const CheckedValue& meaning) noexcept;

// Describes a checked value for error messages: "a Tensor", "an object of __torch__.M", "a value".
std::string describe(const CheckedValue& meaning);

}  // namespace tenon::script

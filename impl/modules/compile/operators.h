// Says which operator of PyTorch an operator of the language means, such as "aten::add" for `+`.
#pragma once

#include <string_view>

#include "modules/script/ast.h"

namespace tenon::compile {

// The operator for an expression: "aten::add" for `+`. For `in` and `not in` it is
// "aten::__contains__", whose first operand is the container. Empty: there is none.
std::string_view operator_name(script::Operator op) noexcept;
// The operator for an augmented assignment. It is operator_name(), but for `a %= b`: that is
// "aten::fmod" and rounds to zero, unlike `a % b`.
std::string_view augmented_name(script::Operator op) noexcept;
// The operator for an augmented assignment to a tensor that works in place: "aten::add_" for `+=`.
// Empty: the assignment makes a new tensor.
std::string_view in_place_name(script::Operator op) noexcept;

}  // namespace tenon::compile

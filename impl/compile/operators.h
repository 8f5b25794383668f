// Which operator of PyTorch an operator of the language means.
#pragma once

#include <string_view>

#include "script/ast.h"

namespace tenon::compile {

// "aten::add" of `+`. Of `in` and `not in` it is "aten::__contains__", whose first operand is the
// container. Empty: there is none.
std::string_view operator_name(script::Operator op) noexcept;
// The same of an assignment such as `a %= b`, which is "aten::fmod" and rounds to zero, other than
// `a % b`.
std::string_view augmented_name(script::Operator op) noexcept;
// Of such an assignment to a tensor that changes the tensor itself: "aten::add_" of `+=`. Empty: it
// makes a new tensor.
std::string_view in_place_name(script::Operator op) noexcept;

}  // namespace tenon::compile

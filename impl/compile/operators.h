// Which operator of PyTorch an operator of the language means.
#pragma once

#include <string_view>

#include "script/ast.h"

namespace tenon::compile {

// "aten::add" of `+`. Of `in` and `not in` it is "aten::__contains__", whose first operand is the container. Empty: there is none.
std::string_view operator_name(script::Operator op) noexcept;

}  // namespace tenon::compile

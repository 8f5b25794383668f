// Says how many values an operator takes and gives, for the verifier of bytecode.
#pragma once

#include <optional>
#include <string>

#include "modules/bytecode/verify.h"

namespace tenon::compile {

// Returns the arity of an operator, such as that of "aten::add" and overload "Tensor". The versions
// 1.8, 1.9, 1.10, 1.13 and the newest one are asked. A number on which they differ is
// OperatorArity::kAny. Nothing: none of them has the operator.
std::optional<bytecode::OperatorArity> find_operator_arity(const std::string& name,
                                                           const std::string& overload);

}  // namespace tenon::compile

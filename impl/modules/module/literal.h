// Converts values to literals of source text and back, for constants of classes and members of
// enums.
#pragma once

#include <optional>
#include <string>

#include "modules/script/ast.h"
#include "modules/value/type.h"
#include "modules/value/value.h"

namespace tenon::module {

// Gives the text as PyTorch prints such a constant. Gives nothing for a value that has no literal
// which PyTorch's importer reads: tensors, objects, devices, complex numbers, text beyond ASCII and
// a few others. Such a value goes into constants.pkl.
std::optional<std::string> literal_text(const value::Value& value);

// Null if the expression is not a literal.
value::ValueRef literal_value(const script::Expr& expr);

}  // namespace tenon::module

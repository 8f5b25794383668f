// Values as literals of source text, and back: constants of classes, members of enums.
#pragma once

#include <optional>
#include <string>

#include "script/ast.h"
#include "value/type.h"
#include "value/value.h"

namespace tenon::module {

// As PyTorch prints a constant of that type. Nothing for what has no literal that its importer
// reads, which then goes into constants.pkl: tensors, objects, devices, complex numbers, text
// beyond ASCII.
std::optional<std::string> literal_text(const value::Value& value);

// Null for what is no literal.
value::ValueRef literal_value(const script::Expr& expr);

}  // namespace tenon::module

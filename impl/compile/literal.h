// Literals of source as values: defaults of parameters and constants of classes.
#pragma once

#include <span>

#include "base/status.h"
#include "script/ast.h"
#include "script/source.h"
#include "value/type.h"
#include "value/value.h"

namespace tenon::compile {

// A number, text, True, False, None, inf, nan, torch.device("cpu"), CONSTANTS.cN, or a list, tuple
// or dict of these. Errors stand at the literal, in the source that it is from. `hint` is the
// declared type; null: there is none.
Result<value::ValueRef> literal_value(const script::Source& source, const script::Expr& expr,
                                      std::span<const value::ValueRef> constants,
                                      const value::TypeRef& hint);

// "c12" of CONSTANTS.c12 is 12. SIZE_MAX: it is no name of a constant.
size_t constant_index(std::string_view name) noexcept;

}  // namespace tenon::compile

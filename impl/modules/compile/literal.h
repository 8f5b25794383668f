// Evaluates literals in source: the defaults of parameters and the constants of classes.
#pragma once

#include <span>

#include "base/status.h"
#include "modules/script/ast.h"
#include "modules/script/source.h"
#include "modules/value/type.h"
#include "modules/value/value.h"

namespace tenon::compile {

// Returns the value of a literal: a number, text, True, False, None, inf, -inf, nan,
// torch.device("cpu"), CONSTANTS.cN, annotate(T, literal), or a list, tuple or dict of these.
// CONSTANTS.cN is constants[N]. INVALID_ARGUMENT for anything else. The error names the place in
// `source`. `hint` is the declared type. Null: there is none.
Result<value::ValueRef> literal_value(const script::Source& source, const script::Expr& expr,
                                      std::span<const value::ValueRef> constants,
                                      const value::TypeRef& hint);

// Returns 12 for "c12", the name in CONSTANTS.c12. SIZE_MAX: the name is none of a constant.
size_t constant_index(std::string_view name) noexcept;

}  // namespace tenon::compile

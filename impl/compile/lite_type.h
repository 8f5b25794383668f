// Types as the lite interpreter of PyTorch reads them.
#pragma once

#include <string>

#include "base/status.h"
#include "compile/classes.h"
#include "compile/target.h"
#include "value/type.h"

namespace tenon::compile {

// A type in a function's table of types. UNSUPPORTED: the interpreter has no such type. RESOURCE_EXHAUSTED: it is nested too deep.
// For a target of a lower version a NamedTuple is the tuple of its fields, because PyTorch reads NamedTuples from version 8 on.
Result<std::string> lite_type(const Classes& classes, const value::Type& type, const Target& target);

// A type in a function's schema. It stands there for readers. PyTorch's loader reads it all the same, and it dies of a Union, of a
// NamedTuple that an argument is, and of one within another type. Tuples and Any mean the same to it.
std::string schema_type_text(const Classes& classes, const value::Type& type, bool is_argument, const Target& target);

}  // namespace tenon::compile

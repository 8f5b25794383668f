// Types as the lite interpreter of PyTorch reads them.
#pragma once

#include <string>

#include "base/status.h"
#include "compile/classes.h"
#include "compile/target.h"
#include "value/type.h"

namespace tenon::compile {

// Whether values of the type are NamedTuples in bytecode. False for all other types, for a target
// without NamedTuples, and for those of PyTorch's own package, such as PackedSequence: its loader
// takes a name below __torch__.torch for a class of C++ code.
bool keeps_named_tuple(const Classes& classes, const value::Type& type, const Target& target);

// Whether the type is, or has in it, a NamedTuple that is not kept.
bool holds_plain_named_tuple(const Classes& classes, const value::Type& type, const Target& target);

// A type in a function's table of types. UNSUPPORTED: the interpreter has no such type.
// RESOURCE_EXHAUSTED: it is nested too deep. A NamedTuple that is not kept is the tuple of its
// fields.
Result<std::string> lite_type(const Classes& classes, const value::Type& type,
                              const Target& target);

// A type in a function's schema. It stands there for readers. PyTorch's loader reads it all the
// same, and it dies of a Union, of a NamedTuple that an argument is, of one within another type,
// and of an empty tuple. Tuples and Any mean the same to it.
std::string schema_type_text(const Classes& classes, const value::Type& type, bool is_argument,
                             const Target& target);

}  // namespace tenon::compile

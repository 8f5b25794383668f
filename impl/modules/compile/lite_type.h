// Writes types as texts that PyTorch's lite interpreter reads. The emitter calls this.
#pragma once

#include <string>

#include "base/status.h"
#include "modules/compile/classes.h"
#include "modules/compile/target.h"
#include "modules/value/type.h"

namespace tenon::compile {

// Whether the type is a NamedTuple and stays one in bytecode. False for a target without
// NamedTuples, and for NamedTuples of PyTorch's own package, such as PackedSequence, because
// PyTorch's loader takes a name below __torch__.torch for a class of C++ code.
bool keeps_named_tuple(const Classes& classes, const value::Type& type, const Target& target);

// Whether the type is or contains a NamedTuple that becomes a plain tuple in bytecode.
bool holds_plain_named_tuple(const Classes& classes, const value::Type& type, const Target& target);

// Returns the text of a type for a function's table of types. A NamedTuple that does not stay one
// is written as the tuple of its fields. UNSUPPORTED: the interpreter has no such type.
// RESOURCE_EXHAUSTED: the type is nested too deep.
Result<std::string> lite_type(const Classes& classes, const value::Type& type,
                              const Target& target);

// Returns the text of a type for a function's schema. The interpreter does not need these types,
// but PyTorch's loader reads them. It dies of a Union, of an argument that is a NamedTuple, of a
// NamedTuple within another type, and of an empty tuple. So this function writes Any or a Tuple in
// their place, which mean the same to the loader.
std::string schema_type_text(const Classes& classes, const value::Type& type, bool is_argument,
                             const Target& target);

}  // namespace tenon::compile

// Reads the header of a function: the names, types and defaults of its parameters, and the type of
// its result. The compiler and impl/modules/module call signature().
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "modules/script/ast.h"
#include "modules/script/source.h"
#include "modules/value/type.h"

namespace tenon::script {

// Returns the type that an annotation names: `Tensor`, `List[int]`, `int | None`, `__torch__.a.B`.
// Errors name the place of the annotation. CORRUPT: it is no type. RESOURCE_EXHAUSTED: it is too
// long.
Result<value::TypeRef> annotation_type(const Source& source, const Expr& annotation);

// `default_value` leads into the tree of the function, so its File must outlive the parameter.
struct Parameter {
  std::string name;
  // Null: the code names no type. PyTorch then takes Tensor, and the class for the first parameter
  // of a method.
  value::TypeRef type;
  const Expr* default_value = nullptr;  // null: required
  bool keyword_only = false;
};

struct Signature {
  std::vector<Parameter> parameters;
  value::TypeRef returns;  // null: PyTorch infers it
};

// Reads the header of `function`. If `is_method`, the first parameter is the receiver, which has no
// type in a type comment. The errors are those of annotation_type().
Result<Signature> signature(const Source& source, const Function& function, bool is_method);

}  // namespace tenon::script

// What a function's header says: names, types and defaults of its parameters, and what it returns.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "script/ast.h"
#include "script/source.h"
#include "value/type.h"

namespace tenon::script {

// The type that an annotation means: `Tensor`, `List[int]`, `int | None`, `__torch__.a.B`. An error
// stands at the annotation.
Result<value::TypeRef> annotation_type(const Source& source, const Expr& annotation);

struct Parameter {
  std::string name;
  // Null: nothing was said, which PyTorch takes for Tensor (and for the class, where it is a
  // method's first).
  value::TypeRef type;
  const Expr* default_value = nullptr;  // null: required
  bool keyword_only = false;
};

struct Signature {
  std::vector<Parameter> parameters;
  value::TypeRef returns;  // null: PyTorch infers it
};

// `is_method`: the first parameter is the receiver, of which a type comment says nothing.
Result<Signature> signature(const Source& source, const Function& function, bool is_method);

}  // namespace tenon::script

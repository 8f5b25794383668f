// Compares the arguments that a call gives with the parameters that a function or operator has: by
// number and by keyword, never by type. The checker and SchemaTable use this; operand_types.h
// compares types.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "modules/script/ast.h"

namespace tenon::script {

// One parameter of a function or operator.
struct Formal {
  std::string_view name;
  bool has_default = false;
  bool keyword_only = false;
  // The parameter is a list. If it is the last parameter that can be given by position, it may take
  // all positional arguments that are left, as in `torch.zeros(2, 3)`.
  bool takes_rest = false;
};

struct Formals {
  std::vector<Formal> list;
  bool any_more = false;  // it takes any number of further positional arguments
  bool is_aten = false;   // the keyword `input` stands for `self`
  // Parses a text of the schema table, such as "self,other[,*,alpha=" or one with types. The names
  // are views into `text`.
  static Formals parse(std::string_view text);
};

// The arguments that a call gives. The keywords are views into the source of the call.
struct CallShape {
  // The call has a value before the dot, which is the argument for the parameter named `self`.
  bool has_self = false;
  size_t positional = 0;
  // The call has an argument `*x`, so `positional` is only the least number of positional
  // arguments.
  bool open = false;
  std::vector<std::string_view> keywords;
};
// `skip` is the number of leading positional arguments that are not counted.
CallShape call_shape(const Expr& call, size_t skip = 0);

// Whether PyTorch's matching could take a call of this shape if all types fit.
bool accepts(const Formals& formals, const CallShape& shape);

// Describes the arguments for an error message: "2 positional arguments and dim=".
std::string describe(const CallShape& shape);

}  // namespace tenon::script

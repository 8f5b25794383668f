// Which arguments something that can be called takes, and which a call gives: number and keywords,
// never types.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "script/ast.h"

namespace tenon::script {

struct Formal {
  std::string_view name;
  bool has_default = false;
  bool keyword_only = false;
  // A list: if it is the last that can be given by position, it may take all that is left, as in
  // `torch.zeros(2, 3)`.
  bool takes_rest = false;
};

struct Formals {
  std::vector<Formal> list;
  bool any_more = false;  // any number of further positional arguments
  bool is_aten = false;   // the keyword `input` stands for `self`
  // From the text of the schema table, "self,other[,*,alpha=" or with types. The names are views
  // into it.
  static Formals parse(std::string_view text);
};

// What a call gives.
struct CallShape {
  // The value before the dot of a method, for the parameter named `self`.
  bool has_self = false;
  size_t positional = 0;
  // `*x` is among them, so they are at least as many as `positional` says.
  bool open = false;
  std::vector<std::string_view> keywords;
};
// `skip`: leading positional arguments that are not counted.
CallShape call_shape(const Expr& call, size_t skip = 0);

// Whether PyTorch's matching could take this call, whatever the types.
bool accepts(const Formals& formals, const CallShape& shape);

// "2 positional arguments and dim=".
std::string describe(const CallShape& shape);

}  // namespace tenon::script

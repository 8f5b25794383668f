// Computes operators whose operands are known: numbers, texts, bools and None. The passes call this
// to fold constants.
#pragma once

#include "modules/compile/graph.h"

namespace tenon::compile {

// Computes the result of `node` for `operands`. Null: this operator is not computed here, or it
// fails for these operands, and the program must see that failure when it runs.
value::ValueRef evaluate(const Node& node, const std::vector<value::ValueRef>& operands);

// Whether PyTorch takes two constants for the same: they have one kind and are equal. Objects and
// tensors are the same only if they are identical.
bool equal_constants(const value::Value& a, const value::Value& b);

}  // namespace tenon::compile

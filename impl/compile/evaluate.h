// What an operator gives for operands that are known: numbers, texts, bools and None.
#pragma once

#include "compile/graph.h"

namespace tenon::compile {

// `operands` are those of the node, all known. Null: this operator is not computed here, or it
// fails for these operands, which the program shall see when it runs.
value::ValueRef evaluate(const Node& node, const std::vector<value::ValueRef>& operands);

// Whether two constants are the same to PyTorch: of one kind, and equal. Objects and tensors are
// the same only if they are one.
bool equal_constants(const value::Value& a, const value::Value& b);

}  // namespace tenon::compile

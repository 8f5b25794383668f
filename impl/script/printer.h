// From tree to text, laid out as PyTorch prints code: two spaces per level, a method's parameters
// in lines of their own, parentheses around every operand that is more than one word. What is
// parsed from the result is equal to the tree.
#pragma once

#include <string>

#include "script/ast.h"

namespace tenon::script {

// Source texts of a tree's pieces. `level` is the number of indents before each line; every
// statement ends with a line end.
std::string print(const Expr& expr);
std::string print(const Stmt& stmt, unsigned level = 0);
std::string print(const Function& function, unsigned level = 0);
std::string print(const Class& class_def);
std::string print(const Item& item);

// As the source text of a literal, quotes included, in ASCII.
std::string quoted(std::string_view text);

}  // namespace tenon::script

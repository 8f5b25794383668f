// Prints a tree as source text in the layout that PyTorch uses: two spaces for each level, a line
// for each parameter of a function but the first, and parentheses around every operand of more than
// one word. Parsing the text gives a tree that is equal to the printed one.
#pragma once

#include <string>

#include "modules/script/ast.h"

namespace tenon::script {

// Return the source text of a part of a tree. `level` is the number of indents before each line.
// Every statement ends with a line end.
std::string print(const Expr& expr);
std::string print(const Stmt& stmt, unsigned level = 0);
std::string print(const Function& function, unsigned level = 0);
std::string print(const Class& class_def);
std::string print(const Item& item);

// Returns the source text of a string literal that stands for `text`, with its quotes, in ASCII.
std::string quoted(std::string_view text);

}  // namespace tenon::script

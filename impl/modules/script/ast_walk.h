// Visits every statement and expression of a function, with nested ones and the defaults of its
// parameters. The walk recurses as deep as the tree, which the parser limits.
#pragma once

#include <functional>

#include "modules/script/ast.h"

namespace tenon::script {

struct AstVisitor {
  std::function<void(const Expr&)> expression;
  std::function<void(const Stmt&)> statement;
};

// Visits parents before their children. Either function of the visitor may be empty.
void walk(const Function& function, const AstVisitor& visitor);

}  // namespace tenon::script

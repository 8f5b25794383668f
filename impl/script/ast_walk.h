// Every statement and expression of a function, nested ones and defaults included. As deep as the
// parser lets a tree be.
#pragma once

#include <functional>

#include "script/ast.h"

namespace tenon::script {

struct AstVisitor {
  std::function<void(const Expr&)> expression;
  std::function<void(const Stmt&)> statement;
};

// Parents first. Either may be empty.
void walk(const Function& function, const AstVisitor& visitor);

}  // namespace tenon::script

// Every statement and expression of a function, nested ones and defaults included. As deep as the parser lets a tree be.
#pragma once

#include <functional>

#include "script/ast.h"

namespace tenon::module {

struct AstVisitor {
  std::function<void(const script::Expr&)> expression;
  std::function<void(const script::Stmt&)> statement;
};

// Parents first. Either may be empty.
void walk(const script::Function& function, const AstVisitor& visitor);

}  // namespace tenon::module

#include "modules/script/ast_walk.h"

namespace tenon::script {

namespace {

void walk(const Expr* expr, const AstVisitor& visitor) {
  if (expr == nullptr) return;
  if (visitor.expression) visitor.expression(*expr);
  for (const Expr* child : expr->children) walk(child, visitor);
  for (const Keyword& keyword : expr->keywords) walk(keyword.value, visitor);
}

void walk(const Stmt& statement, const AstVisitor& visitor) {
  if (visitor.statement) visitor.statement(statement);
  for (const Expr* target : statement.targets) walk(target, visitor);
  for (const Expr* iterable : statement.iterables) walk(iterable, visitor);
  walk(statement.value, visitor);
  walk(statement.message, visitor);
  for (const WithItem& item : statement.with_items) walk(item.value, visitor);
  for (const Stmt* inner : statement.body) walk(*inner, visitor);
  for (const Stmt* inner : statement.else_body) walk(*inner, visitor);
  if (statement.function != nullptr) walk(*statement.function, visitor);
}

}  // namespace

void walk(const Function& function, const AstVisitor& visitor) {
  for (const Param& param : function.params) walk(param.default_value, visitor);
  for (const Stmt* statement : function.body) walk(*statement, visitor);
}

}  // namespace tenon::script

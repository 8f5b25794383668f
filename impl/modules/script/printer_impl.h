// Printer: the implementation behind printer.h.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "modules/script/ast.h"

namespace tenon::script {

class Printer {
 public:
  // Appends an expression to `out` (printer.cc).
  void expr(const Expr& expr);
  // Append statements, with the indent before each line and a line end after it
  // (printer_statements.cc).
  void stmt(const Stmt& stmt, unsigned level);
  void function(const Function& function, unsigned level);
  void class_def(const Class& class_def);

  std::string out;

 private:
  // Appends an operand. It gets parentheses if it is more than one word, or if its text begins with
  // `not_after`.
  void operand(const Expr& expr, std::string_view not_after = {});
  // Appends the expression before a dot or a bracket.
  void base(const Expr& expr);
  void list(ExprList items);
  void call(const Expr& expr);
  void comprehension(const Expr& target, const Expr& iterable);

  void begin(unsigned level) { out.append(size_t{2} * level, ' '); }
  void block(StmtList body, unsigned level);
  void simple_stmt(const Stmt& stmt);
  void assign(const Stmt& stmt);
  void target_list(ExprList targets);
  void if_stmt(const Stmt& stmt, unsigned level);
  void params(const Function& function);
};

}  // namespace tenon::script

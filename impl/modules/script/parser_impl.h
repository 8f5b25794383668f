// Parser: the implementation behind parser.h. A function that fails sets status_ and returns null
// or false. The parser throws nothing but std::bad_alloc, and it reports the first mistake only.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "modules/script/lexer.h"
#include "modules/script/parser.h"

namespace tenon::script {

// How an error names a token of that kind: "')'", "the end of the line".
std::string token_name(TokenKind kind);

class Parser {
 public:
  static Result<std::shared_ptr<const File>> file(Source source, const ParseLimits& limits);
  static Result<std::shared_ptr<const ParsedExpr>> expression(Source source,
                                                              const ParseLimits& limits);

 private:
  Parser(const Source& source, NodeMemory& nodes, const ParseLimits& limits);

  // Tokens (parser.cc).
  TokenKind kind() const noexcept { return current_.kind; }
  void advance();
  bool accept(TokenKind kind);
  bool expect(TokenKind kind);
  TokenKind following();
  std::string_view text(const Token& token) const { return source_.text(token.range); }

  // Errors. fail() and its like return null, so that a caller can return their result.
  std::nullptr_t fail(Code code, Range range, const std::string& what);
  std::nullptr_t expected(std::string_view what);  // parser_refusals.cc
  bool refused_for_words();
  bool refused_for_token();
  std::nullptr_t too_deep(Range range);
  bool enough_memory(Range range);

  // Expressions (parser_expressions.cc, parser_atoms.cc). expr() takes an operator only if it binds
  // tighter than `level`. `begin` is the offset at which the left operand begins, with the
  // parentheses around it.
  const Expr* expr(int level = 0);
  const Expr* expr_or_tuple();
  const Expr* prefixed();
  const Expr* unary(Operator op, int level);
  const Expr* postfixed();
  const Expr* atom();
  const Expr* parenthesised();
  const Expr* list();
  const Expr* dict();
  const Expr* strings();
  const Expr* call(uint32_t begin, const Expr* callee);
  const Expr* subscript(uint32_t begin, const Expr* value);
  const Expr* index();
  const Expr* conditional(uint32_t begin, const Expr* value, Range at);
  const Expr* comprehension(uint32_t begin, const Expr* element, Range at);
  bool expr_list(TokenKind end, std::vector<const Expr*>& items, int level = 0);

  // Make nodes. Null if the node would be higher than the limit, or if memory runs out.
  const Expr* leaf(ExprKind kind, Range range, std::string_view text = {});
  const Expr* node(ExprKind kind, Range range, const std::vector<const Expr*>& children,
                   Operator op = Operator::kNothing, Range text_range = {},
                   std::string_view text = {}, const std::vector<Keyword>& keywords = {});

  // Statements (parser_statements.cc).
  const Stmt* statement(bool in_class = false);
  const Stmt* statement_of_kind(bool in_class);
  const Stmt* simple(StmtKind kind);
  const Stmt* expression_statement();
  const Stmt* assignment(Stmt* made, const Expr* first);
  const Stmt* return_statement();
  const Stmt* raise_statement();
  const Stmt* assert_statement();
  const Stmt* names_statement(StmtKind kind);
  const Stmt* if_statement();
  const Stmt* while_statement();
  const Stmt* for_statement();
  const Stmt* with_statement();
  const Stmt* definition(bool in_class);
  Stmt* begin_stmt(StmtKind kind);
  const Stmt* finish(Stmt* made);
  const Stmt* finish_line(Stmt* made);
  bool block(StmtList& body, bool in_class = false);
  bool statements(StmtList& body, bool in_class);

  // Functions, classes, items (parser_definitions.cc).
  const Function* function(bool is_method);
  bool params(std::vector<Param>& params);
  bool param(Param& made);
  const TypeComment* type_comment(const Function& function, bool is_method);
  const Class* class_definition();
  bool items(std::vector<Item>& items, Range& tail);
  bool item(Item& made, bool is_first);
  bool version(Item& made);
  bool import(Item& made);

  // How many levels of recursion one level of the tree may take. The printer can put parentheses
  // around every node, and a tree within the limit must still parse after it was printed.
  static constexpr unsigned kDepthPerNode = 2;
  // The target of a loop or a comprehension takes only operators that bind tighter than this level.
  // Otherwise the `in` after it would be taken for an operator.
  static constexpr int kTargetLevel = 4;

  const Source& source_;
  NodeMemory& nodes_;
  ParseLimits limits_;
  Lexer lexer_;
  Token current_;
  Token ahead_;
  bool has_ahead_ = false;
  // The end of the last token that was no kNewline, kIndent or kDedent.
  uint32_t last_end_ = 0;
  // The offset just after the line feed that ended the last statement's line.
  uint32_t line_end_ = 0;
  unsigned depth_ = 0;
  Status status_;
};

}  // namespace tenon::script

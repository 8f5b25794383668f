// The part of Parser that reads statements. A block is indented and stands below its header. Only a
// function may have a single statement on the line of its header.
#include <algorithm>

#include "modules/script/parser_impl.h"

namespace tenon::script {
namespace {

Operator augmented(TokenKind kind) noexcept {
  switch (kind) {
    case TokenKind::kPlusAssign: return Operator::kAdd;
    case TokenKind::kMinusAssign: return Operator::kSub;
    case TokenKind::kStarAssign: return Operator::kMul;
    case TokenKind::kSlashAssign: return Operator::kDiv;
    case TokenKind::kPercentAssign: return Operator::kMod;
    case TokenKind::kAmpersandAssign: return Operator::kBitAnd;
    case TokenKind::kBarAssign: return Operator::kBitOr;
    case TokenKind::kCaretAssign: return Operator::kBitXor;
    case TokenKind::kLeftShiftAssign: return Operator::kLeftShift;
    case TokenKind::kRightShiftAssign: return Operator::kRightShift;
    case TokenKind::kStarStarAssign: return Operator::kPow;
    default: return Operator::kNothing;
  }
}

unsigned height_of(StmtList body) noexcept {
  unsigned height = 0;
  for (const Stmt* stmt : body) height = std::max<unsigned>(height, stmt->height);
  return height;
}

}  // namespace

Stmt* Parser::begin_stmt(StmtKind kind) {
  if (!enough_memory(current_.range)) return nullptr;
  Stmt* const made = nodes_.make<Stmt>();
  made->kind = kind;
  made->range.begin = current_.range.begin;
  return made;
}

const Stmt* Parser::finish(Stmt* made) {
  made->range.end = last_end_;
  unsigned height = std::max(height_of(made->body), height_of(made->else_body));
  if (made->function != nullptr) height = std::max(height, height_of(made->function->body));
  if (height >= limits_.max_depth) return too_deep({made->range.begin, made->range.begin + 1});
  made->height = static_cast<uint16_t>(height + 1);
  return made;
}

// Finishes a statement that has a line of its own.
const Stmt* Parser::finish_line(Stmt* made) {
  const Stmt* const finished = finish(made);
  return finished != nullptr && expect(TokenKind::kNewline) ? finished : nullptr;
}

const Stmt* Parser::statement(bool in_class) {
  if (depth_ >= kDepthPerNode * limits_.max_depth) return too_deep(current_.range);
  ++depth_;
  const Stmt* const made = statement_of_kind(in_class);
  --depth_;
  return made;
}

const Stmt* Parser::statement_of_kind(bool in_class) {
  switch (kind()) {
    case TokenKind::kIf: return if_statement();
    case TokenKind::kWhile: return while_statement();
    case TokenKind::kFor: return for_statement();
    case TokenKind::kWith: return with_statement();
    case TokenKind::kDef: return definition(in_class);
    case TokenKind::kReturn: return return_statement();
    case TokenKind::kRaise: return raise_statement();
    case TokenKind::kAssert: return assert_statement();
    case TokenKind::kDel: return names_statement(StmtKind::kDelete);
    case TokenKind::kGlobal: return names_statement(StmtKind::kGlobal);
    case TokenKind::kBreak: return simple(StmtKind::kBreak);
    case TokenKind::kContinue: return simple(StmtKind::kContinue);
    case TokenKind::kPass: return simple(StmtKind::kPass);
    case TokenKind::kElse:
      return fail(Code::kCorrupt, current_.range,
                  "no if above is waiting for an else (a loop has none)");
    case TokenKind::kElif:
      return fail(Code::kCorrupt, current_.range, "no if above is waiting for an elif");
    case TokenKind::kIndent:
      return fail(Code::kCorrupt, current_.range,
                  "this line is indented deeper than the block it is in");
    default: return expression_statement();
  }
}

const Stmt* Parser::simple(StmtKind kind) {
  Stmt* const made = begin_stmt(kind);
  if (made == nullptr) return nullptr;
  advance();
  return finish_line(made);
}

const Stmt* Parser::expression_statement() {
  Stmt* const made = begin_stmt(StmtKind::kExpr);
  if (made == nullptr) return nullptr;
  const Expr* const first = expr_or_tuple();
  if (first == nullptr) return nullptr;
  if (kind() != TokenKind::kNewline) return assignment(made, first);
  made->value = first;
  return finish_line(made);
}

const Stmt* Parser::assignment(Stmt* made, const Expr* first) {
  made->kind = StmtKind::kAssign;
  if (accept(TokenKind::kColon)) {
    made->annotation = expr();
    if (made->annotation == nullptr) return nullptr;
  }
  std::vector<const Expr*> targets = {first};
  if (const Operator op = augmented(kind()); op != Operator::kNothing) {
    if (first->kind == ExprKind::kTuple)
      return fail(Code::kCorrupt, first->range, "only one thing can be changed in place");
    made->kind = StmtKind::kAugAssign;
    made->op = op;
    advance();
    made->value = expr_or_tuple();
    if (made->value == nullptr) return nullptr;
  } else if (kind() == TokenKind::kAssign) {
    while (accept(TokenKind::kAssign)) {
      if (made->value != nullptr) targets.push_back(made->value);
      made->value = expr_or_tuple();
      if (made->value == nullptr) return nullptr;
    }
    if (made->annotation != nullptr && targets.size() > 1) {
      return fail(Code::kCorrupt, made->annotation->range,
                  "with several '=' there is no annotation");
    }
  } else if (made->annotation == nullptr) {
    return expected("the end of the line");
  }
  made->targets = nodes_.copy(targets);
  return finish_line(made);
}

const Stmt* Parser::return_statement() {
  Stmt* const made = begin_stmt(StmtKind::kReturn);
  if (made == nullptr) return nullptr;
  advance();
  if (kind() != TokenKind::kNewline && (made->value = expr_or_tuple()) == nullptr) return nullptr;
  return finish_line(made);
}

const Stmt* Parser::raise_statement() {
  Stmt* const made = begin_stmt(StmtKind::kRaise);
  if (made == nullptr) return nullptr;
  advance();
  if (kind() == TokenKind::kNewline)
    return fail(Code::kUnsupported, current_.range,
                "raise needs something to raise: nothing can be caught");
  if ((made->value = expr()) == nullptr) return nullptr;
  return finish_line(made);
}

const Stmt* Parser::assert_statement() {
  Stmt* const made = begin_stmt(StmtKind::kAssert);
  if (made == nullptr) return nullptr;
  advance();
  if ((made->value = expr()) == nullptr) return nullptr;
  if (accept(TokenKind::kComma) && (made->message = expr()) == nullptr) return nullptr;
  return finish_line(made);
}

// Reads `del a, b` and `global a, b`.
const Stmt* Parser::names_statement(StmtKind kind_of_statement) {
  Stmt* const made = begin_stmt(kind_of_statement);
  if (made == nullptr) return nullptr;
  advance();
  std::vector<const Expr*> targets;
  do {
    if (kind_of_statement == StmtKind::kGlobal && kind() != TokenKind::kName)
      return expected("a name");
    targets.push_back(kind_of_statement == StmtKind::kGlobal ? atom() : expr());
    if (targets.back() == nullptr) return nullptr;
  } while (accept(TokenKind::kComma));
  made->targets = nodes_.copy(targets);
  return finish_line(made);
}

const Stmt* Parser::if_statement() {
  // An `elif` is an `if` inside the one before. This is a loop, so that a long chain needs no
  // stack. The chain still counts as height.
  std::vector<Stmt*> chain;
  do {
    Stmt* const made = begin_stmt(StmtKind::kIf);
    if (made == nullptr) return nullptr;
    made->is_elif = !chain.empty();
    chain.push_back(made);
    if (chain.size() > limits_.max_depth) return too_deep(current_.range);
    advance();
    if ((made->value = expr()) == nullptr || !block(made->body)) return nullptr;
  } while (kind() == TokenKind::kElif);
  if (accept(TokenKind::kElse) && !block(chain.back()->else_body)) return nullptr;
  const Stmt* inner = nullptr;
  for (size_t i = chain.size(); i-- > 0;) {
    if (inner != nullptr) chain[i]->else_body = nodes_.copy(std::vector<const Stmt*>{inner});
    inner = finish(chain[i]);
    if (inner == nullptr) return nullptr;
  }
  return inner;
}

const Stmt* Parser::while_statement() {
  Stmt* const made = begin_stmt(StmtKind::kWhile);
  if (made == nullptr) return nullptr;
  advance();
  if ((made->value = expr()) == nullptr || !block(made->body)) return nullptr;
  return finish(made);
}

const Stmt* Parser::for_statement() {
  Stmt* const made = begin_stmt(StmtKind::kFor);
  if (made == nullptr) return nullptr;
  advance();
  std::vector<const Expr*> targets;
  std::vector<const Expr*> iterables;
  if (!expr_list(TokenKind::kIn, targets, kTargetLevel)) return nullptr;
  while (kind() != TokenKind::kColon) {
    iterables.push_back(expr());
    if (iterables.back() == nullptr) return nullptr;
    if (!accept(TokenKind::kComma)) break;
  }
  made->targets = nodes_.copy(targets);
  made->iterables = nodes_.copy(iterables);
  if (!block(made->body)) return nullptr;
  return finish(made);
}

const Stmt* Parser::with_statement() {
  Stmt* const made = begin_stmt(StmtKind::kWith);
  if (made == nullptr) return nullptr;
  advance();
  std::vector<WithItem> items;
  while (kind() != TokenKind::kColon) {
    WithItem item;
    if ((item.value = expr()) == nullptr) return nullptr;
    if (accept(TokenKind::kAs)) {
      if (kind() != TokenKind::kName) return expected("a name");
      if ((item.name = atom()) == nullptr) return nullptr;
    }
    items.push_back(item);
    if (!accept(TokenKind::kComma)) break;
  }
  made->with_items = nodes_.copy(items);
  if (!block(made->body)) return nullptr;
  return finish(made);
}

const Stmt* Parser::definition(bool in_class) {
  Stmt* const made = begin_stmt(StmtKind::kDef);
  if (made == nullptr) return nullptr;
  made->function = function(in_class);
  return made->function != nullptr ? finish(made) : nullptr;
}

bool Parser::block(StmtList& body, bool in_class) {
  if (!expect(TokenKind::kColon)) return false;
  if (kind() != TokenKind::kIndent) {
    if (kind() == TokenKind::kNewline || kind() == TokenKind::kEnd || kind() == TokenKind::kError) {
      expected("an indented block");
    } else {
      fail(Code::kUnsupported, current_.range, "a block stands in lines of its own, indented");
    }
    return false;
  }
  advance();
  return statements(body, in_class);
}

bool Parser::statements(StmtList& body, bool in_class) {
  std::vector<const Stmt*> made;
  do {
    made.push_back(statement(in_class));
    if (made.back() == nullptr) return false;
  } while (!accept(TokenKind::kDedent));
  body = nodes_.copy(made);
  return true;
}

}  // namespace tenon::script

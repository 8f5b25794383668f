// The part of Parser that reads operators, with the importer's precedences: `and` and `or` bind
// alike, comparisons group from left to right without chains, and `~` binds as loosely as `not`.
#include <algorithm>

#include "modules/script/parser_impl.h"

namespace tenon::script {
namespace {

constexpr int kLoosest = 1;  // `a if c else b`, `a for b in c`
constexpr int kNotLevel = 3;
constexpr int kSignLevel = 10;

struct Binary {
  int level = 0;  // 0: no binary operator
  Operator op = Operator::kNothing;
};

Binary binary(TokenKind kind) noexcept {
  switch (kind) {
    case TokenKind::kIf:
    case TokenKind::kFor: return {kLoosest, Operator::kNothing};
    case TokenKind::kAnd: return {2, Operator::kAnd};
    case TokenKind::kOr: return {2, Operator::kOr};
    case TokenKind::kIn: return {4, Operator::kIn};
    case TokenKind::kNotIn: return {4, Operator::kNotIn};
    case TokenKind::kIs: return {4, Operator::kIs};
    case TokenKind::kIsNot: return {4, Operator::kIsNot};
    case TokenKind::kLess: return {4, Operator::kLess};
    case TokenKind::kGreater: return {4, Operator::kGreater};
    case TokenKind::kLessEqual: return {4, Operator::kLessEqual};
    case TokenKind::kGreaterEqual: return {4, Operator::kGreaterEqual};
    case TokenKind::kEqual: return {4, Operator::kEqual};
    case TokenKind::kNotEqual: return {4, Operator::kNotEqual};
    case TokenKind::kBar: return {5, Operator::kBitOr};
    case TokenKind::kCaret: return {6, Operator::kBitXor};
    case TokenKind::kAmpersand: return {7, Operator::kBitAnd};
    case TokenKind::kLeftShift: return {8, Operator::kLeftShift};
    case TokenKind::kRightShift: return {8, Operator::kRightShift};
    case TokenKind::kPlus: return {9, Operator::kAdd};
    case TokenKind::kMinus: return {9, Operator::kSub};
    case TokenKind::kStar: return {10, Operator::kMul};
    case TokenKind::kSlash: return {10, Operator::kDiv};
    case TokenKind::kSlashSlash: return {10, Operator::kFloorDiv};
    case TokenKind::kPercent: return {10, Operator::kMod};
    case TokenKind::kAt: return {10, Operator::kMatMul};
    case TokenKind::kStarStar: return {11, Operator::kPow};
    default: return {};
  }
}

bool ends_tuple(TokenKind kind) noexcept {
  switch (kind) {
    case TokenKind::kNewline:
    case TokenKind::kEnd:
    case TokenKind::kCloseParen:
    case TokenKind::kAssign: return true;
    default: return kind >= TokenKind::kPlusAssign && kind <= TokenKind::kStarStarAssign;
  }
}

}  // namespace

const Expr* Parser::expr(int level) {
  if (depth_ >= kDepthPerNode * limits_.max_depth) return too_deep(current_.range);
  ++depth_;
  const uint32_t begin = current_.range.begin;
  const Expr* left = prefixed();
  while (left != nullptr) {
    const Binary found = binary(kind());
    if (found.level <= level) break;
    const Token at = current_;
    advance();
    if (at.kind == TokenKind::kIf) {
      left = conditional(begin, left, at.range);
    } else if (at.kind == TokenKind::kFor) {
      left = comprehension(begin, left, at.range);
    } else {
      // Powers group from the right.
      const Expr* const right = expr(found.op == Operator::kPow ? found.level - 1 : found.level);
      left = right == nullptr
                 ? nullptr
                 : node(ExprKind::kBinary, {begin, last_end_}, {left, right}, found.op, at.range);
    }
  }
  --depth_;
  return left;
}

const Expr* Parser::conditional(uint32_t begin, const Expr* value, Range at) {
  const Expr* const condition = expr();
  if (condition == nullptr || !expect(TokenKind::kElse)) return nullptr;
  const Expr* const otherwise = expr(kLoosest - 1);
  if (otherwise == nullptr) return nullptr;
  return node(ExprKind::kConditional, {begin, last_end_}, {condition, value, otherwise},
              Operator::kNothing, at);
}

// The importer takes a comprehension anywhere as an expression, with or without brackets.
const Expr* Parser::comprehension(uint32_t begin, const Expr* element, Range at) {
  const Expr* const target = expr(kTargetLevel);
  if (target == nullptr || !expect(TokenKind::kIn)) return nullptr;
  const Expr* const iterable = expr();
  if (iterable == nullptr) return nullptr;
  return node(ExprKind::kListComp, {begin, last_end_}, {element, target, iterable},
              Operator::kNothing, at);
}

const Expr* Parser::prefixed() {
  switch (kind()) {
    case TokenKind::kNot: return unary(Operator::kNot, kNotLevel);
    case TokenKind::kTilde: return unary(Operator::kInvert, kNotLevel);
    case TokenKind::kMinus: return unary(Operator::kMinus, kSignLevel);
    case TokenKind::kStar: return unary(Operator::kNothing, kSignLevel);
    default: return postfixed();
  }
}

const Expr* Parser::unary(Operator op, int level) {
  const Range at = current_.range;
  advance();
  const Expr* const operand = expr(level);
  if (operand == nullptr) return nullptr;
  const Range range{at.begin, last_end_};
  if (op == Operator::kNothing) return node(ExprKind::kStarred, range, {operand}, op, at);
  const bool is_number = operand->kind == ExprKind::kInt || operand->kind == ExprKind::kFloat ||
                         operand->kind == ExprKind::kComplex;
  if (op == Operator::kMinus && is_number && !operand->text.starts_with('-')) {
    const std::string text = "-" + std::string(operand->text);
    return leaf(operand->kind, range, nodes_.copy(std::string_view(text)));
  }
  return node(ExprKind::kUnary, range, {operand}, op, at);
}

const Expr* Parser::expr_or_tuple() {
  const uint32_t begin = current_.range.begin;
  const Expr* const first = expr();
  if (first == nullptr || kind() != TokenKind::kComma) return first;
  std::vector<const Expr*> items = {first};
  while (accept(TokenKind::kComma)) {
    if (ends_tuple(kind())) break;
    items.push_back(expr());
    if (items.back() == nullptr) return nullptr;
  }
  return node(ExprKind::kTuple, {begin, last_end_}, items);
}

// Reads expressions with commas between them up to the token `end`, and takes that token too. A
// comma may stand after the last expression.
bool Parser::expr_list(TokenKind end, std::vector<const Expr*>& items, int level) {
  while (kind() != end) {
    items.push_back(expr(level));
    if (items.back() == nullptr) return false;
    if (!accept(TokenKind::kComma)) break;
  }
  if (accept(end)) return true;
  expected(format("',' or '%s'", std::string(token_text(end)).c_str()));
  return false;
}

const Expr* Parser::leaf(ExprKind kind, Range range, std::string_view text) {
  if (!enough_memory(range)) return nullptr;
  Expr* const made = nodes_.make<Expr>();
  made->kind = kind;
  made->range = range;
  made->text = text;
  made->text_range = range;
  return made;
}

const Expr* Parser::node(ExprKind kind, Range range, const std::vector<const Expr*>& children,
                         Operator op, Range text_range, std::string_view text,
                         const std::vector<Keyword>& keywords) {
  if (!enough_memory(range)) return nullptr;
  unsigned height = 0;
  for (const Expr* child : children)
    height = std::max<unsigned>(height, child != nullptr ? child->height : 0);
  for (const Keyword& keyword : keywords)
    height = std::max<unsigned>(height, keyword.value->height);
  if (height >= limits_.max_depth) return too_deep(range);
  Expr* const made = nodes_.make<Expr>();
  made->kind = kind;
  made->op = op;
  made->height = static_cast<uint16_t>(height + 1);
  made->range = range;
  made->text = text;
  made->text_range = text_range;
  made->children = nodes_.copy(children);
  made->keywords = nodes_.copy(keywords);
  return made;
}

}  // namespace tenon::script

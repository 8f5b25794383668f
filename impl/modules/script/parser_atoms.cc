// The part of Parser that reads the operands of operators: names, literals and expressions in
// brackets, with the attributes, calls and subscripts behind them.
#include "modules/script/parser_impl.h"
#include "modules/script/scan.h"

namespace tenon::script {

const Expr* Parser::postfixed() {
  const uint32_t begin = current_.range.begin;
  const Expr* value = atom();
  while (value != nullptr) {
    if (kind() == TokenKind::kDot) {
      advance();
      if (kind() != TokenKind::kName) return expected("an attribute's name");
      const Token name = current_;
      advance();
      value = node(ExprKind::kAttribute, {begin, last_end_}, {value}, Operator::kNothing,
                   name.range, text(name));
    } else if (kind() == TokenKind::kOpenParen) {
      value = call(begin, value);
    } else if (kind() == TokenKind::kOpenBracket) {
      value = subscript(begin, value);
    } else {
      break;
    }
  }
  return value;
}

const Expr* Parser::atom() {
  const Token at = current_;
  ExprKind made = ExprKind::kName;
  switch (at.kind) {
    case TokenKind::kName: break;
    case TokenKind::kNumber: made = number_kind(text(at)); break;
    case TokenKind::kTrue: made = ExprKind::kTrue; break;
    case TokenKind::kFalse: made = ExprKind::kFalse; break;
    case TokenKind::kNone: made = ExprKind::kNone; break;
    case TokenKind::kNoneType: made = ExprKind::kNoneType; break;
    case TokenKind::kDots:
    case TokenKind::kEllipsisName: made = ExprKind::kEllipsis; break;
    case TokenKind::kString: return strings();
    case TokenKind::kOpenParen: return parenthesised();
    case TokenKind::kOpenBracket: return list();
    case TokenKind::kOpenBrace: return dict();
    default: return expected("an expression");
  }
  advance();
  const bool has_text = at.kind == TokenKind::kName || at.kind == TokenKind::kNumber;
  return leaf(made, at.range, has_text ? text(at) : std::string_view());
}

const Expr* Parser::strings() {
  const uint32_t begin = current_.range.begin;
  std::string value;
  while (kind() == TokenKind::kString) {
    BadEscape bad;
    if (!append_string_value(text(current_), value, bad)) {
      const uint32_t at = current_.range.begin + static_cast<uint32_t>(bad.begin);
      return fail(Code::kUnsupported, {at, at + static_cast<uint32_t>(bad.nbytes)},
                  "this escape is not read: \\\\ \\' \\\" \\a \\b \\f \\n \\t \\v, a line end, and "
                  "three octal digits up to \\377 are");
    }
    advance();
  }
  return leaf(ExprKind::kString, {begin, last_end_}, nodes_.copy(std::string_view(value)));
}

const Expr* Parser::parenthesised() {
  const uint32_t begin = current_.range.begin;
  advance();
  if (accept(TokenKind::kCloseParen)) return node(ExprKind::kTuple, {begin, last_end_}, {});
  const Expr* const inner = expr_or_tuple();
  if (inner == nullptr || !expect(TokenKind::kCloseParen)) return nullptr;
  return inner;
}

const Expr* Parser::list() {
  const uint32_t begin = current_.range.begin;
  advance();
  std::vector<const Expr*> items;
  if (!expr_list(TokenKind::kCloseBracket, items)) return nullptr;
  // Brackets around a comprehension make no list of it. To the importer [[a for b in c]] is
  // [a for b in c].
  if (items.size() == 1 && items[0]->kind == ExprKind::kListComp) return items[0];
  for (const Expr* item : items) {
    if (item->kind == ExprKind::kListComp)
      return fail(Code::kUnsupported, item->range,
                  "a list with a comprehension has nothing else in it");
  }
  return node(ExprKind::kList, {begin, last_end_}, items);
}

const Expr* Parser::dict() {
  const uint32_t begin = current_.range.begin;
  advance();
  if (accept(TokenKind::kCloseBrace)) return node(ExprKind::kDict, {begin, last_end_}, {});
  std::vector<const Expr*> items;
  do {
    if (!items.empty() && kind() == TokenKind::kCloseBrace)
      return fail(Code::kUnsupported, current_.range, "a dict has no comma after its last entry");
    const Expr* const key = expr();
    if (key == nullptr) return nullptr;
    if (items.empty() && (kind() == TokenKind::kComma || kind() == TokenKind::kCloseBrace)) {
      return fail(Code::kUnsupported, {begin, current_.range.end}, "a set is not read");
    }
    if (!expect(TokenKind::kColon)) return nullptr;
    const Expr* const value = expr();
    if (value == nullptr) return nullptr;
    items.push_back(key);
    items.push_back(value);
  } while (accept(TokenKind::kComma));
  if (!expect(TokenKind::kCloseBrace)) return nullptr;
  if (items.size() == 2 && items[1]->kind == ExprKind::kListComp) {
    const ExprList parts = items[1]->children;
    return node(ExprKind::kDictComp, {begin, last_end_}, {items[0], parts[0], parts[1], parts[2]},
                Operator::kNothing, items[1]->text_range);
  }
  return node(ExprKind::kDict, {begin, last_end_}, items);
}

const Expr* Parser::call(uint32_t begin, const Expr* callee) {
  advance();
  std::vector<const Expr*> children = {callee};
  std::vector<Keyword> keywords;
  while (kind() != TokenKind::kCloseParen) {
    if (kind() == TokenKind::kName && following() == TokenKind::kAssign) {
      Keyword keyword{text(current_), current_.range, nullptr};
      advance();
      advance();
      keyword.value = expr();
      if (keyword.value == nullptr) return nullptr;
      keywords.push_back(keyword);
    } else {
      children.push_back(expr());
      if (children.back() == nullptr) return nullptr;
    }
    if (!accept(TokenKind::kComma)) break;
  }
  if (!accept(TokenKind::kCloseParen)) return expected("',' or ')'");
  return node(ExprKind::kCall, {begin, last_end_}, children, Operator::kNothing, {}, {}, keywords);
}

const Expr* Parser::subscript(uint32_t begin, const Expr* value) {
  advance();
  std::vector<const Expr*> children = {value};
  while (kind() != TokenKind::kCloseBracket) {
    children.push_back(index());
    if (children.back() == nullptr) return nullptr;
    if (!accept(TokenKind::kComma)) break;
  }
  if (!accept(TokenKind::kCloseBracket)) return expected("',' or ']'");
  return node(ExprKind::kSubscript, {begin, last_end_}, children);
}

const Expr* Parser::index() {
  const uint32_t begin = current_.range.begin;
  const Expr* start = nullptr;
  if (kind() != TokenKind::kColon && (start = expr()) == nullptr) return nullptr;
  if (!accept(TokenKind::kColon)) return start;
  const auto ends = [this] {
    return kind() == TokenKind::kComma || kind() == TokenKind::kCloseBracket;
  };
  const Expr* stop = nullptr;
  const Expr* step = nullptr;
  if (!ends() && kind() != TokenKind::kColon && (stop = expr()) == nullptr) return nullptr;
  if (accept(TokenKind::kColon) && !ends() && (step = expr()) == nullptr) return nullptr;
  return node(ExprKind::kSlice, {begin, last_end_}, {start, stop, step});
}

}  // namespace tenon::script

#include "modules/script/ast.h"

#include <algorithm>
#include <vector>

namespace tenon::script {

std::string_view operator_text(Operator op) noexcept {
  switch (op) {
    case Operator::kNothing: return "";
    case Operator::kMinus: return "-";
    case Operator::kInvert: return "~";
    case Operator::kNot: return "not";
    case Operator::kAdd: return "+";
    case Operator::kSub: return "-";
    case Operator::kMul: return "*";
    case Operator::kDiv: return "/";
    case Operator::kFloorDiv: return "//";
    case Operator::kMod: return "%";
    case Operator::kMatMul: return "@";
    case Operator::kPow: return "**";
    case Operator::kLeftShift: return "<<";
    case Operator::kRightShift: return ">>";
    case Operator::kBitAnd: return "&";
    case Operator::kBitOr: return "|";
    case Operator::kBitXor: return "^";
    case Operator::kLess: return "<";
    case Operator::kGreater: return ">";
    case Operator::kLessEqual: return "<=";
    case Operator::kGreaterEqual: return ">=";
    case Operator::kEqual: return "==";
    case Operator::kNotEqual: return "!=";
    case Operator::kIs: return "is";
    case Operator::kIsNot: return "is not";
    case Operator::kIn: return "in";
    case Operator::kNotIn: return "not in";
    case Operator::kAnd: return "and";
    case Operator::kOr: return "or";
  }
  return "";
}

std::string dotted_name(const Expr& expr) {
  std::vector<std::string_view> parts;
  const Expr* at = &expr;
  for (; at->kind == ExprKind::kAttribute; at = at->children[0]) parts.push_back(at->text);
  if (at->kind != ExprKind::kName) return {};
  std::string name(at->text);
  for (size_t i = parts.size(); i-- > 0;) name.append(1, '.').append(parts[i]);
  return name;
}

namespace {

bool equal_items(const Param& a, const Param& b) noexcept {
  return a.name == b.name && a.keyword_only == b.keyword_only &&
         equal(a.annotation, b.annotation) && equal(a.default_value, b.default_value);
}
bool equal_items(const Keyword& a, const Keyword& b) noexcept {
  return a.name == b.name && equal(a.value, b.value);
}
bool equal_items(const WithItem& a, const WithItem& b) noexcept {
  return equal(a.value, b.value) && equal(a.name, b.name);
}
bool equal_items(const Expr* a, const Expr* b) noexcept { return equal(a, b); }
bool equal_items(const Stmt* a, const Stmt* b) noexcept { return equal(a, b); }

template <typename T>
bool equal_lists(std::span<T> a, std::span<T> b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return equal_items(x, y); });
}

}  // namespace

bool equal(const Expr* a, const Expr* b) noexcept {
  if (a == nullptr || b == nullptr) return a == b;
  return a->kind == b->kind && a->op == b->op && a->text == b->text &&
         equal_lists(a->children, b->children) && equal_lists(a->keywords, b->keywords);
}

bool equal(const Stmt* a, const Stmt* b) noexcept {
  if (a == nullptr || b == nullptr) return a == b;
  if ((a->function == nullptr) != (b->function == nullptr)) return false;
  if (a->function != nullptr && !equal(*a->function, *b->function)) return false;
  return a->kind == b->kind && a->op == b->op && a->is_elif == b->is_elif &&
         equal_lists(a->targets, b->targets) && equal_lists(a->iterables, b->iterables) &&
         equal(a->value, b->value) && equal(a->annotation, b->annotation) &&
         equal(a->message, b->message) && equal_lists(a->with_items, b->with_items) &&
         equal_lists(a->body, b->body) && equal_lists(a->else_body, b->else_body);
}

bool equal(const Function& a, const Function& b) noexcept {
  if ((a.type_comment == nullptr) != (b.type_comment == nullptr)) return false;
  if (a.type_comment != nullptr && !(equal_lists(a.type_comment->params, b.type_comment->params) &&
                                     equal(a.type_comment->returns, b.type_comment->returns))) {
    return false;
  }
  return a.name == b.name && equal_lists(a.params, b.params) && equal(a.returns, b.returns) &&
         equal_lists(a.body, b.body);
}

bool equal(const Class& a, const Class& b) noexcept {
  return a.name == b.name && equal(a.base, b.base) && equal_lists(a.body, b.body);
}

}  // namespace tenon::script

// The part of Checker that finds the types of tuples, lists, dicts and arithmetic, where they
// follow from the operands without the table of operators.
#include <algorithm>
#include <array>
#include <utility>

#include "modules/script/checker.h"

namespace tenon::script {
namespace {

using value::Type;
using value::TypeKind;

bool is_arithmetic(Operator op) noexcept {
  return op == Operator::kAdd || op == Operator::kSub || op == Operator::kMul;
}

bool is_comparison(Operator op) noexcept {
  return op == Operator::kLess || op == Operator::kLessEqual || op == Operator::kGreater ||
         op == Operator::kGreaterEqual || op == Operator::kEqual || op == Operator::kNotEqual;
}

bool is_real(TypeKind kind) noexcept { return kind == TypeKind::kInt || kind == TypeKind::kFloat; }

}  // namespace

// Keeps a type for as long as this object lives. Null: PyTorch has no such type, or the type is too
// large.
const Type* Checker::keep(Result<value::TypeRef> type) {
  if (!type.is_ok()) return nullptr;
  kept_types_.push_back(std::move(type).value());
  return kept_types_.back().get();
}

// Finds the checked value of a tuple or list display.
Status Checker::sequence(const Expr& expr, CheckedValue* out) {
  const bool is_tuple = expr.kind == ExprKind::kTuple;
  std::vector<value::TypeRef> types;
  bool all_known = true;
  bool may_hold = false;
  bool is_starred = false;
  for (const Expr* child : expr.children) {
    const bool stars = child->kind == ExprKind::kStarred;
    CheckedValue one;
    TENON_TRY(value(stars ? child->child(0) : *child, &one));
    may_hold = may_hold || one.may_hold_tensor();
    is_starred = is_starred || stars;
    const Type* const type = stars ? nullptr : sure_type(one);
    all_known = all_known && type != nullptr && type->kind() != TypeKind::kAnyList &&
                type->kind() != TypeKind::kAnyTuple;
    if (all_known) types.push_back(value::TypeRef::share(type));
  }
  out->holds_no_tensor = !may_hold;
  if (is_tuple) {
    if (!is_starred) out->tuple_size = static_cast<int32_t>(expr.children.size());
    if (all_known) out->type = keep(Type::tuple(std::move(types)));
    return {};
  }
  // PyTorch decides the element type of an empty list, and of a list whose elements have different
  // types.
  const auto is_first = [&](const value::TypeRef& type) { return type->equals(*types.front()); };
  const bool is_plain = all_known && !types.empty() && types.front()->kind() != TypeKind::kNone &&
                        types.front()->kind() != TypeKind::kOptional &&
                        std::all_of(types.begin(), types.end(), is_first);
  if (is_plain) out->type = keep(Type::list(types.front()));
  if (out->type == nullptr) out->type = Type::simple(TypeKind::kAnyList).get();
  return {};
}

// Finds the checked value of a dict display. The children are its keys and values in turn.
Status Checker::dictionary(const Expr& expr, CheckedValue* out) {
  std::array<value::TypeRef, 2> types;
  bool all_same = true;
  bool may_hold = false;
  for (size_t i = 0; i < expr.children.size(); ++i) {
    CheckedValue one;
    TENON_TRY(value(expr.child(i), &one));
    may_hold = may_hold || one.may_hold_tensor();
    const Type* const type = sure_type(one);
    value::TypeRef& of_kind = types[i % 2];
    if (!of_kind) of_kind = value::TypeRef::share(type);
    all_same = all_same && type != nullptr && type->kind() != TypeKind::kAnyList && of_kind &&
               type->equals(*of_kind);
  }
  out->holds_no_tensor = !may_hold;
  if (expr.children.empty()) types = {Type::str(), Type::tensor()};
  if (all_same && types[0] && types[1]) out->type = keep(Type::dict(types[0], types[1]));
  return {};
}

const Type* Checker::type_of_unary(Operator op, const CheckedValue& operand) noexcept {
  if (op == Operator::kNot) return Type::boolean().get();
  const Type* const type = sure_type(operand);
  if (op != Operator::kMinus || type == nullptr) return nullptr;
  const TypeKind kind = type->kind();
  return is_real(kind) || kind == TypeKind::kComplex || kind == TypeKind::kTensor ? type : nullptr;
}

const Type* Checker::type_of_binary(Operator op, const CheckedValue& left,
                                    const CheckedValue& right) noexcept {
  switch (op) {
    case Operator::kAnd:
    case Operator::kOr:
    case Operator::kIs:
    case Operator::kIsNot:
    case Operator::kIn:
    case Operator::kNotIn: return Type::boolean().get();
    default: break;
  }
  const Type* const a = sure_type(left);
  const Type* const b = sure_type(right);
  if (a == nullptr || b == nullptr) return nullptr;
  const bool one_tensor = a->kind() == TypeKind::kTensor || b->kind() == TypeKind::kTensor;
  const auto may_stand_by_tensor = [](TypeKind kind) {
    return kind == TypeKind::kTensor || is_real(kind);
  };
  if (one_tensor && may_stand_by_tensor(a->kind()) && may_stand_by_tensor(b->kind())) {
    return is_arithmetic(op) || op == Operator::kDiv || is_comparison(op) ? Type::tensor().get()
                                                                          : nullptr;
  }
  if (!is_real(a->kind()) || !is_real(b->kind())) return nullptr;
  if (is_comparison(op)) return Type::boolean().get();
  if (op == Operator::kDiv) return Type::floating().get();
  if (!is_arithmetic(op)) return nullptr;
  return a->kind() == b->kind() ? a : Type::floating().get();
}

}  // namespace tenon::script

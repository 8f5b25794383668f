// The part of Checker (checker.h) that finds which conditions PyTorch decides while it compiles.
#include <utility>

#include "modules/script/checker.h"

namespace tenon::script {
namespace {

using value::TypeKind;

bool is_none(const Expr& expr) noexcept {
  return expr.kind == ExprKind::kNone || expr.kind == ExprKind::kNoneType;
}

// Whether a type has no subtypes and no supertypes. bool and int do not count as such, because how
// they relate is left to PyTorch.
bool is_plain(TypeKind kind) noexcept {
  return kind == TypeKind::kTensor || kind == TypeKind::kInt || kind == TypeKind::kFloat ||
         kind == TypeKind::kStr;
}

}  // namespace

Status Checker::condition(const Expr& expr, Fixed* fixed) {
  *fixed = Fixed::kNo;
  switch (expr.kind) {
    case ExprKind::kTrue: *fixed = Fixed::kTrue; return {};
    case ExprKind::kFalse: *fixed = Fixed::kFalse; return {};
    case ExprKind::kUnary:
      if (expr.op == Operator::kNot) {
        TENON_TRY(condition(expr.child(0), fixed));
        if (*fixed == Fixed::kTrue)
          *fixed = Fixed::kFalse;
        else if (*fixed == Fixed::kFalse)
          *fixed = Fixed::kTrue;
        return {};
      }
      break;
    case ExprKind::kBinary:
      if (expr.op == Operator::kAnd || expr.op == Operator::kOr) {
        Fixed left = Fixed::kNo;
        Fixed right = Fixed::kNo;
        TENON_TRY(condition(expr.child(0), &left));
        TENON_TRY(condition(expr.child(1), &right));
        // If one operand decides the result, the other one does not matter.
        const Fixed decisive = expr.op == Operator::kAnd ? Fixed::kFalse : Fixed::kTrue;
        if (left == decisive || right == decisive)
          *fixed = decisive;
        else if (left == Fixed::kUnknown || right == Fixed::kUnknown)
          *fixed = Fixed::kUnknown;
        else if (left != Fixed::kNo && right != Fixed::kNo)
          *fixed = left;
        return {};
      }
      if (expr.op == Operator::kIs || expr.op == Operator::kIsNot)
        return compared_with_none(expr, fixed);
      break;
    case ExprKind::kCall: return called_condition(expr, fixed);
    default: break;
  }
  CheckedValue what;
  TENON_TRY(value(expr, &what));
  if (what.may_be_constant) *fixed = Fixed::kUnknown;
  return {};
}

Status Checker::compared_with_none(const Expr& expr, Fixed* fixed) {
  CheckedValue left;
  CheckedValue right;
  TENON_TRY(value(expr.child(0), &left));
  TENON_TRY(value(expr.child(1), &right));
  const bool none_left = is_none(expr.child(0));
  const bool none_right = is_none(expr.child(1));
  if (!none_left && !none_right) {
    *fixed = Fixed::kUnknown;
    return {};
  }
  const CheckedValue& other = none_right ? left : right;
  const bool wants_none = expr.op == Operator::kIs;
  Fixed is = Fixed::kUnknown;
  if (!other.was_tested &&
      (other.type != nullptr || other.owner != nullptr || other.tuple_size >= 0)) {
    const TypeKind kind = other.type != nullptr ? other.type->kind() : TypeKind::kClass;
    if (kind == TypeKind::kNone)
      is = wants_none ? Fixed::kTrue : Fixed::kFalse;
    else if (kind == TypeKind::kOptional || kind == TypeKind::kAny || kind == TypeKind::kUnion)
      is = Fixed::kNo;
    else
      is = wants_none ? Fixed::kFalse : Fixed::kTrue;
  }
  *fixed = is;
  mark_tested(expr.child(none_right ? 0 : 1));
  return {};
}

// Marks a variable, because PyTorch may know more than its declared type from here on.
void Checker::mark_tested(const Expr& expr) {
  if (expr.kind == ExprKind::kName) scope_.mark_tested(expr.text);
}

Status Checker::called_condition(const Expr& call, Fixed* fixed) {
  CheckedValue result;
  TENON_TRY(value(call, &result));
  if (result.may_be_constant) *fixed = Fixed::kUnknown;
  const Expr& callee = call.child(0);
  if (callee.kind != ExprKind::kName || callee.text != "isinstance" || call.arguments().size() != 2)
    return {};
  const Expr& asked = *call.arguments()[0];
  if (asked.kind != ExprKind::kName) return {};
  const Variable* const variable = scope_.find(asked.text);
  if (variable != nullptr && variable->set == Set::kYes)
    *fixed = is_instance(variable->meaning, *call.arguments()[1]);
  mark_tested(asked);
  return {};
}

// Evaluates isinstance if the types of the value and the asked types are plain. Otherwise the
// result is kUnknown.
Checker::Fixed Checker::is_instance(const CheckedValue& asked, const Expr& types) {
  if (!asked.is_value() || asked.was_tested || asked.type == nullptr ||
      !is_plain(asked.type->kind()))
    return Fixed::kUnknown;
  if (types.kind == ExprKind::kTuple) {
    Fixed any = Fixed::kFalse;
    for (const Expr* type : types.children) {
      const Fixed one = is_instance(asked, *type);
      if (one == Fixed::kTrue) return one;
      if (one != Fixed::kFalse) any = one;
    }
    return any;
  }
  if (types.kind != ExprKind::kName) return Fixed::kUnknown;
  Result<value::TypeRef> type = value::Type::parse(types.text);
  if (!type.is_ok()) return Fixed::kUnknown;
  const TypeKind wanted = type.value()->kind();
  if (!is_plain(wanted)) return Fixed::kUnknown;
  return wanted == asked.type->kind() ? Fixed::kTrue : Fixed::kFalse;
}

}  // namespace tenon::script

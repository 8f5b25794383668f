// The part of Checker (checker.h) that follows the paths through loops, which PyTorch may unroll.
#include "modules/script/checker.h"

#include <utility>

namespace tenon::script {
namespace {

using value::TypeKind;

bool is_range(const Expr& iterable) noexcept {
  return iterable.kind == ExprKind::kCall && iterable.child(0).kind == ExprKind::kName &&
         iterable.child(0).text == "range";
}

Unrolled unrolled_by_itself(const Expr& iterable, const CheckedValue& meaning) {
  switch (iterable.kind) {
    case ExprKind::kTuple: return iterable.children.empty() ? Unrolled::kNever : Unrolled::kYes;
    case ExprKind::kList:
    case ExprKind::kListComp:
    case ExprKind::kDict:
    case ExprKind::kDictComp:
    case ExprKind::kString: return Unrolled::kNo;
    case ExprKind::kCall:
      if (is_range(iterable)) return Unrolled::kNo;
      break;
    default: break;
  }
  if (meaning.tuple_size >= 0) return meaning.tuple_size == 0 ? Unrolled::kNever : Unrolled::kYes;
  if (meaning.kind == CheckedValue::Kind::kClass) return Unrolled::kNo;  // the members of an enum
  if (meaning.type == nullptr) return Unrolled::kMaybe;
  switch (meaning.type->kind()) {
    case TypeKind::kTuple: return meaning.type->parts().empty() ? Unrolled::kNever : Unrolled::kYes;
    case TypeKind::kList:
    case TypeKind::kDict:
    case TypeKind::kStr:
    case TypeKind::kTensor: return Unrolled::kNo;
    default: return Unrolled::kMaybe;
  }
}

}  // namespace

// Finds whether PyTorch unrolls a loop over `iterable`. `over` is its checked value.
Status Checker::unrolled(const Expr& iterable, const CheckedValue& over, Unrolled* out) {
  *out = unrolled_by_itself(iterable, over);
  const bool is_call =
      iterable.kind == ExprKind::kCall && iterable.child(0).kind == ExprKind::kName;
  if (!is_call || (iterable.child(0).text != "zip" && iterable.child(0).text != "enumerate"))
    return {};
  // checked_value() has walked over the operands already, and each level walks over them again. So
  // the depth is limited. Real code does not reach the limit.
  constexpr uint16_t kMaxHeight = 16;
  *out = iterable.height > kMaxHeight ? Unrolled::kMaybe : Unrolled::kNo;
  if (iterable.height > kMaxHeight) return {};
  for (const Expr* each : iterable.arguments()) {
    CheckedValue part;
    Unrolled of_part = Unrolled::kMaybe;
    ++quiet_;
    Status status = checked_value(*each, &part);
    if (status.is_ok()) status = unrolled(*each, part, &of_part);
    --quiet_;
    TENON_TRY(std::move(status));
    if (of_part != Unrolled::kNo) *out = Unrolled::kMaybe;
  }
  return {};
}

Status Checker::while_loop(const Stmt& stmt) {
  Fixed ignored = Fixed::kNo;
  TENON_TRY(condition(*stmt.value, &ignored));
  const size_t mark = scope_.begin();
  Flow of_body = Flow::kGoesOn;
  TENON_TRY(block(stmt.body, &of_body));
  scope_.leave_loop(scope_.take(mark), false, stmt.range);
  return {};
}

Status Checker::for_loop(const Stmt& stmt, Flow* flow) {
  Unrolled kind = Unrolled::kNo;
  CheckedValue element;
  for (const Expr* iterable : stmt.iterables) {
    CheckedValue over;
    TENON_TRY(checked_value(*iterable, &over));
    TENON_TRY(unrolled(*iterable, over, &kind));
    element.is_foreign = over.is_foreign;
    element.holds_no_tensor = !over.may_hold_tensor();
    const bool has_elements = over.type != nullptr && over.type->kind() == TypeKind::kList;
    if (has_elements) element = typed(over.type->element().get());
    if (is_range(*iterable)) element.type = value::Type::integer().get();
  }
  if (kind == Unrolled::kNever) return {};
  const size_t mark = scope_.begin();
  for (const Expr* target : stmt.targets)
    TENON_TRY(assign_to(*target, stmt.targets.size() == 1 ? element : CheckedValue(), nullptr));
  Flow of_body = Flow::kGoesOn;
  TENON_TRY(block(stmt.body, &of_body));
  Scope::Changes body = scope_.take(mark);
  if (kind == Unrolled::kYes) {
    scope_.apply(std::move(body));
    *flow = of_body;
    return {};
  }
  if (kind == Unrolled::kMaybe && of_body != Flow::kGoesOn) *flow = Flow::kMayEnd;
  scope_.leave_loop(std::move(body), kind == Unrolled::kMaybe, stmt.range);
  return {};
}

}  // namespace tenon::script

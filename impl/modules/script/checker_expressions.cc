// The part of Checker (checker.h) that finds what an expression stands for.
#include <algorithm>
#include <charconv>
#include <utility>

#include "modules/script/checker.h"
#include "modules/script/nearest.h"
#include "modules/script/signature.h"

namespace tenon::script {
namespace {

using value::TypeKind;
using Kind = CheckedValue::Kind;

const value::Type* literal_type(ExprKind kind) noexcept {
  using value::Type;
  switch (kind) {
    case ExprKind::kInt: return Type::integer().get();
    case ExprKind::kFloat: return Type::floating().get();
    case ExprKind::kComplex: return Type::complex().get();
    case ExprKind::kString: return Type::str().get();
    case ExprKind::kTrue:
    case ExprKind::kFalse: return Type::boolean().get();
    case ExprKind::kNone:
    case ExprKind::kNoneType: return Type::none().get();
    default: return nullptr;
  }
}

bool gives_bool(Operator op) noexcept {
  return op == Operator::kNot || op == Operator::kAnd || op == Operator::kOr ||
         op == Operator::kIs || op == Operator::kIsNot || op == Operator::kIn ||
         op == Operator::kNotIn;
}

}  // namespace

Status Checker::refuse(Range range, const std::string& what) const {
  return is_quiet() ? Status() : source_.error(Code::kInvalidArgument, range, what);
}

Status Checker::constant(const Expr& expr) {
  CheckedValue ignored;
  return value(expr, &ignored);
}

Status Checker::annotation(const Expr& written, const value::Type** out) {
  if (out != nullptr) *out = nullptr;
  Result<value::TypeRef> type = annotation_type(source_, written);
  if (!type.is_ok()) return is_quiet() ? Status() : std::move(type).status();
  kept_types_.push_back(std::move(type).value());
  const value::Type* const top = kept_types_.back().get();
  std::vector<const value::Type*> todo{top};
  while (!todo.empty()) {
    const value::Type* const here = todo.back();
    todo.pop_back();
    for (const value::TypeRef& part : here->parts()) todo.push_back(part.get());
    if (here->kind() != TypeKind::kClass || here->class_name().starts_with(kCustomClasses))
      continue;
    if (environment_.find_class(here->class_name()) == nullptr)
      TENON_TRY(refuse(written.range, "there is no class " + here->class_name()));
    else if (uses_ != nullptr && !is_quiet())
      uses_->classes.insert(here->class_name());
  }
  if (out != nullptr) *out = top;
  return {};
}

// The checked value of a value of that type.
CheckedValue Checker::typed(const value::Type* type) const {
  CheckedValue meaning;
  meaning.type = type;
  if (type == nullptr) return meaning;
  const value::Type* inner = type;
  while (inner->kind() == TypeKind::kOptional) inner = inner->element().get();
  if (inner->kind() != TypeKind::kClass) return meaning;
  meaning.owner = environment_.find_class(inner->class_name());
  if (meaning.owner != nullptr) return meaning;
  meaning.name = inner->class_name();
  meaning.is_foreign = SchemaTable::get().find_class(meaning.name).empty();
  return meaning;
}

Status Checker::value(const Expr& expr, CheckedValue* out) {
  TENON_TRY(checked_value(expr, out));
  if (out->may_be_result) *out = {};
  return require_value(expr, *out);
}

Status Checker::require_value(const Expr& expr, const CheckedValue& meaning) {
  const char* what = nullptr;
  switch (meaning.kind) {
    case Kind::kValue: return {};
    case Kind::kGlobal:
    case Kind::kNew: what = "a builtin function"; break;
    case Kind::kNamespace:
    case Kind::kQualified: what = "a part of a name"; break;
    case Kind::kOperator: what = "an operator"; break;
    case Kind::kClass: what = "a class"; break;
    case Kind::kFunction:
    case Kind::kClosure: what = "a function"; break;
    case Kind::kMethod: what = "a method"; break;
  }
  return refuse(expr.range, format("%s is used as a value", what));
}

Status Checker::values(ExprList list, bool* holds_no_tensor) {
  bool may_hold = false;
  for (const Expr* expr : list) {
    if (expr == nullptr) continue;
    CheckedValue one;
    TENON_TRY(value(expr->kind == ExprKind::kStarred ? expr->child(0) : *expr, &one));
    may_hold = may_hold || one.may_hold_tensor();
  }
  if (holds_no_tensor != nullptr) *holds_no_tensor = !may_hold;
  return {};
}

Status Checker::unary(const Expr& expr, CheckedValue* out) {
  CheckedValue operand;
  TENON_TRY(value(expr.child(0), &operand));
  // If PyTorch knows a value, it knows `not` of the value too.
  out->may_be_constant = expr.op == Operator::kNot;
  out->holds_no_tensor = !operand.may_hold_tensor() || gives_bool(expr.op);
  out->type = type_of_unary(expr.op, operand);
  return {};
}

Status Checker::binary(const Expr& expr, CheckedValue* out) {
  CheckedValue left;
  CheckedValue right;
  TENON_TRY(value(expr.child(0), &left));
  TENON_TRY(value(expr.child(1), &right));
  if (expr.op == Operator::kDiv) {
    used_operator("aten::div", SchemaTable::get().all_versions());
    note_division(left, right);
  }
  out->holds_no_tensor =
      gives_bool(expr.op) || (!left.may_hold_tensor() && !right.may_hold_tensor());
  out->type = type_of_binary(expr.op, left, right);
  // If PyTorch knows the operands, it knows the result of these operators too.
  out->may_be_constant = expr.op == Operator::kAnd || expr.op == Operator::kOr ||
                         expr.op == Operator::kIs || expr.op == Operator::kIsNot;
  return {};
}

Status Checker::checked_value(const Expr& expr, CheckedValue* out) {
  *out = {};
  switch (expr.kind) {
    case ExprKind::kName: return name(expr, out);
    case ExprKind::kAttribute: return attribute(expr, out);
    case ExprKind::kCall: return call(expr, out);
    case ExprKind::kSubscript: return subscript(expr, out);
    case ExprKind::kInt:
    case ExprKind::kFloat:
    case ExprKind::kComplex:
    case ExprKind::kString:
    case ExprKind::kTrue:
    case ExprKind::kFalse:
    case ExprKind::kNone:
    case ExprKind::kNoneType:
      out->type = literal_type(expr.kind);
      out->may_be_constant = expr.kind == ExprKind::kTrue || expr.kind == ExprKind::kFalse;
      return {};
    case ExprKind::kEllipsis: return {};
    case ExprKind::kUnary: return unary(expr, out);
    case ExprKind::kBinary: return binary(expr, out);
    case ExprKind::kConditional: return conditional(expr, out);
    case ExprKind::kTuple:
    case ExprKind::kList: return sequence(expr, out);
    case ExprKind::kDict: return dictionary(expr, out);
    case ExprKind::kSlice: return values(expr.children, &out->holds_no_tensor);
    case ExprKind::kListComp:
    case ExprKind::kDictComp: return comprehension(expr, out);
    case ExprKind::kStarred: return checked_value(expr.child(0), out);
  }
  return {};
}

Status Checker::name(const Expr& expr, CheckedValue* out) {
  const Variable* const variable = scope_.find(expr.text);
  if (variable != nullptr && variable->set != Set::kNo) {
    if (variable->set == Set::kYes) *out = variable->meaning;
    return {};
  }
  const std::optional<Global> global = find_global(expr.text);
  if (!global.has_value()) return undefined(expr);
  out->global = *global;
  switch (*global) {
    case Global::kNumber:
      out->type =
          expr.text.ends_with('j') ? value::Type::complex().get() : value::Type::floating().get();
      return {};
    case Global::kTorch: *out = CheckedValue::of(Kind::kNamespace, "aten"); return {};
    case Global::kQualified:
      *out = CheckedValue::of(Kind::kQualified, std::string(expr.text));
      return {};
    default: out->kind = Kind::kGlobal; return {};
  }
}

Status Checker::undefined(const Expr& expr) {
  if (is_quiet()) return {};
  const std::string name(expr.text);
  const Variable* const variable = scope_.find(expr.text);
  if (variable == nullptr || variable->lost == Variable::Lost::kNever) {
    std::string_view nearest = scope_.nearest(expr.text);
    if (nearest.empty()) nearest = nearest_global(expr.text);
    return refuse(expr.range, name + " is not defined" + did_you_mean(nearest));
  }
  const unsigned line = source_.position(variable->where.begin).line;
  const char* why = "";
  switch (variable->lost) {
    case Variable::Lost::kNever: break;
    case Variable::Lost::kNotIfFalse: why = "not where the condition is false in line"; break;
    case Variable::Lost::kNotIfTrue: why = "not where the condition is true in line"; break;
    case Variable::Lost::kInLoop: why = "only in the loop, which may never run, in line"; break;
    case Variable::Lost::kInner: why = "only in what has names of its own in line"; break;
    case Variable::Lost::kDeleted:
      return refuse(expr.range, format("%s was deleted in line %u", name.c_str(), line));
  }
  return refuse(expr.range, format("%s is not set on every path: %s %u", name.c_str(), why, line));
}

Status Checker::subscript(const Expr& expr, CheckedValue* out) {
  CheckedValue base;
  TENON_TRY(value(expr.child(0), &base));
  const ExprList indices = expr.arguments();
  TENON_TRY(values(indices));
  out->is_foreign = base.is_foreign;
  out->holds_no_tensor = !base.may_hold_tensor();
  if (indices.size() != 1) return {};
  const Expr& index = *indices[0];
  if (base.type == nullptr) return {};
  const value::Type& type = *base.type;
  const bool is_slice = index.kind == ExprKind::kSlice;
  if (type.kind() == TypeKind::kList) *out = typed(is_slice ? &type : type.element().get());
  if (type.kind() == TypeKind::kDict && !is_slice) *out = typed(type.mapped().get());
  if (type.kind() == TypeKind::kTuple && index.kind == ExprKind::kInt) {
    int64_t at = 0;
    const auto size = static_cast<int64_t>(type.parts().size());
    const std::string_view text = index.text;
    if (std::from_chars(text.data(), text.data() + text.size(), at).ptr !=
        text.data() + text.size())
      return {};
    if (at < 0) at += size;
    if (at >= 0 && at < size) *out = typed(type.parts()[static_cast<size_t>(at)].get());
  }
  return {};
}

Status Checker::comprehension(const Expr& expr, CheckedValue* out) {
  const ExprList parts = expr.children;
  const size_t made = expr.kind == ExprKind::kDictComp ? 2 : 1;
  CheckedValue over;
  TENON_TRY(checked_value(*parts[made + 1], &over));
  // PyTorch compiles nothing for a comprehension over an empty tuple.
  const bool is_tuple = over.type != nullptr && over.type->kind() == TypeKind::kTuple;
  const bool is_empty = over.tuple_size == 0 || (is_tuple && over.type->parts().empty());
  CheckedValue element;
  element.is_foreign = over.is_foreign;
  element.holds_no_tensor = !over.may_hold_tensor();
  if (over.type != nullptr && over.type->kind() == TypeKind::kList)
    element = typed(over.type->element().get());
  const size_t mark = scope_.begin();
  TENON_TRY(assign_to(*parts[made], element, nullptr));
  quiet_ += is_empty;
  Status status = values(parts.first(made), &out->holds_no_tensor);
  quiet_ -= is_empty;
  TENON_TRY(std::move(status));
  scope_.leave_inner(scope_.take(mark), expr.range);
  return {};
}

Status Checker::conditional(const Expr& expr, CheckedValue* out) {
  Fixed fixed = Fixed::kNo;
  TENON_TRY(condition(expr.child(0), &fixed));
  out->may_be_constant = fixed != Fixed::kNo;
  CheckedValue one;
  CheckedValue other;
  quiet_ += fixed == Fixed::kUnknown;
  Status status;
  if (fixed != Fixed::kFalse) status = value(expr.child(1), &one);
  if (status.is_ok() && fixed != Fixed::kTrue) status = value(expr.child(2), &other);
  quiet_ -= fixed == Fixed::kUnknown;
  TENON_TRY(std::move(status));
  const bool constant = out->may_be_constant;
  *out = fixed == Fixed::kTrue ? one : fixed == Fixed::kFalse ? other : common(one, other);
  // The value may come from either branch, so the checker does not know its type for PyTorch.
  out->was_tested = out->was_tested || fixed == Fixed::kUnknown || one.type != other.type;
  out->may_be_constant = constant;
  return {};
}

}  // namespace tenon::script

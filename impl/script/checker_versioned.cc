// Which calls depend on the version that an archive says: of the six operators that changed, those
// whose operands make a difference. The rules are those of the functions that PyTorch runs in their
// place (torch._C._generate_upgraders_graph() prints them), so a call that they hand on unchanged
// does not count.
#include <algorithm>

#include "script/checker.h"

namespace tenon::script {
namespace {

using value::TypeKind;

bool is_float(const value::Type* type) noexcept {
  return type != nullptr && type->kind() == TypeKind::kFloat;
}

bool may_be_none(const value::Type* type) noexcept {
  if (type == nullptr) return true;
  const TypeKind kind = type->kind();
  return kind == TypeKind::kNone || kind == TypeKind::kOptional || kind == TypeKind::kUnion ||
         kind == TypeKind::kAny;
}

}  // namespace

// Null: it is not given. `position` counts what the call gives by position.
const Checker::Operand* Checker::find_operand(const Operands& given, std::string_view keyword,
                                              size_t position) {
  for (const Operand& operand : given) {
    if (operand.keyword == keyword) return &operand;
  }
  return position < given.size() && given[position].keyword.empty() ? &given[position] : nullptr;
}

bool Checker::depends_on_version(std::string_view name, const Meaning& callee,
                                 const Operands& given) {
  const auto is_starred = [](const Operand& operand) { return operand.is_starred; };
  if (std::any_of(given.begin(), given.end(), is_starred)) return true;
  const auto has = [&](std::string_view keyword) {
    return find_operand(given, keyword, SIZE_MAX) != nullptr;
  };
  const size_t self = callee.has_self ? 1 : 0;
  if (name == "aten::div" || name == "aten::div_") {
    // A rounding mode says what is meant, and a quotient by a float never was an integer.
    const Operand* const other = find_operand(given, "other", 1 - self);
    if (has("rounding_mode") || (other != nullptr && is_float(other->type))) return false;
    const auto holds_tensor = [](const Operand& operand) { return operand.may_hold_tensor; };
    return (callee.has_self && callee.may_hold_tensor()) ||
           std::any_of(given.begin(), given.end(), holds_tensor);
  }
  if (name == "aten::full") {
    // Before version 5 the elements were floats if nothing said what they are.
    const Operand* const dtype = find_operand(given, "dtype", SIZE_MAX);
    const Operand* const fill_value = find_operand(given, "fill_value", 1);
    const bool has_dtype = dtype != nullptr && !may_be_none(dtype->type);
    return !has_dtype && !has("out") && (fill_value == nullptr || !is_float(fill_value->type));
  }
  if (name == "aten::linspace" || name == "aten::logspace") {
    const Operand* const steps = find_operand(given, "steps", 2);
    return steps == nullptr || may_be_none(steps->type);
  }
  // Without the word it means the same always; with it older versions refuse the call.
  if (name == "aten::gelu") return has("approximate");
  return false;
}

void Checker::note_versioned(std::string_view name) {
  if (uses_ != nullptr) uses_->versioned_operators.emplace(name);
}

void Checker::note_versioned_call(std::string_view name, const Meaning& callee,
                                  const Operands& given) {
  if (depends_on_version(name, callee, given)) note_versioned(name);
}

// `y.div(2)` of a value of which nothing is known: it may be a Tensor.
void Checker::note_method_of_unknown(const Expr& callee, const Meaning& called) {
  if (callee.kind != ExprKind::kAttribute || !called.is_value() || called.owner != nullptr ||
      called.type != nullptr)
    return;
  const std::string name = "aten::" + std::string(callee.text);
  if (depends_on_archive_version(name)) note_versioned(name);
}

void Checker::note_division(const Meaning& dividend, const Meaning& divisor) {
  if (is_float(divisor.type)) return;
  if (dividend.may_hold_tensor() || divisor.may_hold_tensor()) note_versioned("aten::div");
}

// Of a Tensor `/=` is div_, of a number div.
void Checker::note_division_in_place(const Meaning& dividend, const Meaning& divisor) {
  if (is_float(divisor.type)) return;
  if (dividend.may_hold_tensor()) note_versioned("aten::div_");
  const bool is_tensor = dividend.type != nullptr && dividend.type->kind() == TypeKind::kTensor;
  if (!is_tensor) note_division(dividend, divisor);
}

}  // namespace tenon::script

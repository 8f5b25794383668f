// The part of Checker that finds calls whose meaning depends on the version that an archive says.
// Six operators have changed, and only some of their calls are affected. For older archives PyTorch
// runs functions in place of these operators (torch._C._generate_upgraders_graph() prints them). A
// call that such a function hands on unchanged does not count.
#include <algorithm>

#include "modules/script/checker.h"

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

// Finds an operand by its keyword, or by its index among the positional operands. Null: the call
// does not give it.
const Checker::Operand* Checker::find_operand(const Operands& given, std::string_view keyword,
                                              size_t position) {
  for (const Operand& operand : given) {
    if (operand.keyword == keyword) return &operand;
  }
  return position < given.size() && given[position].keyword.empty() ? &given[position] : nullptr;
}

bool Checker::depends_on_version(std::string_view name, const CheckedValue& callee,
                                 const Operands& given) {
  const auto is_starred = [](const Operand& operand) { return operand.is_starred; };
  if (std::any_of(given.begin(), given.end(), is_starred)) return true;
  const auto has = [&](std::string_view keyword) {
    return find_operand(given, keyword, SIZE_MAX) != nullptr;
  };
  const size_t self = callee.has_self ? 1 : 0;
  if (name == "aten::div" || name == "aten::div_") {
    // The version matters neither with a rounding mode nor for a division by a float, which never
    // rounded.
    const Operand* const other = find_operand(given, "other", 1 - self);
    if (has("rounding_mode") || (other != nullptr && is_float(other->type))) return false;
    const auto holds_tensor = [](const Operand& operand) { return operand.may_hold_tensor; };
    return (callee.has_self && callee.may_hold_tensor()) ||
           std::any_of(given.begin(), given.end(), holds_tensor);
  }
  if (name == "aten::full") {
    // Before version 5 the elements were floats if no argument determined their type.
    const Operand* const dtype = find_operand(given, "dtype", SIZE_MAX);
    const Operand* const fill_value = find_operand(given, "fill_value", 1);
    const bool has_dtype = dtype != nullptr && !may_be_none(dtype->type);
    return !has_dtype && !has("out") && (fill_value == nullptr || !is_float(fill_value->type));
  }
  if (name == "aten::linspace" || name == "aten::logspace") {
    const Operand* const steps = find_operand(given, "steps", 2);
    return steps == nullptr || may_be_none(steps->type);
  }
  // Without the keyword the call has the same meaning in every version. With it, older versions
  // refuse the call.
  if (name == "aten::gelu") return has("approximate");
  return false;
}

void Checker::note_versioned(std::string_view name) {
  if (uses_ != nullptr) uses_->versioned_operators.emplace(name);
}

void Checker::note_versioned_call(std::string_view name, const CheckedValue& callee,
                                  const Operands& given) {
  if (depends_on_version(name, callee, given)) note_versioned(name);
}

// Notes a method call such as `y.div(2)` on a value of unknown type, because it may be a Tensor.
void Checker::note_method_of_unknown(const Expr& callee, const CheckedValue& called) {
  if (callee.kind != ExprKind::kAttribute || !called.is_value() || called.owner != nullptr ||
      called.type != nullptr)
    return;
  const std::string name = "aten::" + std::string(callee.text);
  if (depends_on_archive_version(name)) note_versioned(name);
}

void Checker::note_division(const CheckedValue& dividend, const CheckedValue& divisor) {
  if (is_float(divisor.type)) return;
  if (dividend.may_hold_tensor() || divisor.may_hold_tensor()) note_versioned("aten::div");
}

// `/=` means div_ for a Tensor and div for a number.
void Checker::note_division_in_place(const CheckedValue& dividend, const CheckedValue& divisor) {
  if (is_float(divisor.type)) return;
  if (dividend.may_hold_tensor()) note_versioned("aten::div_");
  const bool is_tensor = dividend.type != nullptr && dividend.type->kind() == TypeKind::kTensor;
  if (!is_tensor) note_division(dividend, divisor);
}

}  // namespace tenon::script

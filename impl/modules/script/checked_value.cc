#include "modules/script/checked_value.h"

#include <string_view>

namespace tenon::script {
namespace {

bool same_type(const value::Type* a, const value::Type* b) noexcept {
  return a == b || (a != nullptr && b != nullptr && a->equals(*b));
}

}  // namespace

CheckedValue common(const CheckedValue& a, const CheckedValue& b) {
  if (a.kind != b.kind || a.name != b.name || a.function != b.function) return {};
  CheckedValue out = a;
  if (!same_type(a.type, b.type)) out.type = nullptr;
  if (a.owner != b.owner) out.owner = nullptr;
  if (a.tuple_size != b.tuple_size) out.tuple_size = -1;
  if (a.result_names != b.result_names) out.result_names = {};
  out.may_be_result = a.may_be_result || b.may_be_result;
  out.is_foreign = a.is_foreign || b.is_foreign;
  out.may_be_constant = a.may_be_constant || b.may_be_constant;
  out.was_tested = a.was_tested || b.was_tested;
  out.holds_no_tensor = !a.may_hold_tensor() && !b.may_hold_tensor();
  return out;
}

const value::Type* sure_type(const CheckedValue& meaning) noexcept {
  using value::TypeKind;
  // Types are compared at every call, so large ones would take too long. No type in real code is as
  // large.
  constexpr uint32_t kMaxNodes = 256;
  if (!meaning.is_value() || meaning.is_foreign || meaning.type == nullptr ||
      meaning.type->nodes() > kMaxNodes)
    return nullptr;
  const TypeKind kind = meaning.type->kind();
  const bool may_be_narrowed = kind == TypeKind::kAny || kind == TypeKind::kOptional ||
                               kind == TypeKind::kUnion || kind == TypeKind::kNumber ||
                               kind == TypeKind::kClass;
  return meaning.was_tested && may_be_narrowed ? nullptr : meaning.type;
}

std::string describe(const CheckedValue& meaning) {
  if (meaning.owner != nullptr) return "an object of " + meaning.owner->name;
  if (!meaning.name.empty()) return "an object of " + meaning.name;
  if (meaning.type != nullptr) {
    const std::string type = meaning.type->print();
    return (std::string_view("AEIOUaeiou").find(type.front()) != std::string_view::npos ? "an "
                                                                                        : "a ") +
           type;
  }
  return meaning.tuple_size >= 0 ? "a tuple" : "a value";
}

}  // namespace tenon::script

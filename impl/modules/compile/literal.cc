#include "modules/compile/literal.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace tenon::compile {

using script::Expr;
using script::ExprKind;
using value::Type;
using value::TypeKind;
using value::TypeRef;
using value::Value;
using value::ValueRef;

size_t constant_index(std::string_view name) noexcept {
  if (name.size() < 2 || name[0] != 'c') return SIZE_MAX;
  size_t index = SIZE_MAX;
  const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), index);
  return error == std::errc() && end == name.data() + name.size() ? index : SIZE_MAX;
}

Result<ValueRef> literal_value(const script::Source& source, const Expr& expr,
                               std::span<const ValueRef> constants, const TypeRef& hint) {
  const auto refuse = [&](const std::string& why) {
    return source.error(Code::kInvalidArgument, expr.range, why);
  };
  const TypeRef inner = hint && hint->kind() == TypeKind::kOptional ? hint->element() : hint;
  const std::string text(expr.text);
  switch (expr.kind) {
    case ExprKind::kInt: {
      errno = 0;
      const int64_t number = std::strtoll(text.c_str(), nullptr, 0);
      if (errno == ERANGE) return refuse("this number does not fit into 64 bits");
      if (inner && inner->kind() == TypeKind::kFloat)
        return Value::of_float(static_cast<double>(number));
      return Value::of_int(number);
    }
    case ExprKind::kFloat: return Value::of_float(std::strtod(text.c_str(), nullptr));
    case ExprKind::kComplex: return Value::of_complex({0, std::strtod(text.c_str(), nullptr)});
    case ExprKind::kString: return Value::of_str(text);
    case ExprKind::kTrue: return Value::of_bool(true);
    case ExprKind::kFalse: return Value::of_bool(false);
    case ExprKind::kNone: return Value::none();
    case ExprKind::kName:
      if (text == "inf") return Value::of_float(HUGE_VAL);
      if (text == "nan") return Value::of_float(NAN);
      break;
    case ExprKind::kUnary:
      if (expr.op == script::Operator::kMinus && expr.child(0).kind == ExprKind::kName &&
          expr.child(0).text == "inf")
        return Value::of_float(-HUGE_VAL);
      break;
    case ExprKind::kAttribute: {
      const Expr& base = expr.child(0);
      const size_t index = base.kind == ExprKind::kName && base.text == "CONSTANTS"
                               ? constant_index(expr.text)
                               : SIZE_MAX;
      if (index < constants.size()) return constants[index];
      break;
    }
    case ExprKind::kCall: {
      const script::ExprList given = expr.arguments();
      const std::string_view callee = source.text(expr.child(0).range);
      if (callee == "torch.device" && given.size() == 1 && given[0]->kind == ExprKind::kString)
        return Value::of_device(std::string(given[0]->text));
      if (callee == "annotate" && given.size() == 2)
        return literal_value(source, *given[1], constants, hint);
      break;
    }
    case ExprKind::kTuple:
    case ExprKind::kList: {
      std::vector<ValueRef> items;
      for (size_t i = 0; i < expr.children.size(); ++i) {
        TypeRef item;
        if (inner && inner->kind() == TypeKind::kList) item = inner->element();
        if (inner && inner->kind() == TypeKind::kTuple && i < inner->parts().size())
          item = inner->parts()[i];
        TENON_ASSIGN(ValueRef value, literal_value(source, expr.child(i), constants, item));
        items.push_back(std::move(value));
      }
      if (expr.kind == ExprKind::kTuple) return Value::tuple(std::move(items));
      return Value::list(inner && inner->kind() == TypeKind::kList ? inner : TypeRef(),
                         std::move(items));
    }
    case ExprKind::kDict: {
      std::vector<value::DictEntry> entries;
      const bool has_hint = inner && inner->kind() == TypeKind::kDict;
      for (size_t i = 0; i + 1 < expr.children.size(); i += 2) {
        TENON_ASSIGN(ValueRef key, literal_value(source, expr.child(i), constants,
                                                 has_hint ? inner->key() : TypeRef()));
        TENON_ASSIGN(ValueRef mapped, literal_value(source, expr.child(i + 1), constants,
                                                    has_hint ? inner->mapped() : TypeRef()));
        entries.push_back({std::move(key), std::move(mapped)});
      }
      return Value::dict(has_hint ? inner : TypeRef(), std::move(entries));
    }
    default: break;
  }
  return refuse("this is no literal");
}

}  // namespace tenon::compile

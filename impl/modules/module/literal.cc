#include "modules/module/literal.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "modules/script/printer.h"
#include "modules/script/scan.h"

namespace tenon::module {

using value::Value;
using value::ValueKind;
using value::ValueRef;

namespace {

constexpr size_t kMaxLiteralDepth = 32;

std::optional<std::string> float_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  std::string text = format("%.17g", number);
  // Without a dot or an exponent the text would be an int.
  if (text.find_first_of(".e") == std::string::npos) text += '.';
  return text;
}

bool is_plain_text(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

std::optional<std::string> text_of(const Value& value, size_t depth);

std::optional<std::string> joined(const std::vector<const Value*>& items, size_t depth) {
  std::string text;
  for (const Value* item : items) {
    const std::optional<std::string> one = text_of(*item, depth + 1);
    if (!one) return std::nullopt;
    if (!text.empty()) text += ", ";
    text += *one;
  }
  return text;
}

std::optional<std::string> sequence_text(const Value& value, size_t depth) {
  std::vector<const Value*> items;
  for (const ValueRef& item : value.items()) items.push_back(item.get());
  const std::optional<std::string> inside = joined(items, depth);
  if (!inside) return std::nullopt;
  if (value.is(ValueKind::kTuple))
    return items.size() == 1 ? "(" + *inside + ",)" : "(" + *inside + ")";
  // PyTorch takes an empty list for a list of tensors, whatever is declared.
  if (items.empty()) {
    if (!value.declared_type()) return std::nullopt;
    return "annotate(" + value.declared_type()->print() + ", [])";
  }
  return "[" + *inside + "]";
}

std::optional<std::string> dict_text(const Value& value, size_t depth) {
  if (value.entries().empty()) {
    if (!value.declared_type()) return std::nullopt;
    return "annotate(" + value.declared_type()->print() + ", {})";
  }
  std::string text;
  for (const value::DictEntry& entry : value.entries()) {
    const std::optional<std::string> key = text_of(*entry.key, depth + 1);
    const std::optional<std::string> mapped = text_of(*entry.value, depth + 1);
    if (!key || !mapped) return std::nullopt;
    if (!text.empty()) text += ", ";
    text += *key + ": " + *mapped;
  }
  return "{" + text + "}";
}

std::optional<std::string> text_of(const Value& value, size_t depth) {
  if (depth > kMaxLiteralDepth) return std::nullopt;
  switch (value.kind()) {
    case ValueKind::kNone: return "None";
    case ValueKind::kBool: return value.as_bool() ? "True" : "False";
    case ValueKind::kInt:
      // The lexer reads the digits before it sees the sign, so it cannot read INT64_MIN.
      if (value.as_int() == INT64_MIN) return std::nullopt;
      return std::to_string(value.as_int());
    case ValueKind::kFloat: return float_text(value.as_float());
    case ValueKind::kStr:
      if (!is_plain_text(value.as_str())) return std::nullopt;
      return script::quoted(value.as_str());
    case ValueKind::kTuple:
      if (value.items().empty() || !value.class_name().empty()) return std::nullopt;
      return sequence_text(value, depth);
    case ValueKind::kList: return sequence_text(value, depth);
    case ValueKind::kDict: return dict_text(value, depth);
    case ValueKind::kComplex:
    case ValueKind::kDevice:
    case ValueKind::kTensor:
    case ValueKind::kEnum:
    case ValueKind::kObject: return std::nullopt;
  }
  return std::nullopt;
}

ValueRef number_of(const script::Expr& expr) {
  const bool is_negative = expr.text.starts_with('-');
  const std::string_view digits = expr.text.substr(is_negative ? 1 : 0);
  if (expr.kind == script::ExprKind::kFloat) {
    const double number = script::float_value(digits);
    return Value::of_float(is_negative ? -number : number);
  }
  const std::optional<int64_t> number = script::int_value(digits);
  if (!number) return nullptr;
  return Value::of_int(is_negative ? -*number : *number);
}

ValueRef value_of(const script::Expr& expr, size_t depth) {
  if (depth > kMaxLiteralDepth) return nullptr;
  switch (expr.kind) {
    case script::ExprKind::kInt:
    case script::ExprKind::kFloat: return number_of(expr);
    case script::ExprKind::kString: return Value::of_str(std::string(expr.text));
    case script::ExprKind::kTrue: return Value::of_bool(true);
    case script::ExprKind::kFalse: return Value::of_bool(false);
    case script::ExprKind::kNone: return Value::none();
    case script::ExprKind::kName:
      if (expr.text == "inf") return Value::of_float(HUGE_VAL);
      if (expr.text == "nan") return Value::of_float(std::nan(""));
      return nullptr;
    case script::ExprKind::kUnary: {
      if (expr.op != script::Operator::kMinus) return nullptr;
      const ValueRef number = value_of(expr.child(0), depth + 1);
      if (!number) return nullptr;
      if (number->is(ValueKind::kFloat)) return Value::of_float(-number->as_float());
      if (number->is(ValueKind::kInt) && number->as_int() != INT64_MIN)
        return Value::of_int(-number->as_int());
      return nullptr;
    }
    case script::ExprKind::kTuple:
    case script::ExprKind::kList: {
      std::vector<ValueRef> items;
      for (const script::Expr* child : expr.children) {
        items.push_back(value_of(*child, depth + 1));
        if (!items.back()) return nullptr;
      }
      return expr.kind == script::ExprKind::kTuple ? Value::tuple(std::move(items))
                                                   : Value::list(nullptr, std::move(items));
    }
    default: return nullptr;
  }
}

}  // namespace

std::optional<std::string> literal_text(const Value& value) { return text_of(value, 0); }

ValueRef literal_value(const script::Expr& expr) { return value_of(expr, 0); }

}  // namespace tenon::module

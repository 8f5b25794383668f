#include "modules/compile/evaluate.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

namespace tenon::compile {
namespace {

using value::Value;
using value::ValueKind;
using value::ValueRef;

// A text longer than this is not computed here but when the program runs.
constexpr size_t kMaxTextNbytes = size_t{64} << 10;

bool is_real(const Value& value) noexcept {
  return value.is(ValueKind::kInt) || value.is(ValueKind::kFloat);
}
double as_double(const Value& value) noexcept {
  return value.is(ValueKind::kInt) ? static_cast<double>(value.as_int()) : value.as_float();
}
// Sums of 64 bits wrap, as at run time.
int64_t wrapped(uint64_t value) noexcept { return static_cast<int64_t>(value); }

ValueRef compared(std::string_view name, int order, bool is_unordered) {
  if (name == "lt") return Value::of_bool(!is_unordered && order < 0);
  if (name == "gt") return Value::of_bool(!is_unordered && order > 0);
  if (name == "le") return Value::of_bool(!is_unordered && order <= 0);
  if (name == "ge") return Value::of_bool(!is_unordered && order >= 0);
  if (name == "eq") return Value::of_bool(!is_unordered && order == 0);
  if (name == "ne") return Value::of_bool(is_unordered || order != 0);
  return {};
}

template <typename T>
int order_of(const T& a, const T& b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

ValueRef of_ints(std::string_view name, int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a);
  const auto y = static_cast<uint64_t>(b);
  if (name == "add") return Value::of_int(wrapped(x + y));
  if (name == "sub") return Value::of_int(wrapped(x - y));
  if (name == "mul") return Value::of_int(wrapped(x * y));
  if (name == "min") return Value::of_int(std::min(a, b));
  if (name == "max") return Value::of_int(std::max(a, b));
  if (name == "__and__") return Value::of_int(a & b);
  if (name == "__or__") return Value::of_int(a | b);
  if (name == "__xor__") return Value::of_int(a ^ b);
  const bool overflows = b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min());
  if (name == "div" && b != 0)
    return Value::of_float(static_cast<double>(a) / static_cast<double>(b));
  // floordiv and remainder round towards minus infinity.
  if (name == "floordiv" && !overflows)
    return Value::of_int(a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0));
  if (name == "remainder" && !overflows)
    return Value::of_int(a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0));
  return compared(name, order_of(a, b), false);
}

ValueRef of_floats(std::string_view name, double a, double b) {
  if (name == "add") return Value::of_float(a + b);
  if (name == "sub") return Value::of_float(a - b);
  if (name == "mul") return Value::of_float(a * b);
  if (name == "div" && b != 0) return Value::of_float(a / b);
  if (name == "min") return Value::of_float(std::min(a, b));
  if (name == "max") return Value::of_float(std::max(a, b));
  return compared(name, order_of(a, b), std::isnan(a) || std::isnan(b));
}

bool is_any_number(const Value& value) noexcept {
  return is_real(value) || value.is(ValueKind::kComplex);
}
std::complex<double> as_complex(const Value& value) noexcept {
  return value.is(ValueKind::kComplex) ? value.as_complex()
                                       : std::complex<double>(as_double(value));
}

ValueRef of_complex(std::string_view name, std::complex<double> a, std::complex<double> b) {
  if (name == "add") return Value::of_complex(a + b);
  if (name == "sub") return Value::of_complex(a - b);
  if (name == "mul") return Value::of_complex(a * b);
  return {};
}

ValueRef unary(std::string_view name, const Value& operand) {
  const ValueKind kind = operand.kind();
  if (name == "__not__" && kind == ValueKind::kBool) return Value::of_bool(!operand.as_bool());
  if (name == "neg" && kind == ValueKind::kInt)
    return Value::of_int(wrapped(0 - static_cast<uint64_t>(operand.as_int())));
  if (name == "neg" && kind == ValueKind::kFloat) return Value::of_float(-operand.as_float());
  if (name == "len" && kind == ValueKind::kStr)
    return Value::of_int(static_cast<int64_t>(operand.as_str().size()));
  if (name == "device" && kind == ValueKind::kStr) return Value::of_device(operand.as_str());
  if (name == "Float" && kind == ValueKind::kInt)
    return Value::of_float(static_cast<double>(operand.as_int()));
  if (name == "Float" && kind == ValueKind::kFloat) return Value::of_float(operand.as_float());
  if (name == "Float" && kind == ValueKind::kBool)
    return Value::of_float(operand.as_bool() ? 1 : 0);
  if (name == "Int" && kind == ValueKind::kInt) return Value::of_int(operand.as_int());
  if (name == "Int" && kind == ValueKind::kBool) return Value::of_int(operand.as_bool() ? 1 : 0);
  if (name == "Int" && kind == ValueKind::kFloat && std::fabs(operand.as_float()) < 9e18)
    return Value::of_int(static_cast<int64_t>(operand.as_float()));
  if (name == "Bool" && kind == ValueKind::kInt) return Value::of_bool(operand.as_int() != 0);
  if (name == "Bool" && kind == ValueKind::kFloat) return Value::of_bool(operand.as_float() != 0);
  return {};
}

ValueRef binary(std::string_view name, const Value& a, const Value& b) {
  if (name == "__is__" || name == "__isnot__") {
    const bool is_none = a.is(ValueKind::kNone) && b.is(ValueKind::kNone);
    if (!a.is(ValueKind::kNone) && !b.is(ValueKind::kNone)) return {};
    return Value::of_bool(is_none == (name == "__is__"));
  }
  if (a.is(ValueKind::kInt) && b.is(ValueKind::kInt)) return of_ints(name, a.as_int(), b.as_int());
  if (is_real(a) && is_real(b)) return of_floats(name, as_double(a), as_double(b));
  if (is_any_number(a) && is_any_number(b)) return of_complex(name, as_complex(a), as_complex(b));
  if (a.is(ValueKind::kStr) && b.is(ValueKind::kStr)) {
    if (name == "add" && a.as_str().size() + b.as_str().size() <= kMaxTextNbytes)
      return Value::of_str(a.as_str() + b.as_str());
    return compared(name, order_of(a.as_str(), b.as_str()), false);
  }
  if (a.is(ValueKind::kBool) && b.is(ValueKind::kBool)) {
    if (name == "__and__") return Value::of_bool(a.as_bool() && b.as_bool());
    if (name == "__or__") return Value::of_bool(a.as_bool() || b.as_bool());
    if (name == "__xor__" || name == "ne") return Value::of_bool(a.as_bool() != b.as_bool());
    if (name == "eq") return Value::of_bool(a.as_bool() == b.as_bool());
  }
  return {};
}

}  // namespace

bool equal_constants(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case ValueKind::kNone: return true;
    case ValueKind::kBool: return a.as_bool() == b.as_bool();
    case ValueKind::kInt: return a.as_int() == b.as_int();
    case ValueKind::kFloat: return a.as_float() == b.as_float();
    case ValueKind::kComplex: return a.as_complex() == b.as_complex();
    case ValueKind::kStr: return a.as_str() == b.as_str();
    case ValueKind::kDevice: return a.as_device() == b.as_device();
    case ValueKind::kTuple:
    case ValueKind::kList:
      return a.items().size() == b.items().size() &&
             std::equal(
                 a.items().begin(), a.items().end(), b.items().begin(),
                 [](const ValueRef& x, const ValueRef& y) { return equal_constants(*x, *y); });
    default: return &a == &b;
  }
}

ValueRef evaluate(const Node& node, const std::vector<ValueRef>& operands) {
  if (node.kind == NodeKind::kTupleConstruct) {
    return node.outputs[0]->type->kind() == value::TypeKind::kTuple ? Value::tuple(operands)
                                                                    : ValueRef();
  }
  if (node.kind == NodeKind::kTupleIndex) {
    if (!operands[0]->is(ValueKind::kTuple) || !operands[1]->is(ValueKind::kInt)) return {};
    const auto size = static_cast<int64_t>(operands[0]->items().size());
    int64_t index = operands[1]->as_int();
    if (index < 0) index += size;
    return index >= 0 && index < size ? operands[0]->items()[static_cast<size_t>(index)]
                                      : ValueRef();
  }
  if (node.kind != NodeKind::kOperator) return {};
  const std::string_view full = node.schema->name;
  const std::string_view name = full.substr(full.find("::") + 2);
  if (name == "unchecked_cast" && operands.size() == 1) return operands[0];
  if (operands.size() == 1) return unary(name, *operands[0]);
  if (operands.size() == 2) return binary(name, *operands[0], *operands[1]);
  return {};
}

}  // namespace tenon::compile

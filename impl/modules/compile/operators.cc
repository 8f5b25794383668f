#include "modules/compile/operators.h"

namespace tenon::compile {

std::string_view operator_name(script::Operator op) noexcept {
  switch (op) {
    case script::Operator::kMinus: return "aten::neg";
    case script::Operator::kInvert: return "aten::bitwise_not";
    case script::Operator::kNot: return "aten::__not__";
    case script::Operator::kAdd: return "aten::add";
    case script::Operator::kSub: return "aten::sub";
    case script::Operator::kMul: return "aten::mul";
    case script::Operator::kDiv: return "aten::div";
    case script::Operator::kFloorDiv: return "aten::floordiv";
    case script::Operator::kMod: return "aten::remainder";
    case script::Operator::kMatMul: return "aten::matmul";
    case script::Operator::kPow: return "aten::pow";
    case script::Operator::kLeftShift: return "aten::__lshift__";
    case script::Operator::kRightShift: return "aten::__rshift__";
    case script::Operator::kBitAnd: return "aten::__and__";
    case script::Operator::kBitOr: return "aten::__or__";
    case script::Operator::kBitXor: return "aten::__xor__";
    case script::Operator::kLess: return "aten::lt";
    case script::Operator::kGreater: return "aten::gt";
    case script::Operator::kLessEqual: return "aten::le";
    case script::Operator::kGreaterEqual: return "aten::ge";
    case script::Operator::kEqual: return "aten::eq";
    case script::Operator::kNotEqual: return "aten::ne";
    case script::Operator::kIs: return "aten::__is__";
    case script::Operator::kIsNot: return "aten::__isnot__";
    case script::Operator::kIn:
    case script::Operator::kNotIn: return "aten::__contains__";
    default: return {};
  }
}

std::string_view augmented_name(script::Operator op) noexcept {
  return op == script::Operator::kMod ? "aten::fmod" : operator_name(op);
}

std::string_view in_place_name(script::Operator op) noexcept {
  switch (op) {
    case script::Operator::kAdd: return "aten::add_";
    case script::Operator::kSub: return "aten::sub_";
    case script::Operator::kMul: return "aten::mul_";
    case script::Operator::kDiv: return "aten::div_";
    case script::Operator::kMod: return "aten::fmod_";
    case script::Operator::kLeftShift: return "aten::__ilshift__";
    case script::Operator::kRightShift: return "aten::__irshift__";
    default: return {};
  }
}

}  // namespace tenon::compile

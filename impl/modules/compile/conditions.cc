// The part of FunctionCompiler that compiles conditions, and finds the types of variables that a
// condition implies.
#include <algorithm>
#include <utility>

#include "modules/compile/function_compiler.h"
#include "modules/compile/operators.h"
#include "modules/script/signature.h"

namespace tenon::compile {

using script::Expr;
using script::ExprKind;
using script::Operator;

namespace {

Condition known(bool answer) {
  Condition made;
  made.known = answer;
  return made;
}

// Reads the types that isinstance asks for: one type, or a tuple of types.
Status asked_types(const script::Source& source, const Expr& expr, std::vector<TypeRef>* out) {
  if (expr.kind == ExprKind::kTuple) {
    for (const Expr* child : expr.children) TENON_TRY(asked_types(source, *child, out));
    return {};
  }
  if (expr.kind == ExprKind::kName && (expr.text == "list" || expr.text == "tuple")) {
    out->push_back(Type::simple(expr.text == "list" ? TypeKind::kAnyList : TypeKind::kAnyTuple));
    return {};
  }
  TENON_ASSIGN(TypeRef type, script::annotation_type(source, expr));
  out->push_back(std::move(type));
  return {};
}

std::vector<TypeRef> members_of(const Type& type, const TypeRef& self) {
  if (type.kind() == TypeKind::kUnion) return {type.parts().begin(), type.parts().end()};
  if (type.kind() == TypeKind::kOptional) return {type.element(), Type::none()};
  return {self};
}

TypeRef together(const std::vector<TypeRef>& members) {
  if (members.empty()) return {};
  if (members.size() == 1) return members[0];
  Result<TypeRef> type = Type::union_of(members);
  return type.is_ok() ? std::move(type).value() : TypeRef();
}

void keep_common(const Condition::Refinements& a, const Condition::Refinements& b,
                 Condition::Refinements* out) {
  for (const auto& [name, type] : a) {
    const auto found = b.find(name);
    if (found != b.end() && found->second->equals(*type)) out->emplace(name, type);
  }
}

}  // namespace

Result<GraphValue*> FunctionCompiler::to_bool(GraphValue* value) {
  if (value->type->kind() == TypeKind::kBool) return value;
  const Type& type = *value->type;
  if (type.kind() == TypeKind::kList || type.kind() == TypeKind::kDict ||
      type.kind() == TypeKind::kStr) {
    TENON_ASSIGN(GraphValue* const length, operator_value("aten::len", {value}));
    return operator_value("aten::gt", {length, builder_.integer(0)});
  }
  return call_unary(&builder_, "aten::Bool", value);
}

Result<GraphValue*> FunctionCompiler::bool_of(const Condition& condition) {
  if (condition.value != nullptr) return condition.value;
  return builder_.constant(value::Value::of_bool(condition.known));
}

Status FunctionCompiler::condition(const Expr& expr, Condition* out) {
  const script::Range before = builder_.move_to(expr.range);
  const Nesting nesting(&unit_);
  if (nesting.is_too_deep()) return too_deep();
  if (expr.kind == ExprKind::kUnary && expr.op == Operator::kNot) {
    Condition inner;
    TENON_TRY(condition(expr.child(0), &inner));
    std::swap(inner.if_true, inner.if_false);
    if (inner.value == nullptr) {
      inner.known = !inner.known;
    } else {
      TENON_ASSIGN(inner.value, call_unary(&builder_, "aten::__not__", inner.value));
    }
    *out = std::move(inner);
  } else if (expr.kind == ExprKind::kBinary &&
             (expr.op == Operator::kIs || expr.op == Operator::kIsNot)) {
    bool done = false;
    TENON_TRY(comparison_with_none(expr, out, &done));
    if (!done) {
      TENON_ASSIGN(GraphValue* const given, value(expr));
      TENON_ASSIGN(out->value, to_bool(given));
    }
  } else if (expr.kind == ExprKind::kBinary &&
             (expr.op == Operator::kAnd || expr.op == Operator::kOr)) {
    TENON_TRY(logical(expr, out));
  } else if (expr.kind == ExprKind::kCall && expr.child(0).kind == ExprKind::kName &&
             expr.child(0).text == "isinstance" && environment_.find("isinstance") == nullptr) {
    TENON_TRY(is_instance(expr, out));
  } else {
    TENON_ASSIGN(GraphValue* const given, value(expr));
    TENON_ASSIGN(GraphValue* const made, to_bool(given));
    // The value of a literal, and of a call such as hasattr, is known. Then only one branch is
    // compiled.
    const bool is_literal = made->node != nullptr && made->node->kind == NodeKind::kConstant &&
                            !made->node->is_inlined &&
                            (expr.kind == ExprKind::kTrue || expr.kind == ExprKind::kFalse ||
                             expr.kind == ExprKind::kCall);
    if (is_literal)
      *out = known(made->node->constant->as_bool());
    else
      out->value = made;
  }
  builder_.move_to(before);
  return {};
}

Status FunctionCompiler::comparison_with_none(const Expr& expr, Condition* out, bool* done) {
  const bool left_is_none = expr.child(0).kind == ExprKind::kNone;
  const Expr& other = left_is_none ? expr.child(1) : expr.child(0);
  if (!left_is_none && expr.child(1).kind != ExprKind::kNone) return {};
  *done = true;
  TENON_ASSIGN(GraphValue* const given, value(other));
  const bool is_negated = expr.op == Operator::kIsNot;
  const std::vector<TypeRef> members = members_of(*given->type, given->type);
  const bool may_be_none = given->type->kind() == TypeKind::kAny ||
                           std::any_of(members.begin(), members.end(), [](const TypeRef& type) {
                             return type->kind() == TypeKind::kNone;
                           });
  if (!may_be_none || given->type->kind() == TypeKind::kNone) {
    *out = known(may_be_none != is_negated);
    if (other.kind == ExprKind::kName)
      (out->known ? out->if_true : out->if_false).emplace(other.text, given->type);
    return {};
  }
  GivenArguments operands;
  operands.positional = {{{}, given, other.range}, {{}, builder_.none(), expr.range}};
  SugaredValue made;
  TENON_TRY(call_operator(operator_name(expr.op), operands, &made));
  TENON_ASSIGN(out->value, value_of(std::move(made), expr.range));
  if (other.kind != ExprKind::kName || given->type->kind() == TypeKind::kAny) return {};
  std::vector<TypeRef> others;
  std::copy_if(members.begin(), members.end(), std::back_inserter(others),
               [](const TypeRef& type) { return type->kind() != TypeKind::kNone; });
  Condition::Refinements none{{std::string(other.text), Type::none()}};
  Condition::Refinements some{{std::string(other.text), together(others)}};
  out->if_true = is_negated ? some : none;
  out->if_false = is_negated ? none : some;
  return {};
}

Status FunctionCompiler::is_instance(const Expr& expr, Condition* out) {
  if (expr.arguments().size() != 2 || !expr.keywords.empty())
    return builder_.refuse("isinstance takes a value and its types");
  const Expr& subject = *expr.arguments()[0];
  TENON_ASSIGN(GraphValue* const given, value(subject));
  std::vector<TypeRef> asked;
  TENON_TRY(asked_types(builder_.source(), *expr.arguments()[1], &asked));
  const auto is_asked = [&](const TypeRef& type) {
    return std::any_of(asked.begin(), asked.end(), [&](const TypeRef& each) {
      return is_subtype(builder_.classes(), *type, *each);
    });
  };
  std::vector<TypeRef> yes;
  std::vector<TypeRef> no;
  bool is_open = given->type->kind() == TypeKind::kAny ||
                 given->type->kind() == TypeKind::kNumber ||
                 builder_.classes().is_interface(*given->type);
  for (const TypeRef& member : members_of(*given->type, given->type))
    (is_asked(member) ? yes : no).push_back(member);
  if (!is_open && (yes.empty() || no.empty())) {
    *out = known(no.empty());
    return {};
  }
  Node* const node = builder_.append(NodeKind::kIsInstance, {given});
  node->types = asked;
  out->value = builder_.graph().add_output(node, Type::boolean());
  if (subject.kind != ExprKind::kName) return {};
  if (is_open) yes = asked;
  if (const TypeRef type = together(yes)) out->if_true.emplace(subject.text, type);
  if (const TypeRef type = is_open ? TypeRef() : together(no))
    out->if_false.emplace(subject.text, type);
  return {};
}

// Compiles `a and b` as `b if a else False`, and `a or b` as `True if a else b`.
Status FunctionCompiler::logical(const Expr& expr, Condition* out) {
  const bool is_or = expr.op == Operator::kOr;
  Condition left;
  TENON_TRY(condition(expr.child(0), &left));
  if (left.value == nullptr) {
    if (left.known == is_or) {
      *out = std::move(left);
      return {};
    }
    const Condition::Refinements& told = is_or ? left.if_false : left.if_true;
    const size_t mark = environment_.begin();
    TENON_TRY(refine(told));
    TENON_TRY(condition(expr.child(1), out));
    environment_.take(mark);
    Condition::Refinements& all = is_or ? out->if_false : out->if_true;
    all.insert(told.begin(), told.end());
    return {};
  }
  Node* const node = builder_.append_if(left.value);
  Block* const around = builder_.block();
  Block* const fixed = node->blocks[is_or ? 0 : 1];
  Block* const open = node->blocks[is_or ? 1 : 0];
  builder_.enter(fixed);
  fixed->outputs.push_back(builder_.constant(value::Value::of_bool(is_or)));
  builder_.enter(open);
  const size_t mark = environment_.begin();
  TENON_TRY(refine(is_or ? left.if_false : left.if_true));
  Condition right;
  TENON_TRY(condition(expr.child(1), &right));
  TENON_ASSIGN(GraphValue* const value, bool_of(right));
  open->outputs.push_back(value);
  environment_.take(mark);
  builder_.enter(around);
  out->value = builder_.graph().add_output(node, Type::boolean());
  // If an `and` is true, both operands are true. If an `or` is false, both are false.
  Condition::Refinements& all = is_or ? out->if_false : out->if_true;
  all = is_or ? left.if_false : left.if_true;
  for (const auto& [name, type] : is_or ? right.if_false : right.if_true)
    all.insert_or_assign(name, type);
  keep_common(is_or ? left.if_true : left.if_false, is_or ? right.if_true : right.if_false,
              is_or ? &out->if_true : &out->if_false);
  return {};
}

}  // namespace tenon::compile

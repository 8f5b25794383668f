// The part of FunctionCompiler that compiles expressions, except for calls, attributes and
// subscripts.
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "modules/compile/function_compiler.h"
#include "modules/compile/operators.h"

namespace tenon::compile {

using script::Expr;
using script::ExprKind;
using script::Global;
using script::Operator;

Status FunctionCompiler::too_deep() const {
  return builder_.source().error(Code::kResourceExhausted, builder_.range(),
                                 format("expressions and statements stand in one another more than "
                                        "%zu deep here, with those of the "
                                        "functions that call this one",
                                        Unit::kMaxNesting));
}

Result<GraphValue*> FunctionCompiler::value(const Expr& expr, const TypeRef& hint) {
  SugaredValue made;
  TENON_TRY(sugar(expr, hint, &made));
  return value_of(std::move(made), expr.range);
}

Result<GraphValue*> FunctionCompiler::value_of(SugaredValue sugar, script::Range range) {
  switch (sugar.kind) {
    case SugaredValue::Kind::kValue: return sugar.value;
    case SugaredValue::Kind::kValues: return builder_.tuple(std::move(sugar.values));
    case SugaredValue::Kind::kGlobal:
      if (sugar.global == Global::kNumber) {
        const double infinity = HUGE_VAL;
        if (sugar.name == "inf") return builder_.constant(value::Value::of_float(infinity));
        if (sugar.name == "nan") return builder_.constant(value::Value::of_float(NAN));
        if (sugar.name == "infj") return builder_.constant(value::Value::of_complex({0, infinity}));
        return builder_.constant(value::Value::of_complex({0, NAN}));
      }
      break;
    case SugaredValue::Kind::kIterable:
      return builder_.refuse(
          range,
          sugar.name + "() is no value here. A loop can go over it, and list() makes a list of it");
    default: break;
  }
  return builder_.refuse(
      range, "this is no value: it can only be called, or asked for what stands after a dot");
}

Status FunctionCompiler::sugar(const Expr& expr, const TypeRef& hint, SugaredValue* out) {
  const script::Range before = builder_.move_to(expr.range);
  const Nesting nesting(&unit_);
  if (nesting.is_too_deep()) return too_deep();
  Status status;
  switch (expr.kind) {
    case ExprKind::kName: status = name(expr, out); break;
    case ExprKind::kAttribute: status = attribute(expr, out); break;
    case ExprKind::kCall: status = call(expr, hint, out); break;
    case ExprKind::kSubscript: status = subscript(expr, hint, out); break;
    case ExprKind::kInt:
    case ExprKind::kFloat:
    case ExprKind::kComplex: status = number(expr, out); break;
    case ExprKind::kString:
      *out = SugaredValue::of(builder_.constant(value::Value::of_str(std::string(expr.text))));
      break;
    case ExprKind::kTrue:
    case ExprKind::kFalse:
      *out =
          SugaredValue::of(builder_.constant(value::Value::of_bool(expr.kind == ExprKind::kTrue)));
      break;
    case ExprKind::kNone: *out = SugaredValue::of(builder_.none()); break;
    case ExprKind::kUnary: status = unary(expr, out); break;
    case ExprKind::kBinary: status = binary(expr, out); break;
    case ExprKind::kConditional: status = conditional(expr, hint, out); break;
    case ExprKind::kTuple: status = tuple_display(expr, hint, out); break;
    case ExprKind::kList: status = list_display(expr, hint, out); break;
    case ExprKind::kDict: status = dict_display(expr, hint, out); break;
    case ExprKind::kListComp:
    case ExprKind::kDictComp: status = comprehension(expr, hint, out); break;
    case ExprKind::kSlice:
    case ExprKind::kEllipsis:
    case ExprKind::kNoneType:
    case ExprKind::kStarred: status = builder_.refuse("this is no value"); break;
  }
  builder_.move_to(before);
  return status;
}

void FunctionCompiler::name_sugar(std::string_view name, SugaredValue sugar) {
  environment_.set(name, {});
  named_sugars_.insert_or_assign(std::string(name), NamedSugar{std::move(sugar), builder_.block()});
}

const SugaredValue* FunctionCompiler::sugar_of_name(std::string_view name) const {
  const auto found = named_sugars_.find(name);
  if (found == named_sugars_.end()) return nullptr;
  const Block* block = builder_.block();
  while (block != found->second.block && block->owner != nullptr) block = block->owner->owner;
  return block == found->second.block ? &found->second.sugar : nullptr;
}

Status FunctionCompiler::name(const Expr& expr, SugaredValue* out) {
  if (const Local* const variable = environment_.find(expr.text)) {
    const SugaredValue* const known =
        variable->value == nullptr ? sugar_of_name(expr.text) : nullptr;
    if (known != nullptr) {
      *out = *known;
      return {};
    }
    if (variable->value == nullptr)
      return builder_.refuse(std::string(expr.text) + " is not set on every way that leads here");
    *out = SugaredValue::of(variable->value);
    return {};
  }
  const std::optional<Global> global = script::find_global(expr.text);
  if (!global) return builder_.refuse("there is no variable " + std::string(expr.text));
  *out = SugaredValue::of(SugaredValue::Kind::kGlobal, std::string(expr.text));
  out->global = *global;
  if (*global == Global::kTorch) {
    out->kind = SugaredValue::Kind::kNamespace;
    out->name = "aten";
  } else if (*global == Global::kQualified) {
    out->kind = SugaredValue::Kind::kQualified;
  }
  return {};
}

Status FunctionCompiler::number(const Expr& expr, SugaredValue* out) {
  const std::string text(expr.text);
  if (expr.kind == ExprKind::kInt) {
    errno = 0;
    const int64_t parsed = std::strtoll(text.c_str(), nullptr, 0);
    if (errno == ERANGE) return builder_.refuse("this number does not fit into 64 bits");
    *out = SugaredValue::of(builder_.integer(parsed));
  } else if (expr.kind == ExprKind::kFloat) {
    *out = SugaredValue::of(
        builder_.constant(value::Value::of_float(std::strtod(text.c_str(), nullptr))));
  } else {
    *out = SugaredValue::of(
        builder_.constant(value::Value::of_complex({0, std::strtod(text.c_str(), nullptr)})));
  }
  return {};
}

Status FunctionCompiler::unary(const Expr& expr, SugaredValue* out) {
  if (expr.op == Operator::kNot) {
    Condition made;
    TENON_TRY(condition(expr, &made));
    TENON_ASSIGN(GraphValue* const answer, bool_of(made));
    *out = SugaredValue::of(answer);
    return {};
  }
  TENON_ASSIGN(GraphValue* const operand, value(expr.child(0)));
  TENON_ASSIGN(GraphValue* const made, operator_value(operator_name(expr.op), {operand}));
  *out = SugaredValue::of(made);
  return {};
}

Status FunctionCompiler::binary(const Expr& expr, SugaredValue* out) {
  if (expr.op == Operator::kAnd || expr.op == Operator::kOr) {
    Condition made;
    TENON_TRY(logical(expr, &made));
    TENON_ASSIGN(GraphValue* const answer, bool_of(made));
    *out = SugaredValue::of(answer);
    return {};
  }
  if (expr.op == Operator::kIs || expr.op == Operator::kIsNot) {
    Condition made;
    bool done = false;
    TENON_TRY(comparison_with_none(expr, &made, &done));
    if (done) {
      TENON_ASSIGN(GraphValue* const answer, bool_of(made));
      *out = SugaredValue::of(answer);
      return {};
    }
  }
  const bool is_membership = expr.op == Operator::kIn || expr.op == Operator::kNotIn;
  TENON_ASSIGN(GraphValue* const left, value(expr.child(0)));
  TENON_ASSIGN(GraphValue* const right, value(expr.child(1)));
  if (expr.op == Operator::kAdd && is_tuple(*left->type) && is_tuple(*right->type)) {
    std::vector<GraphValue*> items = builder_.unpack(left);
    const std::vector<GraphValue*> more = builder_.unpack(right);
    items.insert(items.end(), more.begin(), more.end());
    *out = SugaredValue::of(builder_.tuple(std::move(items)));
    return {};
  }
  std::vector<GraphValue*> operands =
      is_membership ? std::vector<GraphValue*>{right, left} : std::vector<GraphValue*>{left, right};
  const bool is_format = expr.op == Operator::kMod && left->type->kind() == TypeKind::kStr;
  TENON_ASSIGN(GraphValue * made,
               operator_value(is_format ? "aten::percentFormat" : operator_name(expr.op),
                              std::move(operands)));
  if (expr.op == Operator::kNotIn) {
    TENON_ASSIGN(made, call_unary(&builder_, "aten::__not__", made));
  }
  *out = SugaredValue::of(made);
  return {};
}

Status FunctionCompiler::conditional(const Expr& expr, const TypeRef& hint, SugaredValue* out) {
  Condition chosen;
  TENON_TRY(condition(expr.child(0), &chosen));
  if (chosen.value == nullptr) return sugar(expr.child(chosen.known ? 1 : 2), hint, out);
  Node* const node = builder_.append_if(chosen.value);
  Block* const around = builder_.block();
  GraphValue* values[2] = {};
  for (int side = 0; side < 2; ++side) {
    builder_.enter(node->blocks[static_cast<size_t>(side)]);
    const size_t mark = environment_.begin();
    TENON_TRY(refine(side == 0 ? chosen.if_true : chosen.if_false));
    TENON_ASSIGN(values[side], value(expr.child(static_cast<size_t>(side) + 1), hint));
    environment_.take(mark);
  }
  builder_.enter(around);
  const TypeRef type = unify(builder_.classes(), values[0]->type, values[1]->type);
  if (!type)
    return builder_.refuse("both sides of a conditional have one type, and these are " +
                           with_article(*values[0]->type) + " and " +
                           with_article(*values[1]->type));
  for (int side = 0; side < 2; ++side) {
    builder_.enter(node->blocks[static_cast<size_t>(side)]);
    node->blocks[static_cast<size_t>(side)]->outputs.push_back(
        convert(&builder_, values[side], type, false));
  }
  builder_.enter(around);
  *out = SugaredValue::of(builder_.graph().add_output(node, type));
  return {};
}

Status FunctionCompiler::list_display(const Expr& expr, const TypeRef& hint, SugaredValue* out) {
  const TypeRef wanted = hint ? without_optional(hint) : TypeRef();
  const bool is_hinted = wanted && wanted->kind() == TypeKind::kList;
  std::vector<GraphValue*> items;
  for (const Expr* child : expr.children) {
    TENON_ASSIGN(GraphValue* const item, value(*child, is_hinted ? wanted->element() : TypeRef()));
    items.push_back(item);
  }
  TypeRef element = is_hinted ? wanted->element() : TypeRef();
  if (!is_hinted) {
    for (const GraphValue* item : items) {
      element = element ? unify(builder_.classes(), element, item->type) : item->type;
      if (!element)
        return builder_.refuse("the items of a list have one type, and these have several");
    }
  } else {
    for (GraphValue*& item : items) {
      GraphValue* const converted = convert(&builder_, item, element, true);
      if (converted == nullptr || !is_subtype(builder_.classes(), *converted->type, *element))
        return builder_.refuse("this is a list of " + element->print() + ", and an item is " +
                               with_article(*item->type));
      item = converted;
    }
  }
  const bool is_open = items.empty() && !is_hinted;
  GraphValue* const made = builder_.list(element ? element : Type::tensor(), std::move(items));
  made->is_empty_list = is_open;
  *out = SugaredValue::of(made);
  return {};
}

Status FunctionCompiler::dict_display(const Expr& expr, const TypeRef& hint, SugaredValue* out) {
  const TypeRef wanted = hint ? without_optional(hint) : TypeRef();
  const bool is_hinted = wanted && wanted->kind() == TypeKind::kDict;
  std::vector<GraphValue*> items;
  for (size_t i = 0; i < expr.children.size(); ++i) {
    const TypeRef type = !is_hinted ? TypeRef() : i % 2 == 0 ? wanted->key() : wanted->mapped();
    TENON_ASSIGN(GraphValue* const item, value(expr.child(i), type));
    items.push_back(item);
  }
  return dict_of(std::move(items), hint, out);
}

Status FunctionCompiler::dict_of(std::vector<GraphValue*> items, const TypeRef& hint,
                                 SugaredValue* out) {
  const TypeRef wanted = hint ? without_optional(hint) : TypeRef();
  const bool is_hinted = wanted && wanted->kind() == TypeKind::kDict;
  TypeRef types[2] = {is_hinted ? wanted->key() : TypeRef(),
                      is_hinted ? wanted->mapped() : TypeRef()};
  for (size_t i = 0; i < items.size(); ++i) {
    TypeRef& type = types[i % 2];
    GraphValue*& item = items[i];
    if (is_hinted) {
      item = convert(&builder_, item, type, true);
      if (item == nullptr || !is_subtype(builder_.classes(), *item->type, *type))
        return builder_.refuse("this is a " + wanted->print() + ", and an item does not fit");
    } else {
      type = type ? unify(builder_.classes(), type, item->type) : item->type;
      if (!type)
        return builder_.refuse("the items of a dict have one type, and these have several");
    }
  }
  if (!types[0]) {
    types[0] = Type::str();
    types[1] = Type::tensor();
  }
  Result<TypeRef> type = Type::dict(types[0], types[1]);
  if (!type.is_ok()) return builder_.refuse(type.status().message());
  *out = SugaredValue::of(
      builder_.append_value(NodeKind::kDictConstruct, std::move(items), std::move(type).value()));
  return {};
}

Status FunctionCompiler::dict_of_keywords(const Expr& expr, const TypeRef& hint,
                                          SugaredValue* out) {
  const script::ExprList given = expr.arguments();
  if (given.size() > 1)
    return builder_.refuse(expr.range,
                           format("dict() takes one dict at most, and gets %zu", given.size()));
  GraphValue* made = nullptr;
  const bool is_empty =
      given.empty() || (given[0]->kind == ExprKind::kDict && given[0]->children.empty());
  if (!is_empty) {
    TENON_TRY(container_of(expr, true, hint, out));
    TENON_ASSIGN(made, value_of(std::move(*out), expr.range));
  }
  std::vector<GraphValue*> items;
  for (const script::Keyword& keyword : expr.keywords) {
    GraphValue* const key = builder_.constant(value::Value::of_str(std::string(keyword.name)));
    TENON_ASSIGN(GraphValue* const item, value(*keyword.value));
    if (made != nullptr) TENON_TRY(operator_value("aten::_set_item", {made, key, item}).status());
    items.insert(items.end(), {key, item});
  }
  if (made == nullptr) return dict_of(std::move(items), hint, out);
  *out = SugaredValue::of(made);
  return {};
}

bool FunctionCompiler::is_tuple(const Type& type) const {
  return type.kind() == TypeKind::kTuple || builder_.classes().is_named_tuple(type);
}

Status FunctionCompiler::tuple_display(const Expr& expr, const TypeRef& hint, SugaredValue* out) {
  const TypeRef wanted = hint ? without_optional(hint) : TypeRef();
  const bool is_hinted = wanted && wanted->kind() == TypeKind::kTuple &&
                         wanted->parts().size() == expr.children.size();
  std::vector<GraphValue*> items;
  for (size_t i = 0; i < expr.children.size(); ++i) {
    const Expr& child = expr.child(i);
    if (child.kind == ExprKind::kStarred) {
      TENON_ASSIGN(GraphValue* const several, value(child.child(0)));
      if (!is_tuple(*several->type))
        return builder_.refuse(child.range, "only a tuple can be given with a star");
      const std::vector<GraphValue*> unpacked = builder_.unpack(several);
      items.insert(items.end(), unpacked.begin(), unpacked.end());
      continue;
    }
    TENON_ASSIGN(GraphValue* const item, value(child, is_hinted ? wanted->parts()[i] : TypeRef()));
    items.push_back(item);
  }
  *out = SugaredValue::of(builder_.tuple(std::move(items)));
  return {};
}

}  // namespace tenon::compile

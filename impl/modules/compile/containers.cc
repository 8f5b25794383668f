// The part of FunctionCompiler that makes containers from iterables: comprehensions, and calls of
// `list`, `dict` and `tuple`.
#include <memory>
#include <utility>

#include "modules/compile/function_compiler.h"

namespace tenon::compile {

using script::Expr;
using script::ExprKind;

// Makes a list of the elements that `entry` compiles for each round, or a dict of its pairs.
Status FunctionCompiler::collect(const Iterable& over, bool is_dict, const TypeRef& hint,
                                 script::Range range, const Entry& entry, SugaredValue* out) {
  // The container's type is known only after the first element. Its node gets the type then.
  Node* const made = builder_.append(is_dict ? NodeKind::kDictConstruct : NodeKind::kListConstruct);
  const TypeKind kind = is_dict ? TypeKind::kDict : TypeKind::kList;
  const bool is_hinted = hint && without_optional(hint)->kind() == kind;
  GraphValue* const container =
      builder_.graph().add_output(made, is_hinted ? without_optional(hint) : Type::any());
  const auto element = [&](GraphValue* index) -> Status {
    TENON_TRY(builder_.check_size());
    TENON_ASSIGN(SugaredValue item, item_of(over, index));
    GraphValue* first = nullptr;
    GraphValue* second = nullptr;
    TENON_TRY(entry(std::move(item), &first, &second));
    if (container->type->kind() == TypeKind::kAny) {
      Result<TypeRef> type =
          is_dict ? Type::dict(first->type, second->type) : Type::list(first->type);
      if (!type.is_ok()) return builder_.refuse(range, type.status().message());
      container->type = std::move(type).value();
    }
    if (is_dict) return operator_value("aten::_set_item", {container, first, second}).status();
    return operator_value("aten::append", {container, first}).status();
  };
  const size_t mark = environment_.begin();
  if (over.kind == Iterable::Kind::kTuple) {
    if (over.items.size() > kMostUnrolled)
      return builder_.refuse(range, "this tuple has too many items for a loop");
    for (size_t i = 0; i < over.items.size(); ++i)
      TENON_TRY(element(builder_.integer(static_cast<int64_t>(i))));
  } else {
    TENON_ASSIGN(GraphValue* const rounds, length_of(over));
    TENON_TRY(loop(rounds, nullptr, {}, {}, element));
  }
  environment_.take(mark);
  if (container->type->kind() == TypeKind::kAny)
    return builder_.refuse(range, "annotate says of what type this is, which has no items");
  *out = SugaredValue::of(container);
  return {};
}

// Compiles `[element for target in iterable]`, or such a comprehension of a dict.
Status FunctionCompiler::comprehension(const Expr& expr, const TypeRef& hint, SugaredValue* out) {
  const bool is_dict = expr.kind == ExprKind::kDictComp;
  const Expr& target = expr.child(is_dict ? 2 : 1);
  Iterable over;
  TENON_TRY(iterable(expr.child(is_dict ? 3 : 2), &over));
  const Entry entry = [&](SugaredValue item, GraphValue** first, GraphValue** second) -> Status {
    TENON_TRY(assign(target, std::move(item), nullptr));
    TENON_ASSIGN(*first, value(expr.child(0)));
    if (is_dict) {
      TENON_ASSIGN(*second, value(expr.child(1)));
    }
    return {};
  };
  return collect(over, is_dict, hint, expr.range, entry, out);
}

// Compiles `list(range(n))`, `dict(zip(a, b))` and the like.
Status FunctionCompiler::container_of(const Expr& expr, bool is_dict, const TypeRef& hint,
                                      SugaredValue* out) {
  const Expr& given = *expr.arguments()[0];
  SugaredValue made;
  TENON_TRY(sugar(given, nullptr, &made));
  Iterable over;
  if (made.kind == SugaredValue::Kind::kIterable) {
    over = *made.iterable;
  } else {
    TENON_ASSIGN(GraphValue* const base, value_of(std::move(made), given.range));
    const TypeKind kind = base->type->kind();
    // The lite interpreter's aten::dict fails for a list of pairs.
    const bool is_copied =
        is_dict ? kind == TypeKind::kDict : kind == TypeKind::kList || kind == TypeKind::kStr;
    if (is_copied) {
      TENON_ASSIGN(GraphValue* const copy,
                   operator_value(is_dict ? "aten::dict" : "aten::list", {base}));
      *out = SugaredValue::of(copy);
      return {};
    }
    if (kind == TypeKind::kTuple && !is_dict) {
      const std::vector<GraphValue*> items = builder_.unpack(base);
      TypeRef element;
      for (const GraphValue* item : items)
        element = element ? unify(builder_.classes(), element, item->type) : item->type;
      if (!element)
        return builder_.refuse("this tuple has items of several types, and a list has one");
      *out = SugaredValue::of(builder_.list(element, items));
      return {};
    }
    TENON_TRY(iterable_of(base, given.range, &over));
  }
  const Entry entry = [&](SugaredValue item, GraphValue** first, GraphValue** second) -> Status {
    TENON_ASSIGN(*first, value_of(std::move(item), expr.range));
    if (!is_dict) return {};
    const bool is_tuple = (*first)->type->kind() == TypeKind::kTuple;
    const std::vector<GraphValue*> pair =
        is_tuple ? builder_.unpack(*first) : std::vector<GraphValue*>();
    if (pair.size() != 2)
      return builder_.refuse(expr.range, "dict() takes pairs of a key and a value");
    *first = pair[0];
    *second = pair[1];
    return {};
  };
  return collect(over, is_dict, hint, expr.range, entry, out);
}

Status FunctionCompiler::call_container(const Expr& expr, std::string_view name,
                                        const TypeRef& hint, SugaredValue* out) {
  const script::ExprList given = expr.arguments();
  if (is_iterable_call(expr)) {
    auto made = std::make_shared<Iterable>();
    TENON_TRY(iterable(expr, made.get()));
    *out = SugaredValue::of(SugaredValue::Kind::kIterable, std::string(name));
    out->iterable = std::move(made);
    return {};
  }
  if ((name == "list" || name == "dict") && given.size() == 1)
    return container_of(expr, name == "dict", hint, out);
  if (name == "list" && given.empty()) {
    const TypeRef wanted = hint ? without_optional(hint) : TypeRef();
    const bool is_hinted = wanted && wanted->kind() == TypeKind::kList;
    *out = SugaredValue::of(builder_.list(is_hinted ? wanted->element() : Type::tensor(), {}));
    return {};
  }
  if (name == "tuple" && given.size() == 1) {
    TENON_ASSIGN(GraphValue* const base, value(*given[0]));
    if (base->type->kind() == TypeKind::kTuple) {
      *out = SugaredValue::of(base);
      return {};
    }
    return builder_.refuse("how many items " + with_article(*base->type) +
                           " has is not known here, and a tuple has a fixed number");
  }
  std::string text =
      std::string(name) + format("() takes one argument, and gets %zu", given.size());
  if (name == "dict") text += ". PyTorch runs this call, and makes a dict of the first alone";
  return builder_.unsupported(text);
}

}  // namespace tenon::compile

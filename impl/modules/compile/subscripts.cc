// The part of FunctionCompiler that compiles subscripts, `x[...]`, both read and assigned.
#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "modules/compile/function_compiler.h"
#include "modules/compile/operators.h"

namespace tenon::compile {

using script::Expr;
using script::ExprKind;

// Compiles the subscript of an object: a call of its `__getitem__`, or a part of a ModuleList or
// ModuleDict. PyTorch finds such a part at run time, and takes its type from the code around it
// without a check.
Status FunctionCompiler::subscript_object(const Expr& expr, GraphValue* base, GraphValue* at,
                                          const TypeRef& hint, SugaredValue* out) {
  const script::Range index = expr.arguments()[0]->range;
  TENON_ASSIGN(const ClassInfo* const info, builder_.classes().find(base->type->class_name()));
  if (info != nullptr && info->declaration->is_module() &&
      info->find_method("__getitem__") == nullptr) {
    if (!hint) {
      return builder_.refuse(expr.range,
                             "which part of " + base->type->class_name() +
                                 " this is, is known at run time only. Say of what type it is, as "
                                 "in `part : __torch__.Interface = parts[i]`");
    }
    TENON_ASSIGN(GraphValue* const part, operator_value("prim::ModuleContainerIndex", {base, at}));
    part->type = hint;
    *out = SugaredValue::of(part);
    return {};
  }
  SugaredValue method;
  TENON_TRY(attribute_of_value(base, "__getitem__", expr.range, &method));
  if (method.kind != SugaredValue::Kind::kMethod && method.kind != SugaredValue::Kind::kInterface)
    return builder_.refuse("this has no items");
  GivenArguments given;
  given.positional.push_back({{}, at, index});
  return call_sugar(expr, method, given, out);
}

Status FunctionCompiler::subscript(const Expr& expr, const TypeRef& hint, SugaredValue* out) {
  TENON_ASSIGN(GraphValue* const base, value(expr.child(0)));
  const script::ExprList indices = expr.arguments();
  if (base->type->kind() == TypeKind::kTensor) return index_tensor(base, indices, out);
  if (indices.size() != 1) return builder_.refuse(with_article(*base->type) + " has one index");
  const Expr& index = *indices[0];
  if (index.kind == ExprKind::kSlice) {
    if (is_tuple(*base->type)) return slice_tuple(base, index, out);
    TENON_ASSIGN(GraphValue* const made, sliced(base, nullptr, index));
    *out = SugaredValue::of(made);
    return {};
  }
  TENON_ASSIGN(GraphValue* const at, value(index));
  if (is_tuple(*base->type)) {
    const bool is_named = base->type->kind() != TypeKind::kTuple;
    const std::vector<TypeRef> fields =
        is_named ? builder_.classes().items_of(*base->type) : std::vector<TypeRef>();
    const std::span<const TypeRef> items =
        is_named ? std::span<const TypeRef>(fields) : base->type->parts();
    int64_t number = 0;
    if (!known_int(at, &number)) {
      if (at->type->kind() != TypeKind::kInt)
        return builder_.refuse(index.range, "the index of a tuple is an int");
      const auto is_first = [&](const TypeRef& item) { return item->equals(*items[0]); };
      if (items.empty() || !std::all_of(items.begin(), items.end(), is_first))
        return builder_.refuse(index.range,
                               "the items of this tuple have several types, so its index is a "
                               "number that stands here");
      *out = SugaredValue::of(builder_.append_value(NodeKind::kTupleIndex, {base, at}, items[0]));
      return {};
    }
    const int64_t size = static_cast<int64_t>(items.size());
    if (number < -size || number >= size)
      return builder_.refuse(index.range, format("this tuple has %zu items", items.size()));
    TypeRef type = items[static_cast<size_t>(number < 0 ? number + size : number)];
    if (base->node != nullptr && base->node->kind == NodeKind::kTupleConstruct &&
        !base->node->is_inlined) {
      *out = SugaredValue::of(
          base->node->inputs[static_cast<size_t>(number < 0 ? number + size : number)]);
      return {};
    }
    *out =
        SugaredValue::of(builder_.append_value(NodeKind::kTupleIndex, {base, at}, std::move(type)));
    return {};
  }
  if (base->type->kind() == TypeKind::kClass) return subscript_object(expr, base, at, hint, out);
  TENON_ASSIGN(GraphValue* const made, operator_value("aten::__getitem__", {base, at}));
  *out = SugaredValue::of(made);
  return {};
}

Result<GraphValue*> FunctionCompiler::sliced(GraphValue* base, GraphValue* dimension,
                                             const Expr& slice) {
  std::vector<GraphValue*> operands{base};
  if (dimension != nullptr) operands.push_back(dimension);
  for (size_t i = 0; i < 3; ++i) {
    if (slice.children[i] != nullptr) {
      TENON_ASSIGN(GraphValue* const bound, value(slice.child(i)));
      operands.push_back(bound);
    } else if (i == 2) {
      operands.push_back(builder_.integer(1));
    } else {
      operands.push_back(builder_.none());
    }
  }
  return operator_value("aten::slice", std::move(operands));
}

Status FunctionCompiler::slice_tuple(GraphValue* base, const Expr& slice, SugaredValue* out) {
  std::vector<TypeRef> items = builder_.classes().items_of(*base->type);
  std::optional<int64_t> given[3];  // where the slice starts, where it stops, and its step
  for (size_t i = 0; i < 3; ++i) {
    if (slice.children[i] == nullptr) continue;
    TENON_ASSIGN(GraphValue* const bound, value(slice.child(i)));
    int64_t number = 0;
    if (!known_int(bound, &number))
      return builder_.refuse(
          "the bounds and the step of a tuple's slice are numbers that are known here");
    given[i] = number;
  }
  const int64_t step = given[2].value_or(1);
  if (step == 0) return builder_.refuse("the step of a slice is not 0");
  const auto size = static_cast<int64_t>(items.size());
  // A slice with a negative step starts at the last item at most, and can stop before the first.
  const int64_t least = step < 0 ? -1 : 0;
  const int64_t most = step < 0 ? size - 1 : size;
  const auto bound = [&](const std::optional<int64_t>& number, int64_t missing) {
    if (!number) return missing;
    return std::clamp(*number < 0 ? *number + size : *number, least, most);
  };
  const int64_t start = bound(given[0], step < 0 ? most : least);
  const int64_t stop = bound(given[1], step < 0 ? least : most);
  if (step == 1) {
    const int64_t end = std::max(start, stop);
    Result<TypeRef> type = Type::tuple({items.begin() + start, items.begin() + end});
    if (!type.is_ok()) return builder_.refuse(type.status().message());
    Node* const node = builder_.append(NodeKind::kTupleSlice, {base});
    node->number = start;
    node->end = end;
    *out = SugaredValue::of(builder_.graph().add_output(node, std::move(type).value()));
    return {};
  }
  const std::vector<GraphValue*> values = builder_.unpack(base);
  std::vector<GraphValue*> taken;
  // Any step beyond the end takes one item, so the step can be limited. Then `at` cannot overflow.
  const int64_t bounded = std::clamp(step, -size - 1, size + 1);
  for (int64_t at = start; step < 0 ? at > stop : at < stop; at += bounded)
    taken.push_back(values[static_cast<size_t>(at)]);
  *out = SugaredValue::of(builder_.tuple(std::move(taken)));
  return {};
}

Status FunctionCompiler::view_of(GraphValue* base, script::ExprList indices, GraphValue** view,
                                 std::vector<GraphValue*>* tensors) {
  // `...` stands for all dimensions that no other index takes. The dimensions after it are counted
  // from the end.
  size_t after_ellipsis = 0;
  bool has_ellipsis = false;
  for (const Expr* index : indices) {
    if (index->kind == ExprKind::kEllipsis) {
      if (has_ellipsis) return builder_.refuse(index->range, "there is more than one `...`");
      has_ellipsis = true;
    } else if (has_ellipsis && index->kind != ExprKind::kNone) {
      ++after_ellipsis;
    }
  }
  int64_t dimension = 0;
  std::vector<std::pair<int64_t, GraphValue*>> found;
  GraphValue* value = base;
  for (const Expr* index : indices) {
    if (index->kind == ExprKind::kEllipsis) {
      dimension = -static_cast<int64_t>(after_ellipsis);
      for (const Expr* later : indices) {
        if (later->range.begin > index->range.begin && later->kind == ExprKind::kNone) --dimension;
      }
      continue;
    }
    GraphValue* const at = builder_.integer(dimension);
    if (index->kind == ExprKind::kSlice) {
      TENON_ASSIGN(value, sliced(value, at, *index));
      ++dimension;
      continue;
    }
    if (index->kind == ExprKind::kNone) {
      TENON_ASSIGN(value, operator_value("aten::unsqueeze", {value, at}));
      ++dimension;
      continue;
    }
    TENON_ASSIGN(GraphValue* const given, this->value(*index));
    if (given->type->kind() == TypeKind::kInt) {
      TENON_ASSIGN(value, operator_value("aten::select", {value, at, given}));
      // select() removes the dimension. Dimensions after it keep their negative numbers.
      if (dimension < 0) ++dimension;
      continue;
    }
    GraphValue* tensor = given;
    if (given->type->kind() == TypeKind::kList) {
      TENON_ASSIGN(tensor, operator_value("aten::tensor", {given}));
    }
    if (!is_subtype(builder_.classes(), *tensor->type, *without_optional(tensor->type)) ||
        without_optional(tensor->type)->kind() != TypeKind::kTensor)
      return builder_.refuse(index->range,
                             "a Tensor has no index that is " + with_article(*given->type));
    if (dimension < 0)
      return builder_.unsupported("Tenon does not compile a Tensor as an index after `...` yet");
    found.emplace_back(dimension, tensor);
    ++dimension;
  }
  *view = value;
  for (const auto& [at, tensor] : found) {
    while (static_cast<int64_t>(tensors->size()) < at) tensors->push_back(builder_.none());
    tensors->push_back(tensor);
  }
  return {};
}

Status FunctionCompiler::index_tensor(GraphValue* base, script::ExprList indices,
                                      SugaredValue* out) {
  GraphValue* view = nullptr;
  std::vector<GraphValue*> tensors;
  script::ExprList items = indices;
  if (indices.size() == 1 && indices[0]->kind == ExprKind::kTuple) items = indices[0]->children;
  TENON_TRY(view_of(base, items, &view, &tensors));
  if (!tensors.empty()) {
    Result<TypeRef> element = Type::optional(Type::tensor());
    TENON_ASSIGN(view, operator_value("aten::index",
                                      {view, builder_.list(element.value(), std::move(tensors))}));
  }
  *out = SugaredValue::of(view);
  return {};
}

Status FunctionCompiler::assign_subscript(const Expr& target, GraphValue* value,
                                          const script::Stmt* augmented) {
  TENON_ASSIGN(GraphValue* const base, this->value(target.child(0)));
  script::ExprList indices = target.arguments();
  if (base->type->kind() != TypeKind::kTensor) {
    if (indices.size() != 1 || indices[0]->kind == ExprKind::kSlice)
      return builder_.refuse(target.range,
                             "PyTorch assigns to single items of a list or a dict only");
    TENON_ASSIGN(GraphValue* const at, this->value(*indices[0]));
    if (augmented != nullptr) {
      TENON_ASSIGN(value, this->value(*augmented->value));
      TENON_ASSIGN(GraphValue* const before, operator_value("aten::__getitem__", {base, at}));
      // PyTorch takes the type of a dict's keys for the type of its items here. So an item of a
      // dict is replaced, and an item of a list may be changed in place.
      const bool is_dict = base->type->kind() == TypeKind::kDict;
      const std::string_view name =
          augmenting_name(augmented->op, is_dict ? *base->type->key() : *before->type);
      TENON_ASSIGN(value, operator_value(name, {before, value}));
    }
    if (base->type->kind() == TypeKind::kClass) {
      SugaredValue method;
      TENON_TRY(attribute_of_value(base, "__setitem__", target.range, &method));
      if (method.kind != SugaredValue::Kind::kMethod &&
          method.kind != SugaredValue::Kind::kInterface)
        return builder_.refuse("this has no items");
      GivenArguments given;
      given.positional = {{{}, at, target.range}, {{}, value, target.range}};
      SugaredValue ignored;
      return call_sugar(target, method, given, &ignored);
    }
    return operator_value("aten::_set_item", {base, at, value}).status();
  }
  if (indices.size() == 1 && indices[0]->kind == ExprKind::kTuple) indices = indices[0]->children;
  GraphValue* view = nullptr;
  std::vector<GraphValue*> tensors;
  TENON_TRY(view_of(base, indices, &view, &tensors));
  if (augmented != nullptr) {
    TENON_ASSIGN(value, this->value(*augmented->value));
    const std::string_view name = augmenting_name(augmented->op, *view->type);
    // PyTorch drops the result of the operator. `|=`, `&=`, `^=` and `**=` have no operator that
    // works in place, so these assignments have no effect on a view.
    if (tensors.empty()) return operator_value(name, {view, value}).status();
    Result<TypeRef> element = Type::optional(Type::tensor());
    TENON_ASSIGN(GraphValue* const before,
                 operator_value("aten::index", {view, builder_.list(element.value(), tensors)}));
    TENON_ASSIGN(value, operator_value(name, {before, value}));
  } else if (value->type->kind() != TypeKind::kTensor) {
    // A number becomes a Tensor with the element type and the device of the view.
    TENON_ASSIGN(GraphValue* const dtype, operator_value("prim::dtype", {view}));
    TENON_ASSIGN(GraphValue* const device, operator_value("prim::device", {view}));
    const std::span<const script::Schema* const> makers =
        script::SchemaTable::get().schemas("aten::tensor", unit_.torch());
    GivenArguments given;
    given.positional = {{{}, value, target.range}};
    given.keywords = {{"dtype", dtype, target.range}, {"device", device, target.range}};
    TENON_ASSIGN(Match matched, match(&builder_, "torch.tensor", makers, given));
    value = builder_.append_operator(*makers[matched.candidate], std::move(matched.inputs),
                                     std::move(matched.returns))[0];
  }
  if (tensors.empty()) return operator_value("aten::copy_", {view, value}).status();
  Result<TypeRef> element = Type::optional(Type::tensor());
  return operator_value("aten::index_put_",
                        {view, builder_.list(element.value(), std::move(tensors)), value})
      .status();
}

}  // namespace tenon::compile

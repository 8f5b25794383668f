#include "modules/compile/builder.h"

#include <utility>

namespace tenon::compile {

using value::ValueKind;

TypeRef type_of_literal(const value::Value& literal) {
  switch (literal.kind()) {
    case ValueKind::kNone: return Type::none();
    case ValueKind::kBool: return Type::boolean();
    case ValueKind::kInt: return Type::integer();
    case ValueKind::kFloat: return Type::floating();
    case ValueKind::kComplex: return Type::complex();
    case ValueKind::kStr: return Type::str();
    case ValueKind::kDevice: return Type::device();
    case ValueKind::kTensor: return Type::tensor();
    case ValueKind::kTuple: {
      std::vector<TypeRef> items;
      for (const value::ValueRef& item : literal.items()) {
        items.push_back(type_of_literal(*item));
        if (!items.back()) return {};
      }
      Result<TypeRef> type = Type::tuple(std::move(items));
      return type.is_ok() ? std::move(type).value() : TypeRef();
    }
    default: return {};
  }
}

Node* Builder::append(NodeKind kind, std::vector<GraphValue*> inputs) {
  Node* const node = graph_.make_node(kind);
  node->inputs = std::move(inputs);
  node->owner = block_;
  node->source = &source_;
  node->range = range_;
  block_->nodes.push_back(node);
  return node;
}

Node* Builder::append_if(GraphValue* condition) {
  Node* const node = append(NodeKind::kIf, {condition});
  for (int i = 0; i < 2; ++i) node->blocks.push_back(graph_.make_block(node));
  return node;
}

Result<GraphValue*> Builder::unchecked_cast(GraphValue* value, TypeRef type) {
  const std::span<const script::Schema* const> casts =
      script::SchemaTable::get().schemas("prim::unchecked_cast", torch_);
  if (casts.empty()) return refuse("this PyTorch has no unchecked_cast");
  return append_operator(*casts[0], {value}, {std::move(type)})[0];
}

GraphValue* Builder::append_value(NodeKind kind, std::vector<GraphValue*> inputs, TypeRef type) {
  return graph_.add_output(append(kind, std::move(inputs)), std::move(type));
}

GraphValue* Builder::constant(value::ValueRef constant, TypeRef type) {
  Node* const node = append(NodeKind::kConstant);
  node->constant = std::move(constant);
  return graph_.add_output(node, std::move(type));
}

GraphValue* Builder::constant(value::ValueRef constant) {
  TypeRef type = type_of_literal(*constant);
  return this->constant(std::move(constant), std::move(type));
}

GraphValue* Builder::list(TypeRef element, std::vector<GraphValue*> items) {
  Result<TypeRef> type = Type::list(std::move(element));
  // If the element makes the type too deep, the list gets the type Any, which no operator takes as
  // a list.
  return append_value(NodeKind::kListConstruct, std::move(items),
                      type.is_ok() ? std::move(type).value() : Type::any());
}

GraphValue* Builder::tuple(std::vector<GraphValue*> items) {
  std::vector<TypeRef> types;
  types.reserve(items.size());
  for (const GraphValue* item : items) types.push_back(item->type);
  Result<TypeRef> type = Type::tuple(std::move(types));
  return append_value(NodeKind::kTupleConstruct, std::move(items),
                      type.is_ok() ? std::move(type).value() : Type::any());
}

std::vector<GraphValue*> Builder::unpack(GraphValue* tuple) {
  if (tuple->node != nullptr && tuple->node->kind == NodeKind::kTupleConstruct &&
      !tuple->node->is_inlined)
    return tuple->node->inputs;
  if (tuple->node != nullptr && tuple->node->kind == NodeKind::kConstant &&
      tuple->node->constant->is(ValueKind::kTuple)) {
    std::vector<GraphValue*> items;
    for (const value::ValueRef& item : tuple->node->constant->items())
      items.push_back(constant(item));
    return items;
  }
  Node* const node = append(NodeKind::kTupleUnpack, {tuple});
  for (TypeRef& type : classes_.items_of(*tuple->type)) graph_.add_output(node, std::move(type));
  return node->outputs;
}

std::vector<GraphValue*> Builder::append_operator(const script::Schema& schema,
                                                  std::vector<GraphValue*> inputs,
                                                  std::vector<TypeRef> returns) {
  Node* const node = append(NodeKind::kOperator, std::move(inputs));
  node->schema = &schema;
  for (TypeRef& type : returns) graph_.add_output(node, std::move(type));
  return node->outputs;
}

Status Builder::check_room(size_t nodes) const {
  if (graph_.depth() > kMaxDepth) {
    return source_.error(Code::kResourceExhausted, range_,
                         format("with all functions that it calls, `if` and loops stand in one "
                                "another more than %u deep here",
                                kMaxDepth));
  }
  if (graph_.node_count() + nodes <= max_nodes_) return {};
  return source_.error(Code::kResourceExhausted, range_,
                       "with all functions that it calls, this function is too large to compile");
}

}  // namespace tenon::compile

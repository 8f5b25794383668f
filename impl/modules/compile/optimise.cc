// The passes that compute what is known before the program runs. PyTorch does the same to a
// function that another one calls, so Tenon must do it to make the same bytecode.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "modules/compile/evaluate.h"
#include "modules/compile/passes.h"
#include "modules/compile/types.h"

namespace tenon::compile {
namespace {

using value::ValueKind;
using value::ValueRef;

constexpr size_t kMostKeys = 64;

bool is_none(const GraphValue* value) noexcept { return value->type->kind() == TypeKind::kNone; }

bool cannot_be_none(const GraphValue* value) noexcept {
  const TypeKind kind = value->type->kind();
  if (kind == TypeKind::kUnion) {
    return std::none_of(value->type->parts().begin(), value->type->parts().end(),
                        [](const TypeRef& type) { return type->kind() == TypeKind::kNone; });
  }
  return kind != TypeKind::kNone && kind != TypeKind::kOptional && kind != TypeKind::kAny;
}

// Walks over a graph once and may replace nodes by known values. Later uses of a replaced value see
// the new value in the same walk.
class Rewriter {
 public:
  Rewriter(const Classes& classes, Graph* graph, bool leaves_inlined)
      : classes_(classes), graph_(*graph), leaves_inlined_(leaves_inlined) {}
  virtual ~Rewriter() = default;

  bool run() {
    walk(&graph_.body());
    if (changed_) resolve_all(&graph_.body());
    return changed_;
  }

 protected:
  // The constant that a value is. Null: it is none, or it was copied from a called function and
  // this pass leaves such nodes alone.
  const value::Value* constant_of(const GraphValue* value) const noexcept {
    const Node* const node = value->node;
    if (node == nullptr || node->kind != NodeKind::kConstant ||
        (node->is_inlined && leaves_inlined_))
      return nullptr;
    return node->constant.get();
  }

  // Appends the nodes that replace `node`, or `node` itself.
  virtual void node(Node* node, std::vector<Node*>* nodes) = 0;

  void walk(Block* block) {
    std::vector<Node*> nodes;
    walk_into(block, &nodes);
    block->nodes = std::move(nodes);
  }

  void walk_into(Block* block, std::vector<Node*>* nodes) {
    const std::vector<Node*> before = std::move(block->nodes);
    block->nodes.clear();
    for (Node* each : before) {
      for (GraphValue*& input : each->inputs) input = resolve(input);
      if (each->is_inlined && leaves_inlined_)
        nodes->push_back(each);
      else
        node(each, nodes);
    }
    for (GraphValue*& output : block->outputs) output = resolve(output);
  }

  void replace(GraphValue* value, GraphValue* by) {
    with_.insert_or_assign(value, by);
    changed_ = true;
  }

  GraphValue* constant(ValueRef constant, TypeRef type, std::vector<Node*>* nodes) {
    Node* const made = graph_.make_node(NodeKind::kConstant);
    made->constant = std::move(constant);
    nodes->push_back(made);
    return graph_.add_output(made, std::move(type));
  }

  GraphValue* resolve(GraphValue* value) const {
    for (auto found = with_.find(value); found != with_.end(); found = with_.find(value))
      value = found->second;
    return value;
  }

  void resolve_all(Block* block) {
    for (Node* each : block->nodes) {
      for (GraphValue*& input : each->inputs) input = resolve(input);
      for (Block* inner : each->blocks) resolve_all(inner);
    }
    for (GraphValue*& output : block->outputs) output = resolve(output);
  }

  void remove_output(Node* node, size_t index) {
    const auto at = static_cast<ptrdiff_t>(index);
    node->outputs.erase(node->outputs.begin() + at);
    if (node->kind == NodeKind::kIf) {
      for (Block* block : node->blocks) block->outputs.erase(block->outputs.begin() + at);
      return;
    }
    node->inputs.erase(node->inputs.begin() + at + 2);
    node->blocks[0]->inputs.erase(node->blocks[0]->inputs.begin() + at + 1);
    node->blocks[0]->outputs.erase(node->blocks[0]->outputs.begin() + at + 1);
  }

  const Classes& classes_;
  Graph& graph_;
  bool leaves_inlined_;
  bool changed_ = false;
  std::unordered_map<const GraphValue*, GraphValue*> with_;
};

class ConstantFolder : public Rewriter {
 public:
  using Rewriter::Rewriter;

 private:
  void node(Node* node, std::vector<Node*>* nodes) override {
    if (node->kind == NodeKind::kIf) return branch(node, nodes);
    if (node->kind == NodeKind::kLoop) return loop(node, nodes);
    if (node->outputs.size() == 1 && node->kind != NodeKind::kConstant && !node->inputs.empty()) {
      std::vector<ValueRef> operands;
      for (const GraphValue* input : node->inputs) {
        if (constant_of(input) == nullptr) break;
        operands.push_back(input->node->constant);
      }
      if (operands.size() == node->inputs.size()) {
        if (ValueRef known = evaluate(*node, operands)) {
          replace(node->outputs[0], constant(std::move(known), node->outputs[0]->type, nodes));
          return;
        }
      }
    }
    nodes->push_back(node);
  }

  void branch(Node* node, std::vector<Node*>* nodes) {
    const value::Value* const condition = constant_of(node->inputs[0]);
    if (condition != nullptr && condition->is(ValueKind::kBool)) {
      Block* const chosen = node->blocks[condition->as_bool() ? 0 : 1];
      walk_into(chosen, nodes);
      for (size_t i = 0; i < node->outputs.size(); ++i)
        replace(node->outputs[i], chosen->outputs[i]);
      changed_ = true;
      return;
    }
    for (Block* block : node->blocks) walk(block);
    for (size_t i = 0; i < node->outputs.size();) {
      GraphValue* const a = node->blocks[0]->outputs[i];
      GraphValue* const b = node->blocks[1]->outputs[i];
      const bool same = a == b || (constant_of(a) != nullptr && constant_of(b) != nullptr &&
                                   equal_constants(*constant_of(a), *constant_of(b)));
      if (!same) {
        ++i;
        continue;
      }
      GraphValue* by = a;
      // A constant in the block cannot be used outside of it, so a new one is made.
      if (constant_of(a) != nullptr) by = constant(a->node->constant, a->type, nodes);
      replace(node->outputs[i], by);
      remove_output(node, i);
    }
    nodes->push_back(node);
  }

  void loop(Node* node, std::vector<Node*>* nodes) {
    const value::Value* const rounds = constant_of(node->inputs[0]);
    const value::Value* const condition = constant_of(node->inputs[1]);
    const bool never =
        (rounds != nullptr && rounds->is(ValueKind::kInt) && rounds->as_int() < 1) ||
        (condition != nullptr && condition->is(ValueKind::kBool) && !condition->as_bool());
    if (never) {
      for (size_t i = 0; i < node->outputs.size(); ++i)
        replace(node->outputs[i], node->inputs[i + 2]);
      changed_ = true;
      return;
    }
    Block* const body = node->blocks[0];
    walk(body);
    for (size_t i = node->outputs.size(); i > 0; --i) {
      if (body->outputs[i] != body->inputs[i]) continue;
      GraphValue* const before = node->inputs[i + 1];
      replace(node->outputs[i - 1], before);
      replace(body->inputs[i], before);
      remove_output(node, i - 1);
    }
    nodes->push_back(node);
  }
};

class Peephole : public Rewriter {
 public:
  using Rewriter::Rewriter;

  void find_written() { find_written(&graph_.body()); }

 private:
  // Finds the values that code may write to, or that are stored or passed on. Lists and dicts among
  // them are not replaced by their items.
  void find_written(Block* block) {
    for (Node* node : block->nodes) {
      for (size_t i = 0; i < node->inputs.size(); ++i) {
        const bool only_reads = node->kind == NodeKind::kOperator &&
                                i < node->schema->arguments.size() &&
                                !node->schema->arguments[i].is_written && !returns_part(*node);
        if (!only_reads && node->kind != NodeKind::kListUnpack) written_.insert(node->inputs[i]);
      }
      for (Block* inner : node->blocks) find_written(inner);
    }
    for (GraphValue* output : block->outputs) written_.insert(output);
  }
  static bool returns_part(const Node& node) {
    return node.schema->returns.size() == 1 && node.outputs[0]->type->kind() == TypeKind::kAny;
  }

  void node(Node* node, std::vector<Node*>* nodes) override {
    for (Block* block : node->blocks) walk(block);
    if (node->kind == NodeKind::kIf) {
      branch(node);
      for (GraphValue* output : node->outputs) {
        if (is_none(output)) replace(output, constant(value::Value::none(), Type::none(), nodes));
      }
    } else if ((node->kind == NodeKind::kGetAttribute || node->kind == NodeKind::kUninitialized) &&
               is_none(node->outputs[0])) {
      replace(node->outputs[0], constant(value::Value::none(), Type::none(), nodes));
      return;
    } else if (node->kind == NodeKind::kListUnpack && is_fixed_list(node->inputs[0])) {
      const std::vector<GraphValue*>& items = node->inputs[0]->node->inputs;
      if (items.size() == node->outputs.size()) {
        for (size_t i = 0; i < items.size(); ++i) replace(node->outputs[i], resolve(items[i]));
        return;
      }
    } else if (node->kind == NodeKind::kOperator && operation(node, nodes)) {
      return;
    }
    nodes->push_back(node);
  }

  void branch(Node* node) {
    for (size_t i = 0; i < node->outputs.size(); ++i) {
      const value::Value* const a = constant_of(node->blocks[0]->outputs[i]);
      const value::Value* const b = constant_of(node->blocks[1]->outputs[i]);
      GraphValue* const output = node->outputs[i];
      if (output->type->kind() == TypeKind::kBool && a != nullptr && b != nullptr &&
          a->is(ValueKind::kBool) && a->as_bool() && b->is(ValueKind::kBool) && !b->as_bool()) {
        replace(output, node->inputs[0]);
      }
      if (output->type->kind() != TypeKind::kOptional) continue;
      const TypeRef& first = node->blocks[0]->outputs[i]->type;
      const TypeRef& second = node->blocks[1]->outputs[i]->type;
      if (first->kind() == TypeKind::kOptional || second->kind() == TypeKind::kOptional) continue;
      if (TypeRef type = unify(classes_, first, second)) {
        // PyTorch counts this as a change even if the type stays the same.
        changed_ = true;
        output->type = std::move(type);
      }
    }
  }

  bool is_fixed_list(const GraphValue* value) const {
    return value->node != nullptr && value->node->kind == NodeKind::kListConstruct &&
           !written_.contains(value);
  }

  // Whether a value is a dict that nothing writes to, and whose keys are constants that all differ.
  bool is_fixed_dict(const GraphValue* value) const {
    if (value->node == nullptr || value->node->kind != NodeKind::kDictConstruct ||
        written_.contains(value))
      return false;
    const std::vector<GraphValue*>& items = value->node->inputs;
    // Each call compares all keys with each other, so a large dict is left to the program.
    if (items.size() > 2 * kMostKeys) return false;
    for (size_t i = 0; i < items.size(); i += 2) {
      if (constant_of(items[i]) == nullptr) return false;
      for (size_t k = 0; k < i; k += 2) {
        if (equal_constants(*constant_of(items[i]), *constant_of(items[k]))) return false;
      }
    }
    return true;
  }

  // Tries to replace an operator. True: the node was replaced.
  bool operation(Node* node, std::vector<Node*>* nodes) {
    const std::string_view name = node->schema->name;
    if (name == "aten::__is__" || name == "aten::__isnot__") {
      for (size_t i = 0; i < 2; ++i) {
        if (!is_none(node->inputs[i]) || !cannot_be_none(node->inputs[1 - i])) continue;
        replace(node->outputs[0],
                constant(value::Value::of_bool(name == "aten::__isnot__"), Type::boolean(), nodes));
        return true;
      }
    }
    if (name == "prim::unchecked_cast" &&
        is_subtype(classes_, *node->inputs[0]->type, *node->outputs[0]->type)) {
      replace(node->outputs[0], node->inputs[0]);
      return true;
    }
    // The result of a convolution has the convolution's dimensions, and one each for batch and
    // channels.
    if (name == "aten::dim" && node->inputs[0]->node != nullptr &&
        node->inputs[0]->node->kind == NodeKind::kOperator) {
      const std::string_view by = node->inputs[0]->node->schema->name;
      const int64_t dimensions = by == "aten::conv1d"   ? 3
                                 : by == "aten::conv2d" ? 4
                                 : by == "aten::conv3d" ? 5
                                                        : 0;
      if (dimensions > 0) {
        replace(node->outputs[0],
                constant(value::Value::of_int(dimensions), Type::integer(), nodes));
        return true;
      }
    }
    // PyTorch puts a known number on the right.
    if ((name == "aten::add" || name == "aten::mul") && node->schema->overload == "int" &&
        constant_of(node->inputs[0]) != nullptr && constant_of(node->inputs[1]) == nullptr) {
      std::swap(node->inputs[0], node->inputs[1]);
      changed_ = true;
      return false;
    }
    if (name == "aten::len" && is_fixed_dict(node->inputs[0])) {
      const auto size = static_cast<int64_t>(node->inputs[0]->node->inputs.size() / 2);
      replace(node->outputs[0], constant(value::Value::of_int(size), Type::integer(), nodes));
      return true;
    }
    if (name == "aten::__getitem__" && is_fixed_dict(node->inputs[0])) {
      const value::Value* const key = constant_of(node->inputs[1]);
      const std::vector<GraphValue*>& items = node->inputs[0]->node->inputs;
      for (size_t i = 0; key != nullptr && i < items.size(); i += 2) {
        if (!equal_constants(*constant_of(items[i]), *key)) continue;
        replace(node->outputs[0], resolve(items[i + 1]));
        return true;
      }
      return false;
    }
    if (name == "aten::len" && is_fixed_list(node->inputs[0])) {
      const auto size = static_cast<int64_t>(node->inputs[0]->node->inputs.size());
      replace(node->outputs[0], constant(value::Value::of_int(size), Type::integer(), nodes));
      return true;
    }
    if (name == "aten::__getitem__" && is_fixed_list(node->inputs[0])) {
      const std::vector<GraphValue*>& items = node->inputs[0]->node->inputs;
      const value::Value* const index = constant_of(node->inputs[1]);
      if (index == nullptr || !index->is(ValueKind::kInt)) return false;
      int64_t at = index->as_int();
      if (at < 0) at += static_cast<int64_t>(items.size());
      if (at < 0 || at >= static_cast<int64_t>(items.size())) return false;
      replace(node->outputs[0], resolve(items[static_cast<size_t>(at)]));
      return true;
    }
    return false;
  }

  std::unordered_set<const GraphValue*> written_;
};

void forget_calls(Block* block) {
  for (Node* node : block->nodes) {
    node->is_inlined = false;
    node->owner = block;
    for (Block* inner : node->blocks) forget_calls(inner);
  }
}

}  // namespace

bool fold_constants(const Classes& classes, Graph* graph) {
  return ConstantFolder(classes, graph, true).run();
}

void optimise(const Classes& classes, Graph* graph) {
  forget_calls(&graph->body());
  Peephole peephole(classes, graph, false);
  peephole.find_written();
  if (peephole.run()) remove_dead_code(graph);
  if (ConstantFolder(classes, graph, false).run()) remove_dead_code(graph);
  pool_constants(graph);
}

}  // namespace tenon::compile

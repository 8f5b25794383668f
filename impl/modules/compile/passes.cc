#include "modules/compile/passes.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tenon::compile {
namespace {

using value::ValueKind;
using value::ValueRef;

template <typename Visit>
void for_each_block(Block* block, const Visit& visit) {
  visit(block);
  for (Node* node : block->nodes) {
    for (Block* inner : node->blocks) for_each_block(inner, visit);
  }
}

void replace_inputs(Block* block, const std::unordered_map<const GraphValue*, GraphValue*>& with) {
  if (with.empty()) return;
  const auto replace = [&](GraphValue*& value) {
    for (auto found = with.find(value); found != with.end(); found = with.find(value))
      value = found->second;
  };
  for_each_block(block, [&](Block* each) {
    for (Node* node : each->nodes) {
      for (GraphValue*& input : node->inputs) replace(input);
    }
    for (GraphValue*& output : each->outputs) replace(output);
  });
}

bool has_effect(const Node& node) {
  switch (node.kind) {
    case NodeKind::kSetAttribute:
    case NodeKind::kInterfaceCall:
    case NodeKind::kCalled: return true;
    case NodeKind::kOperator: {
      if (node.schema->name == "prim::RaiseException" || node.schema->name == "prim::Print" ||
          node.schema->name == "aten::warn")
        return true;
      return node.schema->returns.empty() ||
             std::any_of(
                 node.schema->arguments.begin(), node.schema->arguments.end(),
                 [](const script::SchemaArgument& argument) { return argument.is_written; });
    }
    default: return false;
  }
}

// Sets the owner of each node, and clears the marks of nodes and values.
void begin_marks(Block* block) {
  for (GraphValue* input : block->inputs) input->is_needed = false;
  for (Node* node : block->nodes) {
    node->owner = block;
    node->is_live = false;
    for (GraphValue* output : node->outputs) output->is_needed = false;
    for (Block* inner : node->blocks) begin_marks(inner);
  }
}

// Marks the nodes with effects, the values that the function returns, and all that these need. Each
// value and each node is marked once, so the time is linear.
class Liveness {
 public:
  void run(Block* body) {
    for (GraphValue* output : body->outputs) need(output);
    mark_effects(body);
    while (!waiting_.empty()) {
      GraphValue* const value = waiting_.back();
      waiting_.pop_back();
      follow(value);
    }
  }

 private:
  void need(GraphValue* value) {
    if (!std::exchange(value->is_needed, true)) waiting_.push_back(value);
  }

  void mark_effects(Block* block) {
    for (Node* node : block->nodes) {
      const bool is_branch = node->kind == NodeKind::kIf || node->kind == NodeKind::kLoop;
      if (node->is_inlined ? node->kind != NodeKind::kConstant : !is_branch && has_effect(*node))
        mark(node);
      for (Block* inner : node->blocks) mark_effects(inner);
    }
  }

  // Marks a node, and all nodes whose blocks contain it.
  void mark(Node* node) {
    for (; node != nullptr && !std::exchange(node->is_live, true); node = node->owner->owner) {
      if (node->kind == NodeKind::kIf) {
        need(node->inputs[0]);
      } else if (node->kind == NodeKind::kLoop) {
        need(node->inputs[0]);
        need(node->inputs[1]);
        need(node->blocks[0]->outputs[0]);
      } else {
        for (GraphValue* input : node->inputs) need(input);
      }
      // A copied node is not changed, so all of its outputs are needed.
      if (!node->is_inlined || node->blocks.empty()) continue;
      for (GraphValue* output : node->outputs) need(output);
    }
  }

  void follow(GraphValue* value) {
    if (value->node == nullptr) {
      const Node* const loop = value->block->owner;
      if (loop == nullptr) return;
      const std::vector<GraphValue*>& inputs = loop->blocks[0]->inputs;
      const auto index =
          static_cast<size_t>(std::find(inputs.begin(), inputs.end(), value) - inputs.begin());
      if (index > 0) carry(*loop, index - 1);
      return;
    }
    Node* const node = value->node;
    mark(node);
    if (node->blocks.empty()) return;
    const auto index = static_cast<size_t>(
        std::find(node->outputs.begin(), node->outputs.end(), value) - node->outputs.begin());
    if (node->kind == NodeKind::kLoop) return carry(*node, index);
    for (const Block* block : node->blocks) need(block->outputs[index]);
  }

  // Marks one carried value of a loop: before the loop, at the end of each round, and after the
  // loop.
  void carry(const Node& loop, size_t index) {
    need(loop.outputs[index]);
    need(loop.inputs[index + 2]);
    need(loop.blocks[0]->outputs[index + 1]);
  }

  std::vector<GraphValue*> waiting_;
};

template <typename T>
void keep(std::vector<T>* items, const std::vector<bool>& kept, size_t first) {
  size_t to = first;
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i]) (*items)[to++] = (*items)[first + i];
  }
  items->resize(to);
}

void sweep(Block* block) {
  std::erase_if(block->nodes, [](const Node* node) { return !node->is_live; });
  for (Node* node : block->nodes) {
    if ((node->kind == NodeKind::kIf || node->kind == NodeKind::kLoop) && !node->is_inlined) {
      std::vector<bool> kept;
      kept.reserve(node->outputs.size());
      for (const GraphValue* output : node->outputs) kept.push_back(output->is_needed);
      keep(&node->outputs, kept, 0);
      if (node->kind == NodeKind::kIf) {
        for (Block* inner : node->blocks) keep(&inner->outputs, kept, 0);
      } else {
        keep(&node->inputs, kept, 2);
        keep(&node->blocks[0]->inputs, kept, 1);
        keep(&node->blocks[0]->outputs, kept, 1);
      }
    }
    for (Block* inner : node->blocks) sweep(inner);
  }
}

// Returns a text that is equal for two constants which PyTorch pools. Empty: the constant is not
// pooled.
std::string key_of(const value::Value& constant) {
  switch (constant.kind()) {
    case ValueKind::kNone: return "n";
    case ValueKind::kBool: return constant.as_bool() ? "b1" : "b0";
    case ValueKind::kInt: return "i" + std::to_string(constant.as_int());
    case ValueKind::kFloat:
      return "f" + std::to_string(std::bit_cast<uint64_t>(constant.as_float()));
    case ValueKind::kComplex:
      return "c" + std::to_string(std::bit_cast<uint64_t>(constant.as_complex().real())) + "," +
             std::to_string(std::bit_cast<uint64_t>(constant.as_complex().imag()));
    case ValueKind::kStr: return "s" + constant.as_str();
    case ValueKind::kDevice: return "d" + constant.as_device();
    case ValueKind::kTuple:
    case ValueKind::kList: {
      std::string key = constant.is(ValueKind::kTuple) ? "t(" : "l(";
      for (const ValueRef& item : constant.items()) {
        const std::string part = key_of(*item);
        if (part.empty()) return {};
        key += std::to_string(part.size()) + ":" + part;
      }
      if (constant.is(ValueKind::kList) && constant.declared_type())
        key += constant.declared_type()->print();
      return key;
    }
    default: return "o" + std::to_string(reinterpret_cast<uintptr_t>(&constant));
  }
}

// The first use of a value: the number of the node (or of a block's end) in the order of the code,
// and the list of values that has it.
struct FirstUse {
  size_t number = SIZE_MAX;
  const std::vector<GraphValue*>* values = nullptr;
};

class FirstUses {
 public:
  explicit FirstUses(Block* body) { scan(body); }

  // Whether `a` is used before `b`. A value without a use comes last.
  bool is_before(const GraphValue* a, const GraphValue* b) const {
    const FirstUse first = find(a);
    const FirstUse second = find(b);
    if (first.number != second.number || first.values == nullptr)
      return first.number < second.number;
    return std::find(first.values->begin(), first.values->end(), a) <
           std::find(first.values->begin(), first.values->end(), b);
  }

 private:
  FirstUse find(const GraphValue* value) const {
    const auto found = uses_.find(value);
    return found != uses_.end() ? found->second : FirstUse();
  }

  void note(const std::vector<GraphValue*>& values) {
    for (const GraphValue* value : values) uses_.try_emplace(value, FirstUse{count_, &values});
    ++count_;
  }

  void scan(Block* block) {
    for (Node* node : block->nodes) {
      note(node->inputs);
      for (Block* inner : node->blocks) scan(inner);
    }
    note(block->outputs);
  }

  std::unordered_map<const GraphValue*, FirstUse> uses_;
  size_t count_ = 0;
};

template <typename T>
void permute(std::vector<T>* items, const std::vector<size_t>& order, size_t first) {
  const std::vector<T> before(items->begin() + static_cast<ptrdiff_t>(first), items->end());
  for (size_t i = 0; i < order.size(); ++i) (*items)[first + i] = before[order[i]];
}

void order_block(Block* block, const FirstUses& uses);

void order_node(Node* node, const FirstUses& uses) {
  if ((node->kind == NodeKind::kIf || node->kind == NodeKind::kLoop) && !node->is_inlined &&
      node->outputs.size() > 1) {
    std::vector<size_t> order(node->outputs.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return uses.is_before(node->outputs[a], node->outputs[b]);
    });
    permute(&node->outputs, order, 0);
    if (node->kind == NodeKind::kIf) {
      for (Block* inner : node->blocks) permute(&inner->outputs, order, 0);
    } else {
      permute(&node->inputs, order, 2);
      permute(&node->blocks[0]->inputs, order, 1);
      permute(&node->blocks[0]->outputs, order, 1);
    }
  }
  for (Block* inner : node->blocks) order_block(inner, uses);
}

void order_block(Block* block, const FirstUses& uses) {
  for (size_t i = block->nodes.size(); i > 0; --i) order_node(block->nodes[i - 1], uses);
}

}  // namespace

void remove_dead_code(Graph* graph) {
  begin_marks(&graph->body());
  Liveness live;
  live.run(&graph->body());
  sweep(&graph->body());
}

void pool_constants(Graph* graph) {
  std::unordered_map<std::string, GraphValue*> first;
  std::unordered_map<const GraphValue*, GraphValue*> with;
  std::vector<Node*> hoisted;
  for_each_block(&graph->body(), [&](Block* block) {
    std::erase_if(block->nodes, [&](Node* node) {
      if (node->kind != NodeKind::kConstant || node->is_inlined) return false;
      const std::string key = key_of(*node->constant);
      if (key.empty()) return false;
      const auto [found, is_new] = first.try_emplace(key, node->outputs[0]);
      if (is_new)
        hoisted.push_back(node);
      else
        with.emplace(node->outputs[0], found->second);
      return true;
    });
  });
  Block& body = graph->body();
  for (Node* node : hoisted) node->owner = &body;
  body.nodes.insert(body.nodes.begin(), hoisted.begin(), hoisted.end());
  replace_inputs(&body, with);
}

void order_outputs(Graph* graph) {
  // Ordering changes the order in which one node takes its values. It never changes which node
  // takes a value first, so the first uses stay valid.
  const FirstUses uses(&graph->body());
  order_block(&graph->body(), uses);
}

void clean(const Classes& classes, Graph* graph) {
  fold_constants(classes, graph);
  remove_dead_code(graph);
  pool_constants(graph);
  order_outputs(graph);
  for_each_block(&graph->body(), [](Block* block) {
    std::erase_if(block->nodes, [](const Node* node) { return node->kind == NodeKind::kCalled; });
  });
}

}  // namespace tenon::compile

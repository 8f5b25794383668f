#include "modules/compile/drops.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tenon::compile {
namespace {

// Goes over the graph in passes: count_uses() notes which values are used at all, drop_unused()
// adds drops of the other values, number() notes the block of each value, last_uses() finds the
// last use of each value, and insert() adds the drops behind those uses.
class DropPlanner {
 public:
  explicit DropPlanner(Graph* graph) : graph_(*graph) {}

  void run() {
    count_uses(graph_.body());
    drop_unused(&graph_.body());
    number(&graph_.body());
    last_uses(&graph_.body());
    insert(&graph_.body());
  }

 private:
  void count_uses(const Block& block) {
    for (const Node* node : block.nodes) {
      for (const GraphValue* input : node->inputs) used_.insert(input);
      for (const Block* inner : node->blocks) count_uses(*inner);
    }
    for (const GraphValue* output : block.outputs) used_.insert(output);
  }

  Node* drop_of(const std::vector<GraphValue*>& values, Block* owner) {
    std::vector<GraphValue*> unused;
    std::copy_if(
        values.begin(), values.end(), std::back_inserter(unused),
        [&](const GraphValue* value) { return !used_.contains(value) && !is_constant(value); });
    if (unused.empty()) return nullptr;
    Node* const drop = graph_.make_node(NodeKind::kDrop);
    drop->inputs = std::move(unused);
    drop->owner = owner;
    return drop;
  }

  void drop_unused(Block* block) {
    std::vector<Node*> nodes;
    if (Node* const drop = drop_of(block->inputs, block)) nodes.push_back(drop);
    for (Node* node : block->nodes) {
      nodes.push_back(node);
      if (Node* const drop = drop_of(node->outputs, block)) nodes.push_back(drop);
      for (Block* inner : node->blocks) drop_unused(inner);
    }
    block->nodes = std::move(nodes);
  }

  // Records for each node and value the block that has it.
  void number(Block* block) {
    for (GraphValue* input : block->inputs) home_.emplace(input, block);
    for (Node* node : block->nodes) {
      node->owner = block;
      for (GraphValue* output : node->outputs) home_.emplace(output, block);
      for (Block* inner : node->blocks) number(inner);
    }
  }

  // Walks backwards, so the first use that scan() sees of a value is the last one.
  void last_uses(Block* block) {
    scan(block->outputs, nullptr, block);
    for (size_t i = block->nodes.size(); i > 0; --i) {
      Node* const node = block->nodes[i - 1];
      for (Block* inner : node->blocks) last_uses(inner);
      scan(node->inputs, node, block);
    }
  }

  void scan(const std::vector<GraphValue*>& values, Node* node, Block* block) {
    for (size_t i = values.size(); i > 0; --i) {
      GraphValue* const value = values[i - 1];
      if (!seen_.insert(value).second) continue;
      Block* const home = home_.at(value);
      // The emitter empties the register at a last use in the value's own block, so that use needs
      // no drop. Blocks inside may run several times or not at all.
      if (home == block) continue;
      // Finds the node in the value's own block whose blocks contain this use.
      const Node* outer = node;
      const Block* at = block;
      while (at != home) {
        outer = at->owner;
        at = outer->owner;
      }
      // A constant needs no drop. PyTorch adds an empty drop node all the same, and StackPlan keeps
      // no value on the stack across it. So this line makes the list even if it stays empty.
      std::vector<GraphValue*>& dropped = after_[outer];
      if (!is_constant(value)) dropped.push_back(value);
    }
  }

  void insert(Block* block) {
    std::vector<Node*> nodes;
    for (Node* node : block->nodes) {
      nodes.push_back(node);
      for (Block* inner : node->blocks) insert(inner);
      const auto found = after_.find(node);
      if (found == after_.end()) continue;
      Node* const drop = graph_.make_node(NodeKind::kDrop);
      drop->inputs = found->second;
      drop->owner = block;
      nodes.push_back(drop);
    }
    block->nodes = std::move(nodes);
  }

  Graph& graph_;
  std::unordered_set<const GraphValue*> used_;          // values that anything uses
  std::unordered_map<const GraphValue*, Block*> home_;  // the block that has the value
  std::unordered_set<const GraphValue*> seen_;          // values whose last use was found
  // By node: the values that a new drop node behind it will have. The list may be empty.
  std::unordered_map<const Node*, std::vector<GraphValue*>> after_;
};

}  // namespace

void add_drops(Graph* graph) { DropPlanner(graph).run(); }

}  // namespace tenon::compile

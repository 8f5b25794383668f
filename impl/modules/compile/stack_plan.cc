#include "modules/compile/stack_plan.h"

#include <cstdint>
#include <utility>

namespace tenon::compile {
namespace {

// The index of the nearest node before `end` that is no constant. SIZE_MAX: there is none.
size_t before(const Block& block, size_t end) {
  while (end > 0) {
    --end;
    if (block.nodes[end]->kind != NodeKind::kConstant) return end;
  }
  return SIZE_MAX;
}

}  // namespace

StackPlan::StackPlan(Block* body) {
  count(*body);
  scan_block(body);
}

void StackPlan::count(const Block& block) {
  for (const Node* node : block.nodes) {
    for (const GraphValue* input : node->inputs) ++uses_[input];
    for (const Block* inner : node->blocks) count(*inner);
  }
  for (const GraphValue* output : block.outputs) ++uses_[output];
}

void StackPlan::scan_block(Block* block) {
  scan_values(*block, block->nodes.size(), block->outputs);
  for (size_t i = block->nodes.size(); i > 0; --i) {
    Node* const node = block->nodes[i - 1];
    if (inline_.contains(node)) continue;
    for (Block* inner : node->blocks) scan_block(inner);
    scan_values(*block, i - 1, node->inputs);
  }
}

// Goes from the last value to the first. As long as each value is made by the node just before, it
// needs no register. This is a loop with its own stack, because a long chain of nodes could
// overflow the machine's stack.
void StackPlan::scan_values(const Block& block, size_t at, const std::vector<GraphValue*>& values) {
  // All constants of a function are in a row at its beginning. A constant has no inputs, so it
  // returns here. If before() walked over the row for each constant, the time would be quadratic.
  if (values.empty()) return;
  size_t point = before(block, at);
  std::vector<std::pair<const std::vector<GraphValue*>*, size_t>> open{{&values, values.size()}};
  while (!open.empty()) {
    auto& [list, left] = open.back();
    if (left == 0) {
      open.pop_back();
      continue;
    }
    const GraphValue* const value = (*list)[--left];
    const bool lines_up = point != SIZE_MAX && value->node == block.nodes[point];
    if (!lines_up || uses(value) != 1 || value->node->outputs.size() != 1 ||
        inline_.contains(value->node))
      continue;
    Node* const node = value->node;
    inline_.insert(node);
    for (Block* inner : node->blocks) scan_block(inner);
    point = before(block, point);
    open.emplace_back(&node->inputs, node->inputs.size());
  }
}

}  // namespace tenon::compile

// StackPlan: decides which values of a function stay on the stack, and which need a register. The
// emitter asks it for each node.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "modules/compile/graph.h"

namespace tenon::compile {

// A node is inline if it leaves its value on the stack right where the value's only use takes it.
// Make the plan after add_drops(). It holds as long as the graph is not changed.
class StackPlan {
 public:
  explicit StackPlan(Block* body);

  bool is_inline(const Node* node) const { return inline_.contains(node); }
  size_t uses(const GraphValue* value) const {
    const auto found = uses_.find(value);
    return found != uses_.end() ? found->second : 0;
  }

 private:
  void count(const Block& block);
  void scan_block(Block* block);
  void scan_values(const Block& block, size_t at, const std::vector<GraphValue*>& values);

  std::unordered_map<const GraphValue*, size_t> uses_;
  std::unordered_set<const Node*> inline_;
};

}  // namespace tenon::compile

#include "modules/compile/graph.h"

#include <algorithm>
#include <utility>

namespace tenon::compile {
namespace {

// Copies nodes into a graph. It recurses as deep as blocks are nested. The parser limits the depth
// of one function, a call copies into a single block, and Builder::kMaxDepth limits the whole.
class Copier {
 public:
  Copier(Graph* graph, const Call* call)
      : graph_(*graph), call_(call), is_operator_(call != nullptr && call->function.empty()) {}

  void copy(const Block& from, Block* into) {
    for (const Node* node : from.nodes) copy(*node, into);
  }

 private:
  void copy(const Node& from, Block* into) {
    Node* const node = graph_.make_node(from.kind);
    node->is_inlined = true;
    node->schema = from.schema;
    node->constant = from.constant;
    node->name = from.name;
    node->number = from.number;
    node->end = from.end;
    node->types = from.types;
    node->source = is_operator_ ? call_->source : from.source;
    node->range = is_operator_ ? call_->range : from.range;
    node->origin = is_operator_ ? nullptr : &from;
    node->call = is_operator_ ? nullptr : call_;
    node->owner = into;
    node->inputs.reserve(from.inputs.size());
    for (const GraphValue* input : from.inputs) node->inputs.push_back(input->copied);
    into->nodes.push_back(node);
    for (GraphValue* output : from.outputs) output->copied = graph_.add_output(node, output->type);
    for (const Block* block : from.blocks) {
      Block* const inner = graph_.make_block(node);
      node->blocks.push_back(inner);
      for (GraphValue* input : block->inputs) input->copied = graph_.add_input(inner, input->type);
      copy(*block, inner);
      for (const GraphValue* output : block->outputs) inner->outputs.push_back(output->copied);
    }
  }

  Graph& graph_;
  const Call* call_;
  bool is_operator_;
};

}  // namespace

Block* Graph::make_block(Node* owner) {
  blocks_.emplace_back();
  Block& made = blocks_.back();
  made.owner = owner;
  if (owner != nullptr && owner->owner != nullptr) made.depth = owner->owner->depth + 1;
  depth_ = std::max(depth_, made.depth);
  return &made;
}

Node* Graph::make_node(NodeKind kind) {
  nodes_.emplace_back();
  nodes_.back().kind = kind;
  return &nodes_.back();
}

GraphValue* Graph::add_input(Block* block, value::TypeRef type) {
  values_.emplace_back();
  GraphValue* const value = &values_.back();
  value->block = block;
  value->type = std::move(type);
  block->inputs.push_back(value);
  return value;
}

GraphValue* Graph::add_output(Node* node, value::TypeRef type) {
  values_.emplace_back();
  GraphValue* const value = &values_.back();
  value->node = node;
  value->type = std::move(type);
  node->outputs.push_back(value);
  return value;
}

std::vector<GraphValue*> Graph::inline_graph(const Graph& other,
                                             const std::vector<GraphValue*>& arguments, Block* into,
                                             const Call* call) {
  Copier copier(this, call);
  for (size_t i = 0; i < arguments.size(); ++i) other.body().inputs[i]->copied = arguments[i];
  copier.copy(other.body(), into);
  std::vector<GraphValue*> outputs;
  for (const GraphValue* output : other.body().outputs) outputs.push_back(output->copied);
  return outputs;
}

}  // namespace tenon::compile

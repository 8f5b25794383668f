// Graph: a function of TorchScript as typed values in static single assignment form, with blocks in
// the nodes of `if` and of loops. The function compiler makes it from source, passes change it, and
// the emitter writes bytecode from it.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "modules/script/schema.h"
#include "modules/script/source.h"
#include "modules/value/type.h"
#include "modules/value/value.h"

namespace tenon::compile {

struct Node;
struct Block;

// The comment of a kind names the fields of Node that it uses, and the order of its inputs.
enum class NodeKind : uint8_t {
  kConstant,        // constant
  kOperator,        // schema
  kTupleUnpack,     //
  kTupleConstruct,  // the output's type is a Tuple, or the class of a NamedTuple
  kListConstruct,   //
  kDictConstruct,   // inputs: key, value, key, value, ...
  kTupleIndex,      // inputs: tuple, index
  kTupleSlice,      // number, end: the first item and the one after the last
  kListUnpack,      //
  kGetAttribute,    // name; number: the slot
  kSetAttribute,    // name; number: the slot
  kInterfaceCall,   // name: the method's
  kIsInstance,      // types
  kUninitialized,   //
  kIf,              // inputs: condition; blocks: if true, if false
  // inputs: the most rounds, the first condition, then the carried values. The block's inputs: the
  // round's number, then the carried values. The block's outputs: the next condition, then the
  // carried values.
  kLoop,
  // inputs: the arguments of a call. PyTorch computes them even if the called function does not use
  // them. clean() removes these nodes.
  kCalled,
  kDrop,  // inputs: values that nothing uses any more; add_drops() makes these nodes
  // These two are in no block. The emitter names them as the origin of the instructions that store
  // a block's inputs and load its outputs.
  kParameters,
  kResults,
};

struct GraphValue {
  Node* node = nullptr;  // null: an input of a block
  Block* block = nullptr;
  value::TypeRef type;
  // The value is the literal `[]` without a type. It becomes a list of any type that is wanted.
  bool is_empty_list = false;
  bool is_needed = false;        // remove_dead_code() sets it
  GraphValue* copied = nullptr;  // inline_graph() sets it: the value in the latest copy
};

// A call whose function was copied into the caller. Errors of PyTorch and its debuggers show these
// calls.
struct Call {
  const script::Source* source = nullptr;  // the caller's source
  script::Range range;
  std::string_view module;    // the class whose method is called; empty: a function is called
  std::string_view instance;  // the attribute that holds the object
  // The called function's name. Empty: the call is of an operator whose source Tenon has. Its nodes
  // get the place of the call as their place in the source.
  std::string_view function;
};

struct Node {
  NodeKind kind = NodeKind::kConstant;
  // The node was copied from the graph of a called function. clean() leaves it as it is.
  bool is_inlined = false;
  bool is_live = false;  // remove_dead_code() sets it
  const script::Schema* schema = nullptr;
  value::ValueRef constant;
  std::string name;
  int64_t number = 0;
  int64_t end = 0;
  std::vector<value::TypeRef> types;
  std::vector<GraphValue*> inputs;
  std::vector<GraphValue*> outputs;
  std::vector<Block*> blocks;
  Block* owner = nullptr;
  const script::Source* source = nullptr;
  script::Range range;
  // If this node is a copy: the node that was copied, and the call for which it was copied. `call`
  // is null if the whole graph was copied to be changed. Both belong to graphs that live as long as
  // the Unit.
  const Node* origin = nullptr;
  const Call* call = nullptr;
};

struct Block {
  Node* owner = nullptr;  // null: the block is the function's body
  uint32_t depth = 0;     // the number of blocks around it
  std::vector<GraphValue*> inputs;
  std::vector<Node*> nodes;
  std::vector<GraphValue*> outputs;
};

inline bool is_constant(const GraphValue* value) noexcept {
  return value->node != nullptr && value->node->kind == NodeKind::kConstant;
}

// A graph owns its nodes, values, blocks and calls, and frees them only when it ends. Nodes that
// inline_graph() made point to the graph from which they were copied, which must live as long.
class Graph {
 public:
  Graph() : body_(make_block(nullptr)) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Block& body() noexcept { return *body_; }
  const Block& body() const noexcept { return *body_; }
  // The number of nodes that were ever made, removed ones included.
  size_t node_count() const noexcept { return nodes_.size(); }
  // How deep blocks are nested.
  uint32_t depth() const noexcept { return depth_; }

  // Makes a block of `owner`, which must be in its own block already.
  Block* make_block(Node* owner);
  // Makes a node that is in no block yet.
  Node* make_node(NodeKind kind);
  GraphValue* add_input(Block* block, value::TypeRef type);
  GraphValue* add_output(Node* node, value::TypeRef type);

  const Call* add_call(const Call& call) { return &calls_.emplace_back(call); }

  // Copies the nodes of `other` to the end of `into`, with `arguments` in place of its inputs.
  // Returns the values that stand for its outputs.
  std::vector<GraphValue*> inline_graph(const Graph& other,
                                        const std::vector<GraphValue*>& arguments, Block* into,
                                        const Call* call = nullptr);

 private:
  std::deque<Node> nodes_;
  std::deque<GraphValue> values_;
  std::deque<Block> blocks_;
  std::deque<Call> calls_;
  uint32_t depth_ = 0;
  Block* body_;
};

}  // namespace tenon::compile

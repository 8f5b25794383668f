// Builder: appends nodes to a block of a graph, and makes errors that name the place in the source.
// The function compiler builds a function's graph with one.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "modules/compile/classes.h"
#include "modules/compile/graph.h"
#include "modules/compile/types.h"
#include "modules/script/schema_table.h"
#include "modules/script/source.h"

namespace tenon::compile {

// `classes`, `source` and `graph` must outlive a builder. The nodes and values that it makes belong
// to the graph.
class Builder {
 public:
  // The deepest nesting of blocks. There is a limit because the passes recurse into blocks.
  static constexpr uint32_t kMaxDepth = 1000;

  // A graph of more than `max_nodes` nodes is refused. A call copies the called function, so the
  // sizes of functions that call each other can multiply.
  Builder(const Classes& classes, script::Torch torch, const script::Source& source,
          size_t max_nodes, Graph* graph)
      : classes_(classes),
        torch_(torch),
        source_(source),
        max_nodes_(max_nodes),
        graph_(*graph),
        block_(&graph->body()) {}

  const Classes& classes() const noexcept { return classes_; }
  script::Torch torch() const noexcept { return torch_; }
  const script::Source& source() const noexcept { return source_; }
  Graph& graph() noexcept { return graph_; }
  Block* block() const noexcept { return block_; }
  void enter(Block* block) noexcept { block_ = block; }
  // Sets the place in the source from which the next nodes come. Returns the place before.
  script::Range move_to(script::Range range) noexcept { return std::exchange(range_, range); }
  script::Range range() const noexcept { return range_; }

  Status refuse(script::Range range, const std::string& what) const {
    return source_.error(Code::kInvalidArgument, range, what);
  }
  Status refuse(const std::string& what) const { return refuse(range_, what); }
  // The error for code that PyTorch takes and the lite interpreter cannot run.
  Status unsupported(const std::string& what) const {
    return source_.error(Code::kUnsupported, range_, what);
  }

  Node* append(NodeKind kind, std::vector<GraphValue*> inputs = {});
  // Appends an `if` with two empty blocks.
  Node* append_if(GraphValue* condition);
  // Appends a node with one output, and returns the output.
  GraphValue* append_value(NodeKind kind, std::vector<GraphValue*> inputs, TypeRef type);
  GraphValue* constant(value::ValueRef constant, TypeRef type);
  // Appends a constant whose type is type_of_literal(), which must not be null.
  GraphValue* constant(value::ValueRef constant);
  GraphValue* integer(int64_t number) { return constant(value::Value::of_int(number)); }
  GraphValue* none() { return constant(value::Value::none()); }
  // Appends a node that makes a list or a tuple. If its type would be too deep, it gets the type
  // Any.
  GraphValue* list(TypeRef element, std::vector<GraphValue*> items);
  GraphValue* tuple(std::vector<GraphValue*> items);
  // Returns the items of a tuple. A tuple that this function constructs, or that is a constant, is
  // not unpacked at run time: the items themselves are returned.
  std::vector<GraphValue*> unpack(GraphValue* tuple);
  // Gives the value another type, which PyTorch does not check.
  Result<GraphValue*> unchecked_cast(GraphValue* value, TypeRef type);
  // Appends a call of the operator, with one output for each of `returns`, and gives the outputs.
  std::vector<GraphValue*> append_operator(const script::Schema& schema,
                                           std::vector<GraphValue*> inputs,
                                           std::vector<TypeRef> returns);

  // roll_back() removes the nodes that were appended to the current block since mark().
  size_t mark() const noexcept { return block_->nodes.size(); }
  void roll_back(size_t mark) { block_->nodes.resize(mark); }

  // RESOURCE_EXHAUSTED if the graph is too large or too deep.
  Status check_size() const { return check_room(0); }
  // The same check, before `nodes` more nodes are copied into the graph.
  Status check_room(size_t nodes) const;

 private:
  const Classes& classes_;
  script::Torch torch_;
  const script::Source& source_;
  size_t max_nodes_;
  Graph& graph_;
  Block* block_;
  script::Range range_;
};

// The type of a constant: a number, text, None, bool, Device, Tensor, or a tuple of these. Null for
// any other value.
TypeRef type_of_literal(const value::Value& literal);

}  // namespace tenon::compile

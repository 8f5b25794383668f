// Builder: appends nodes to a block of a graph, and says in errors where in the source they come
// from.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "compile/classes.h"
#include "compile/graph.h"
#include "compile/types.h"
#include "script/schema_table.h"
#include "script/source.h"

namespace tenon::compile {

class Builder {
 public:
  // The passes recurse into blocks, so how deep these are in one another has a limit.
  static constexpr uint32_t kMaxDepth = 1000;

  // A graph that grows beyond `max_nodes` is refused: functions that call functions that call
  // functions can take their product.
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
  // Where the next nodes come from. Returns the range of before.
  script::Range move_to(script::Range range) noexcept { return std::exchange(range_, range); }
  script::Range range() const noexcept { return range_; }

  Status refuse(script::Range range, const std::string& what) const {
    return source_.error(Code::kInvalidArgument, range, what);
  }
  Status refuse(const std::string& what) const { return refuse(range_, what); }
  // What PyTorch takes, and the lite interpreter cannot run.
  Status unsupported(const std::string& what) const {
    return source_.error(Code::kUnsupported, range_, what);
  }

  Node* append(NodeKind kind, std::vector<GraphValue*> inputs = {});
  // An `if` with two blocks that are empty.
  Node* append_if(GraphValue* condition);
  // A node with one output.
  GraphValue* append_value(NodeKind kind, std::vector<GraphValue*> inputs, TypeRef type);
  GraphValue* constant(value::ValueRef constant, TypeRef type);
  // Of a number, text, None, bool or Device.
  GraphValue* constant(value::ValueRef constant);
  GraphValue* integer(int64_t number) { return constant(value::Value::of_int(number)); }
  GraphValue* none() { return constant(value::Value::none()); }
  GraphValue* list(TypeRef element, std::vector<GraphValue*> items);
  GraphValue* tuple(std::vector<GraphValue*> items);
  // The items of a tuple. Those of a tuple that the function itself puts together are taken from
  // where they come.
  std::vector<GraphValue*> unpack(GraphValue* tuple);
  // The value as one of another type, which PyTorch believes without a look.
  Result<GraphValue*> unchecked_cast(GraphValue* value, TypeRef type);
  std::vector<GraphValue*> append_operator(const script::Schema& schema,
                                           std::vector<GraphValue*> inputs,
                                           std::vector<TypeRef> returns);

  // Everything that was appended to the present block since the mark goes.
  size_t mark() const noexcept { return block_->nodes.size(); }
  void roll_back(size_t mark) { block_->nodes.resize(mark); }

  Status check_size() const { return check_room(0); }
  // Before so many nodes are copied in.
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

// The type of a number, text, None, bool or Device. Null of others.
TypeRef type_of_literal(const value::Value& literal);

}  // namespace tenon::compile

#include "modules/compile/lower.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "modules/compile/builder.h"
#include "modules/compile/evaluate.h"
#include "modules/compile/match.h"
#include "modules/compile/stand_ins.h"
#include "modules/script/schema_table.h"

namespace tenon::compile {
namespace {

using script::Schema;
using script::SchemaArgument;

constexpr size_t kNone = SIZE_MAX;

size_t find_argument(const Schema& schema, std::string_view name) {
  const auto found =
      std::find_if(schema.arguments.begin(), schema.arguments.end(),
                   [&](const SchemaArgument& argument) { return argument.name == name; });
  return found != schema.arguments.end() ? static_cast<size_t>(found - schema.arguments.begin())
                                         : kNone;
}

bool holds_none(const GraphValue& value) {
  return is_constant(&value) && value.node->constant->is(value::ValueKind::kNone);
}

// Fits one call to one schema of the target.
class Fit {
 public:
  Fit(const Classes& classes, const Node& call, const Schema& target)
      : classes_(classes),
        call_(call),
        now_(*call.schema),
        target_(target),
        is_used_(now_.arguments.size()) {}

  // False: why() says what does not fit.
  bool run() {
    if (target_.takes_more != now_.takes_more || target_.returns_more != now_.returns_more ||
        target_.returns.size() != now_.returns.size())
      return fail("it takes and returns other values there");
    for (size_t i = 0; i < target_.arguments.size(); ++i) {
      if (!argument(i)) return false;
    }
    for (size_t i = 0; i < is_used_.size(); ++i) {
      if (!is_used_[i] && !can_go(i))
        return fail(format("it has no argument `%s` there, and only a default can be left out",
                           now_.arguments[i].name.c_str()));
    }
    for (size_t i = now_.arguments.size(); i < call_.inputs.size(); ++i)
      arguments_.push_back({call_.inputs[i], {}});
    return true;
  }

  std::vector<LoweredArgument>& arguments() noexcept { return arguments_; }
  const std::string& why() const noexcept { return why_; }

 private:
  bool fail(std::string why) {
    why_ = std::move(why);
    return false;
  }

  // Finds the argument of the call for an argument of the target's schema. It has the same name, or
  // it has the same place and was renamed since.
  size_t source_of(size_t index) const {
    const size_t found = find_argument(now_, target_.arguments[index].name);
    if (found != kNone || index >= now_.arguments.size()) return found;
    return find_argument(target_, now_.arguments[index].name) == kNone ? index : kNone;
  }

  bool argument(size_t index) {
    const SchemaArgument& wanted = target_.arguments[index];
    const size_t source = source_of(index);
    if (source != kNone) {
      GraphValue* const value = call_.inputs[source];
      is_used_[source] = true;
      if (takes(wanted, now_.arguments[source], *value)) {
        arguments_.push_back({value, {}});
        return true;
      }
      if (!holds_none(*value) || !wanted.default_value)
        return fail(format("its argument `%s` does not take %s there", wanted.name.c_str(),
                           with_article(*value->type).c_str()));
    } else if (!wanted.default_value) {
      return fail(format("it needs an argument `%s` there", wanted.name.c_str()));
    }
    arguments_.push_back({nullptr, wanted.default_value});
    return true;
  }

  bool takes(const SchemaArgument& wanted, const SchemaArgument& given, const GraphValue& value) {
    return wanted.type == given.type ||
           takes_as_it_is(classes_, wanted.type, value.type, &bindings_);
  }

  bool can_go(size_t index) const {
    const SchemaArgument& argument = now_.arguments[index];
    const GraphValue* const value = call_.inputs[index];
    // The class of an exception can go, because the older lite interpreters raise the same
    // exception without it.
    if (now_.name == "prim::RaiseException" && argument.name == "cls") return true;
    return argument.default_value && is_constant(value) &&
           equal_constants(*argument.default_value, *value->node->constant);
  }

  const Classes& classes_;
  const Node& call_;
  const Schema& now_;
  const Schema& target_;
  std::vector<bool> is_used_;
  std::vector<LoweredArgument> arguments_;
  Bindings bindings_;
  std::string why_;
};

class Lowering {
 public:
  Lowering(const Classes& classes, const Target& target, uint8_t version, Graph* graph)
      : classes_(classes), target_(target), version_(version), graph_(*graph) {}

  Status block(Block* block) {
    std::vector<Node*> nodes;
    nodes.reserve(block->nodes.size());
    for (Node* node : block->nodes) {
      if (node->kind == NodeKind::kOperator) TENON_TRY(call(node, &nodes));
      nodes.push_back(node);
      for (Block* inner : node->blocks) TENON_TRY(this->block(inner));
    }
    block->nodes = std::move(nodes);
    return {};
  }

 private:
  // Lowers one call. Constants and further calls that it needs are appended to `nodes`, before it.
  Status call(Node* node, std::vector<Node*>* nodes) {
    if (std::optional<LoweredCall> lowered = stand_in(*node, target_, version_)) {
      node->inputs = inputs_of(*node, lowered->arguments, nodes);
      node->schema = lowered->schema;
      return {};
    }
    std::vector<const Schema*> candidates =
        script::SchemaTable::get().schemas_in(node->schema->name, version_);
    if (std::find(candidates.begin(), candidates.end(), node->schema) != candidates.end())
      return {};
    // The overload of the same name is tried first. The others follow in PyTorch's order.
    const auto is_same = [&](const Schema* schema) {
      return schema->overload == node->schema->overload;
    };
    const auto others = std::stable_partition(candidates.begin(), candidates.end(), is_same);
    const bool has_overload = others != candidates.begin();
    std::string why;
    for (const Schema* candidate : candidates) {
      Fit fit(classes_, *node, *candidate);
      if (fit.run()) {
        node->inputs = inputs_of(*node, fit.arguments(), nodes);
        node->schema = candidate;
        return {};
      }
      if (why.empty()) why = fit.why();
    }
    return refuse(*node, candidates.empty() ? ""
                         : has_overload     ? why
                                            : "it has no overload there that takes this call");
  }

  // Makes a node with the same place in the source as `node`.
  Node* make(NodeKind kind, const Node& node) {
    Node* const made = graph_.make_node(kind);
    made->owner = node.owner;
    made->source = node.source;
    made->range = node.range;
    return made;
  }

  GraphValue* value_of(const Node& node, LoweredArgument& argument, std::vector<Node*>* nodes) {
    if (argument.value != nullptr) return argument.value;
    if (argument.made != nullptr) {
      Node* const made = make(NodeKind::kOperator, node);
      made->schema = argument.made->schema;
      made->inputs = inputs_of(node, argument.made->arguments, nodes);
      nodes->push_back(made);
      return graph_.add_output(made, argument.made->returns);
    }
    Node* const made = make(NodeKind::kConstant, node);
    const TypeRef type = type_of_literal(*argument.constant);
    made->constant = std::move(argument.constant);
    nodes->push_back(made);
    return graph_.add_output(made, type ? type : value::Type::any());
  }

  std::vector<GraphValue*> inputs_of(const Node& node, std::vector<LoweredArgument>& arguments,
                                     std::vector<Node*>* nodes) {
    std::vector<GraphValue*> inputs;
    inputs.reserve(arguments.size());
    for (LoweredArgument& argument : arguments) inputs.push_back(value_of(node, argument, nodes));
    return inputs;
  }

  Status refuse(const Node& node, const std::string& why) const {
    const Schema& schema = *node.schema;
    std::string what =
        format("bytecode of version %lld is for PyTorch %s and later, ",
               static_cast<long long>(target_.version), std::string(target_.torch).c_str());
    const std::string name =
        schema.overload.empty() ? schema.name : schema.name + "." + schema.overload;
    what += why.empty() ? "which has no operator " + schema.name + " yet"
                        : "where this call of " + name + " does not fit: " + why;
    return node.source->error(Code::kUnsupported, node.range,
                              what + ". Give a newer version of bytecode");
  }

  const Classes& classes_;
  const Target& target_;
  uint8_t version_;
  Graph& graph_;
};

}  // namespace

Status lower_operators(const Classes& classes, const Target& target, Graph* graph) {
  if (!target.lowers()) return {};
  const std::optional<uint8_t> version = script::SchemaTable::get().find_version(target.torch);
  if (!version)
    return Status(Code::kInternal,
                  "the table of schemas has no PyTorch " + std::string(target.torch));
  return Lowering(classes, target, *version, graph).block(&graph->body());
}

}  // namespace tenon::compile

#include "modules/compile/emit.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "modules/compile/drops.h"
#include "modules/compile/evaluate.h"
#include "modules/compile/lite_type.h"
#include "modules/compile/lower.h"
#include "modules/compile/match.h"
#include "modules/compile/operator_arity.h"
#include "modules/compile/stack_plan.h"

namespace tenon::compile {
namespace {

using bytecode::Opcode;
using script::Schema;
using value::TypeRef;

// From these archive versions on, linspace and logspace have their present meaning.
constexpr int kNewLinspace = 8;
constexpr int kNewLogspace = 9;

// An operator that has an instruction of its own from version 8 on.
struct Promoted {
  std::string_view name;
  Opcode opcode;
};
constexpr auto kPromoted = std::to_array<Promoted>({
    {"aten::__is__", Opcode::kIs},
    {"aten::__isnot__", Opcode::kIsNot},
    {"aten::__not__", Opcode::kNot},
    {"aten::dim", Opcode::kDim},
    {"aten::format", Opcode::kFormat},
    {"prim::NumToTensor", Opcode::kNumToTensor},
    {"prim::RaiseException", Opcode::kRaiseException},
    {"prim::device", Opcode::kDevice},
    {"prim::dtype", Opcode::kDtype},
    {"prim::is_cuda", Opcode::kIsCuda},
    {"prim::tolist", Opcode::kToList},
});

// How many arguments of a call must be loaded, as PyTorch counts them, and how many `out` arguments
// the call has.
struct Specified {
  size_t count = 0;
  size_t out = 0;
};

Specified specified_arguments(const Node& node, bool defaults_before_out) {
  const std::vector<script::SchemaArgument>& formals = node.schema->arguments;
  size_t end = formals.size();
  if (defaults_before_out) {
    while (end > 0 && formals[end - 1].is_out) --end;
  }
  Specified made{0, formals.size() - end};
  if (formals.size() < node.inputs.size()) return {node.inputs.size(), made.out};
  for (; end > 0; --end) {
    const script::SchemaArgument& formal = formals[end - 1];
    const GraphValue* const given = node.inputs[end - 1];
    if (!formal.default_value || !is_constant(given) ||
        !equal_constants(*formal.default_value, *given->node->constant))
      break;
  }
  made.count = end;
  return made;
}

class Emitter {
 public:
  Emitter(const Unit& unit, const Compiled& compiled, Graph* graph, const EmitOptions& options,
          const Target& target, DebugRecorder* debug)
      : unit_(unit),
        compiled_(compiled),
        graph_(*graph),
        options_(options),
        target_(target),
        debug_(debug),
        parameters_(graph->make_node(NodeKind::kParameters)),
        results_(graph->make_node(NodeKind::kResults)) {}

  Result<bytecode::Function> run() {
    choose_overloads(&graph_.body());
    TENON_TRY(lower_operators(unit_.classes(), target_, &graph_));
    add_drops(&graph_);
    const StackPlan plan(&graph_.body());
    plan_ = &plan;
    count_arguments(graph_.body());
    out_.name = compiled_.name;
    if (debug_ != nullptr) debug_->begin(compiled_.source, compiled_.name_range);
    TENON_TRY(block(graph_.body()));
    current_ = results_;
    add(Opcode::kRet, 0, 0);
    for (std::string& name : methods_) {
      out_.constants.push_back(value::Value::of_str(std::move(name)));
    }
    // The names of interface methods come after all other constants in the table.
    for (const size_t at : interface_calls_)
      out_.instructions[at].x += static_cast<int32_t>(out_.constants.size() - methods_.size());
    out_.register_count = registers_;
    TENON_TRY(schema());
    if (debug_ != nullptr) debug_->end();
    return std::move(out_);
  }

 private:
  void add(Opcode opcode, int64_t x, int64_t n) {
    out_.instructions.push_back({opcode, static_cast<int32_t>(x), static_cast<int32_t>(n)});
    if (debug_ != nullptr) debug_->add(current_);
  }
  int64_t here() const noexcept { return static_cast<int64_t>(out_.instructions.size()); }

  void choose_overloads(Block* block) {
    for (Node* node : block->nodes) {
      if (node->kind == NodeKind::kOperator)
        node->schema = overload_of(unit_.classes(), unit_.torch(), *node);
      for (Block* inner : node->blocks) choose_overloads(inner);
    }
  }

  // Whether all arguments of a call are loaded. For linspace and logspace in an old archive, a
  // newer PyTorch runs a function of its own, and that function fills in no defaults. If all
  // arguments are loaded for a lowered target, an entry with a number of arguments must say the
  // full number.
  bool loads_all(const Node& node) const {
    const bool is_linspace = node.schema->name == "aten::linspace";
    const bool is_logspace = node.schema->name == "aten::logspace";
    if ((is_linspace && options_.archive_version < kNewLinspace) ||
        (is_logspace && options_.archive_version < kNewLogspace))
      return true;
    return target_.lowers() && (options_.default_inputs || is_linspace || is_logspace);
  }

  void count_arguments(const Block& block) {
    for (const Node* node : block.nodes) {
      if (node->kind == NodeKind::kOperator) {
        const Specified made = loads_all(*node)
                                   ? Specified{node->inputs.size(), 0}
                                   : specified_arguments(*node, options_.defaults_before_out);
        Specified& most = specified_[node->schema];
        most.count = std::max(most.count, made.count);
        most.out = made.out;
      }
      for (const Block* inner : node->blocks) count_arguments(*inner);
    }
  }

  Status block(const Block& block) {
    const Node* const around = std::exchange(current_, parameters_);
    store(block.inputs);
    for (const Node* node : block.nodes) {
      if (node->kind == NodeKind::kConstant || plan_->is_inline(node)) continue;
      TENON_TRY(this->node(*node));
      current_ = node;
      store(node->outputs);
    }
    current_ = results_;
    for (const GraphValue* output : block.outputs) TENON_TRY(use(output, false));
    current_ = around;
    return {};
  }

  void store(const std::vector<GraphValue*>& values) {
    if (values.empty()) return;
    for (const GraphValue* value : values) registers_of_[value] = ++registers_;
    const int64_t first = registers_ - static_cast<int64_t>(values.size()) + 1;
    if (values.size() == 1)
      add(Opcode::kStore, first, 0);
    else
      add(Opcode::kStoreN, first, static_cast<int64_t>(values.size()));
  }

  // Loads a constant, or a value from its register. `is_dropped` empties the register instead.
  void load_plain(const GraphValue* value, bool is_dropped) {
    if (is_constant(value)) {
      const auto [found, is_new] =
          constants_.try_emplace(value, static_cast<int64_t>(out_.constants.size()));
      if (is_new) out_.constants.push_back(value->node->constant);
      add(Opcode::kLoadC, found->second, 0);
      return;
    }
    const bool is_last = ++used_[value] == plan_->uses(value);
    add(is_dropped ? Opcode::kDropR
        : is_last  ? Opcode::kMove
                   : Opcode::kLoad,
        registers_of_.at(value), 0);
  }

  bool is_inline(const GraphValue* value) const {
    return value->node != nullptr && plan_->is_inline(value->node);
  }

  Status use(const GraphValue* value, bool is_dropped) {
    if (!is_inline(value)) {
      load_plain(value, is_dropped);
      return {};
    }
    TENON_TRY(node(*value->node));
    if (is_dropped) add(Opcode::kDrop, 0, 0);
    return {};
  }

  // Whether an input of the node is left out, because the interpreter fills in its default.
  bool is_left_out(const Node& node, size_t index) const {
    if (node.kind != NodeKind::kOperator || options_.default_inputs || is_instruction(node) ||
        node.schema->takes_more)
      return false;
    const Specified most = specified_.at(node.schema);
    const bool is_out = options_.defaults_before_out && index >= node.inputs.size() - most.out;
    return index >= most.count && !is_out;
  }

  // Loads the inputs of the node, and then emits the node. Nodes that are inline can be nested as
  // deep as the function is long, so this is a loop with its own stack.
  Status node(const Node& root) {
    struct OpenNode {
      const Node* node;
      size_t next;
    };
    std::vector<OpenNode> open{{&root, 0}};
    const Node* const around = current_;
    begin(root);
    while (!open.empty()) {
      OpenNode& step = open.back();
      const Node& node = *step.node;
      current_ = &node;
      const bool takes_inputs = node.kind != NodeKind::kDrop && node.kind != NodeKind::kCalled &&
                                node.kind != NodeKind::kConstant;
      if (!takes_inputs || step.next == node.inputs.size()) {
        TENON_TRY(finish(node));
        open.pop_back();
        continue;
      }
      const size_t index = step.next++;
      const GraphValue* const input = node.inputs[index];
      if (is_left_out(node, index)) continue;
      if (is_inline(input)) {
        begin(*input->node);
        open.push_back({input->node, 0});
      } else {
        load_plain(input, false);
      }
    }
    current_ = around;
    return {};
  }

  // Before the inputs of a loop, the number of its rounds so far goes onto the stack.
  void begin(const Node& node) {
    if (node.kind != NodeKind::kLoop) return;
    current_ = &node;
    out_.constants.push_back(value::Value::of_int(0));
    add(Opcode::kLoadC, static_cast<int64_t>(out_.constants.size()) - 1, 0);
  }

  // Emits the node. Its inputs are on the stack.
  Status finish(const Node& node) {
    switch (node.kind) {
      case NodeKind::kConstant:
      case NodeKind::kCalled:
      case NodeKind::kParameters:
      case NodeKind::kResults: return {};
      case NodeKind::kOperator: return operation(node);
      case NodeKind::kTupleUnpack: plain_operator("prim::TupleUnpack", "", 1); return {};
      case NodeKind::kTupleConstruct: return tuple(node);
      case NodeKind::kListConstruct:
      case NodeKind::kDictConstruct: {
        TENON_ASSIGN(const int64_t type, add_type(node, *node.outputs[0]->type));
        add(node.kind == NodeKind::kListConstruct ? Opcode::kListConstruct : Opcode::kDictConstruct,
            type, static_cast<int64_t>(node.inputs.size()));
        return check_count(node);
      }
      case NodeKind::kTupleIndex:
        if (options_.promoted_operators)
          add(Opcode::kTupleIndex, 0, 0);
        else
          plain_operator("prim::TupleIndex", "", 2);
        return {};
      case NodeKind::kTupleSlice:
        add(Opcode::kTupleSlice, node.number, node.end - node.number);
        return {};
      case NodeKind::kListUnpack:
        TENON_TRY(check_count(node, node.outputs.size()));
        add(Opcode::kListUnpack, static_cast<int64_t>(node.outputs.size()), 0);
        return {};
      case NodeKind::kGetAttribute:
      case NodeKind::kSetAttribute:
        add(node.kind == NodeKind::kGetAttribute ? Opcode::kGetAttr : Opcode::kSetAttr, node.number,
            0);
        return {};
      case NodeKind::kInterfaceCall: return interface_call(node);
      case NodeKind::kIsInstance: {
        if (!target_.has_isinstance) return lacks(node, "no isinstance");
        TENON_TRY(check_count(node, node.types.size()));
        const auto first = static_cast<int64_t>(out_.types.size());
        for (const TypeRef& type : node.types) {
          // If a NamedTuple becomes a plain tuple, isinstance cannot tell it from another tuple
          // with such items.
          if (holds_plain_named_tuple(unit_.classes(), *type, target_)) {
            const std::string why = "no NamedTuple " + type->print() +
                                    ", so isinstance cannot tell one from another tuple";
            if (target_.lowers()) return lacks(node, why.c_str());
            const char* const who = target_.has_named_tuples ? "the lite interpreter of PyTorch"
                                                             : "the flatbuffer form";
            return node.source->error(Code::kUnsupported, node.range,
                                      std::string(who) + " has " + why);
          }
          TENON_TRY(add_type(node, *type).status());
        }
        add(Opcode::kIsInstance, first, static_cast<int64_t>(node.types.size()));
        return {};
      }
      case NodeKind::kUninitialized:
        if (options_.promoted_operators)
          add(Opcode::kUninitialized, 0, 0);
        else
          plain_operator("prim::Uninitialized", "", 0);
        return {};
      case NodeKind::kIf: return branch(node);
      case NodeKind::kLoop: return loop(node);
      case NodeKind::kDrop:
        for (const GraphValue* input : node.inputs) TENON_TRY(use(input, true));
        return {};
    }
    return {};
  }

  // Counts of an instruction have 16 bits.
  Status check_count(const Node& node) const { return check_count(node, node.inputs.size()); }
  static Status check_count(const Node& node, size_t count) {
    if (count <= std::numeric_limits<uint16_t>::max()) return {};
    return node.source->error(Code::kUnsupported, node.range,
                              "bytecode has no instruction for more than 65535 items");
  }

  Result<int64_t> add_type(const Node& node, const value::Type& type) {
    Result<std::string> text = lite_type(unit_.classes(), type, target_);
    if (!text.is_ok())
      return node.source->error(Code::kUnsupported, node.range, text.status().message());
    define_named_tuples(type);
    out_.types.push_back(std::move(text).value());
    return static_cast<int64_t>(out_.types.size()) - 1;
  }

  bool keeps_named_tuple(const value::Type& type) const {
    return compile::keeps_named_tuple(unit_.classes(), type, target_);
  }

  Status lacks(const Node& node, const char* what) const {
    return node.source->error(
        Code::kUnsupported, node.range,
        format("the lite interpreter of PyTorch %s, for which bytecode of version %lld is, has %s. "
               "Give a newer version",
               std::string(target_.torch).c_str(), static_cast<long long>(target_.version), what));
  }

  // PyTorch's loader reads a NamedTuple within another type by its name alone, so its definition
  // must come earlier in the table.
  void define_named_tuples(const value::Type& type) {
    for (const TypeRef& part : type.parts()) {
      define_named_tuples(*part);
      if (!keeps_named_tuple(*part) || !defined_.insert(part->class_name()).second) continue;
      Result<std::string> text = lite_type(unit_.classes(), *part, target_);
      if (text.is_ok()) out_.types.push_back(std::move(text).value());
    }
    if (!unit_.classes().is_named_tuple(type) || !seen_.insert(type.class_name()).second) return;
    for (const TypeRef& item : unit_.classes().items_of(type)) define_named_tuples(*item);
  }

  int64_t add_operator(const std::string& name, const std::string& overload, int32_t arguments) {
    const auto [found, is_new] = operators_.try_emplace(
        {name, overload, arguments}, static_cast<int64_t>(out_.operators.size()));
    if (is_new) out_.operators.push_back({name, overload, arguments});
    return found->second;
  }

  void plain_operator(const std::string& name, const std::string& overload, int32_t arguments) {
    const bool needs_count = !options_.default_inputs || needs_count_of(name, overload);
    add(Opcode::kOp,
        add_operator(name, overload,
                     needs_count ? arguments : bytecode::OperatorUse::kAllArguments),
        0);
  }

  // Whether the entry of an operator needs a number of arguments although all are loaded. Without a
  // number, a newer PyTorch would take as many values as its own schema has arguments, and could
  // read below the stack.
  bool needs_count_of(const std::string& name, const std::string& overload) const {
    if (!target_.lowers() || !target_.reads_counts) return false;
    const std::optional<bytecode::OperatorArity> arity = find_operator_arity(name, overload);
    return arity && arity->inputs == bytecode::OperatorArity::kAny;
  }

  // The number of arguments in the entry of an operator that takes any number. PyTorch 1.10
  // and 1.11 load the number that PyTorch writes (kVariadic), but fail to run the operator. They
  // run it if the entry has no number, as all other versions do.
  int32_t any_number() const noexcept {
    return options_.default_inputs || target_.lowers() ? bytecode::OperatorUse::kAllArguments
                                                       : bytecode::OperatorUse::kVariadic;
  }

  Status tuple(const Node& node) {
    TENON_TRY(check_count(node));
    const value::Type& type = *node.outputs[0]->type;
    if (!keeps_named_tuple(type)) {
      add(Opcode::kTupleConstruct, static_cast<int64_t>(node.inputs.size()), 0);
      return {};
    }
    TENON_ASSIGN(const int64_t index, add_type(node, type));
    add(Opcode::kNamedTupleConstruct, index, static_cast<int64_t>(node.inputs.size()));
    return {};
  }

  const Promoted* promoted(const Schema& schema) const {
    if (!options_.promoted_operators) return nullptr;
    const auto* const found =
        std::find_if(kPromoted.begin(), kPromoted.end(),
                     [&](const Promoted& each) { return each.name == schema.name; });
    return found != kPromoted.end() ? found : nullptr;
  }
  bool is_dict_index(const Schema& schema) const {
    return options_.promoted_operators && schema.name == "aten::__getitem__" &&
           schema.overload.starts_with("Dict_");
  }
  // Whether the operator is emitted as an instruction of its own.
  bool is_instruction(const Node& node) const {
    return promoted(*node.schema) != nullptr || is_dict_index(*node.schema) ||
           node.schema->name == "aten::warn";
  }

  Status operation(const Node& node) {
    const Schema& schema = *node.schema;
    if (const Promoted* const found = promoted(schema)) {
      add(found->opcode,
          found->opcode == Opcode::kFormat ? static_cast<int64_t>(node.inputs.size()) : 0, 0);
      return {};
    }
    if (is_dict_index(schema)) {
      add(Opcode::kDictIndex, 0, 0);
      return {};
    }
    if (schema.name == "aten::warn") {
      add(Opcode::kWarn, warnings_++, 0);
      return {};
    }
    if (schema.takes_more) {
      TENON_TRY(check_count(node));
      // PyTorch writes an entry of the table for each such call. prim::tolist takes three
      // arguments, although its schema does not say so.
      const bool has_fixed_count = schema.name == "prim::tolist";
      add(has_fixed_count ? Opcode::kOp : Opcode::kOpN, static_cast<int64_t>(out_.operators.size()),
          has_fixed_count ? 0 : static_cast<int64_t>(node.inputs.size()));
      out_.operators.push_back({schema.name, schema.overload, any_number()});
      return {};
    }
    const Specified most = specified_.at(&schema);
    plain_operator(
        schema.name, schema.overload,
        static_cast<int32_t>(most.count + (options_.defaults_before_out ? most.out : 0)));
    return {};
  }

  Status interface_call(const Node& node) {
    if (!target_.has_interface_calls) return lacks(node, "no calls through an interface");
    // For now the index counts from the first name of a method. run() adds the number of all other
    // constants once it is known.
    interface_calls_.push_back(out_.instructions.size());
    add(Opcode::kInterfaceCall, static_cast<int64_t>(methods_.size()),
        static_cast<int64_t>(node.inputs.size()));
    methods_.push_back(node.name);
    return check_count(node);
  }

  Status branch(const Node& node) {
    const int64_t start = here();
    add(Opcode::kJf, 0, 0);
    TENON_TRY(block(*node.blocks[0]));
    const int64_t end_of_true = here();
    add(Opcode::kJmp, 0, 0);
    out_.instructions[static_cast<size_t>(start)].x = static_cast<int32_t>(here() - start);
    TENON_TRY(block(*node.blocks[1]));
    out_.instructions[static_cast<size_t>(end_of_true)].x =
        static_cast<int32_t>(here() - end_of_true);
    return {};
  }

  Status loop(const Node& node) {
    const int64_t start = here();
    TENON_TRY(check_count(node));
    add(Opcode::kLoop, 0, static_cast<int64_t>(node.inputs.size()));
    TENON_TRY(block(*node.blocks[0]));
    add(Opcode::kJmp, start - here(), 0);
    out_.instructions[static_cast<size_t>(start)].x = static_cast<int32_t>(here() - start);
    keep_for_next_round(static_cast<size_t>(start) + 1);
    return {};
  }

  // A value from outside of a loop may have its last use in the body. The next round uses it again,
  // so the MOVE of its register becomes a LOAD.
  void keep_for_next_round(size_t begin) {
    const std::span<bytecode::Instruction> body = std::span(out_.instructions).subspan(begin);
    std::unordered_set<int32_t> stored;
    for (const bytecode::Instruction& each : body) {
      const int32_t count = each.opcode == Opcode::kStore    ? 1
                            : each.opcode == Opcode::kStoreN ? each.n
                                                             : 0;
      for (int32_t i = 0; i < count; ++i) stored.insert(each.x + i);
    }
    for (bytecode::Instruction& each : body) {
      if (each.opcode == Opcode::kMove && !stored.contains(each.x)) each.opcode = Opcode::kLoad;
    }
  }

  Status schema() {
    for (size_t i = 0; i < compiled_.parameters.size(); ++i) {
      const script::SchemaArgument& argument = compiled_.schema.arguments[i];
      if (argument.keyword_only)
        return compiled_.source->error(
            Code::kUnsupported, compiled_.name_range,
            "the lite interpreter of PyTorch has no arguments that are given by keyword only");
      out_.arguments.push_back(
          {argument.name,
           schema_type_text(unit_.classes(), *compiled_.parameters[i], true, target_),
           argument.default_value});
    }
    out_.returns.push_back(
        {"", schema_type_text(unit_.classes(), *compiled_.returns, false, target_), {}});
    return {};
  }

  const Unit& unit_;
  const Compiled& compiled_;
  Graph& graph_;
  EmitOptions options_;
  const Target& target_;
  DebugRecorder* debug_;  // null: no debug info is wanted
  const Node* parameters_;
  const Node* results_;
  const Node* current_ = nullptr;  // the node from which the next instruction comes
  const StackPlan* plan_ = nullptr;
  bytecode::Function out_;
  int64_t registers_ = 0;
  int64_t warnings_ = 0;
  std::unordered_map<const GraphValue*, int64_t> registers_of_;
  std::unordered_map<const GraphValue*, size_t> used_;
  std::unordered_map<const GraphValue*, int64_t> constants_;
  std::unordered_map<const Schema*, Specified> specified_;
  std::map<std::tuple<std::string, std::string, int32_t>, int64_t> operators_;
  std::vector<std::string> methods_;
  std::vector<size_t> interface_calls_;
  std::set<std::string> defined_;  // NamedTuples whose definitions are in the table of types
  std::set<std::string> seen_;     // NamedTuples whose fields were searched for NamedTuples
};

}  // namespace

EmitOptions emit_options_for(EmitOptions options, const Target& target) {
  options.default_inputs = options.default_inputs || target.all_arguments;
  options.defaults_before_out = options.defaults_before_out && target.defaults_before_out;
  options.promoted_operators = options.promoted_operators && target.promoted_operators;
  return options;
}

Result<bytecode::Function> emit(const Unit& unit, const Compiled& compiled, Graph* graph,
                                const EmitOptions& options, const Target& target,
                                DebugRecorder* debug) {
  return Emitter(unit, compiled, graph, options, target, debug).run();
}

}  // namespace tenon::compile

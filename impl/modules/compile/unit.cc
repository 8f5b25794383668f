#include "modules/compile/unit.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/immortal.h"
#include "base/once.h"
#include "modules/compile/function_compiler.h"
#include "modules/compile/literal.h"
#include "modules/compile/passes.h"
#include "modules/script/parser.h"
#include "modules/script/signature.h"

namespace tenon::compile {
namespace {

using script::Function;

// An overload that PyTorch keeps as TorchScript source and not as an operator. The texts here are
// Tenon's own and compute the same. `{}` stands for a type of numbers, and there is one function
// for each such type.
struct SourceOperator {
  std::string_view name;
  std::string_view text;
  // Archives of this version or later do not have the overload. 0: all archives have it. All
  // overloads of one name have the same number.
  int end_version = 0;
};

// In archives below these versions the number of steps may be None, which means 100.
constexpr int kLinspaceNeedsSteps = 8;
constexpr int kLogspaceNeedsSteps = 9;

constexpr auto kSourceOperators = std::to_array<SourceOperator>({
    {"aten::_assert",
     "def f(condition: bool, message: str) -> None:\n  assert condition, message\n"},
    {"aten::_assert",
     "def f(condition: Tensor, message: str) -> None:\n  assert bool(condition), message\n"},
    {"aten::__contains__",
     "def f(self: str, key: str) -> bool:\n  return torch.find(self, key, 0, -1) != -1\n"},
    {"aten::add", "def f(a: {}, b: Tensor) -> Tensor:\n  return torch.add(b, a)\n"},
    {"aten::eq", "def f(a: {}, b: Tensor) -> Tensor:\n  return torch.eq(b, a)\n"},
    {"aten::ne", "def f(a: {}, b: Tensor) -> Tensor:\n  return torch.ne(b, a)\n"},
    {"aten::lt", "def f(a: {}, b: Tensor) -> Tensor:\n  return torch.gt(b, a)\n"},
    {"aten::gt", "def f(a: {}, b: Tensor) -> Tensor:\n  return torch.lt(b, a)\n"},
    {"aten::le", "def f(a: {}, b: Tensor) -> Tensor:\n  return torch.ge(b, a)\n"},
    {"aten::ge", "def f(a: {}, b: Tensor) -> Tensor:\n  return torch.le(b, a)\n"},
    {"aten::mul", "def f(a: {}, b: Tensor) -> Tensor:\n  return torch.mul(b, a)\n"},
    {"aten::sub", "def f(a: {}, b: Tensor) -> Tensor:\n  return torch.add(torch.neg(b), a)\n"},
    {"aten::div",
     "def f(a: {}, b: Tensor) -> Tensor:\n  return torch.mul(torch.reciprocal(b), a)\n"},
    {"aten::floordiv",
     "def f(self: Tensor, other: Tensor) -> Tensor:\n  return torch.floor_divide(self, other)\n"},
    {"aten::floordiv",
     "def f(self: Tensor, other: number) -> Tensor:\n  return torch.floor_divide(self, other)\n"},
    {"aten::linspace",
     "def f(start: number, end: number, steps: Optional[int]=None, *, dtype: Optional[int]=None, "
     "layout: Optional[int]=None,\n"
     "    device: Optional[Device]=None, pin_memory: Optional[bool]=None) -> Tensor:\n"
     "  count = 100 if steps is None else steps\n"
     "  return torch.linspace(start, end, count, dtype=dtype, layout=layout, device=device, "
     "pin_memory=pin_memory)\n",
     kLinspaceNeedsSteps},
    {"aten::linspace",
     "def f(start: number, end: number, steps: Optional[int]=None, *, out: Tensor) -> Tensor:\n"
     "  count = 100 if steps is None else steps\n"
     "  return torch.linspace(start, end, count, out=out)\n",
     kLinspaceNeedsSteps},
    {"aten::logspace",
     "def f(start: number, end: number, steps: Optional[int]=None, base: float=10.0, *, dtype: "
     "Optional[int]=None,\n"
     "    layout: Optional[int]=None, device: Optional[Device]=None, pin_memory: "
     "Optional[bool]=None) -> Tensor:\n"
     "  count = 100 if steps is None else steps\n"
     "  return torch.logspace(start, end, count, base, dtype=dtype, layout=layout, device=device, "
     "pin_memory=pin_memory)\n",
     kLogspaceNeedsSteps},
    {"aten::logspace",
     "def f(start: number, end: number, steps: Optional[int]=None, base: float=10.0, *, out: "
     "Tensor) -> Tensor:\n"
     "  count = 100 if steps is None else steps\n"
     "  return torch.logspace(start, end, count, base, out=out)\n",
     kLogspaceNeedsSteps},
});
constexpr auto kNumberTypes = std::to_array<std::string_view>({"int", "float", "complex"});

Result<std::unique_ptr<Header>> read_header(std::string name, std::string owner,
                                            const script::Source& source, const Function& function,
                                            std::span<const value::ValueRef> constants) {
  TENON_ASSIGN(const script::Signature signature,
               script::signature(source, function, !owner.empty()));
  auto made = std::make_unique<Header>();
  made->source = &source;
  made->function = &function;
  made->schema.name = name;
  made->name = std::move(name);
  made->owner = std::move(owner);
  made->returns = signature.returns;
  for (size_t i = 0; i < signature.parameters.size(); ++i) {
    const script::Parameter& parameter = signature.parameters[i];
    TypeRef type = parameter.type;
    if (!type && i == 0 && !made->owner.empty()) {
      TENON_ASSIGN(type, Type::class_type(made->owner));
    }
    if (!type) type = Type::tensor();
    script::SchemaArgument argument;
    argument.name = parameter.name;
    argument.type = schema_type(*type);
    argument.keyword_only = parameter.keyword_only;
    if (parameter.default_value != nullptr) {
      TENON_ASSIGN(argument.default_value,
                   literal_value(source, *parameter.default_value, constants, type));
    }
    made->schema.arguments.push_back(std::move(argument));
    made->parameters.push_back(std::move(type));
  }
  if (made->returns) made->schema.returns.push_back(schema_type(*made->returns));
  return made;
}

std::unique_ptr<Unit::SourceOperators> read_source_operators(std::string_view name) {
  auto made = std::make_unique<Unit::SourceOperators>();
  for (const SourceOperator& each : kSourceOperators) {
    if (each.name != name) continue;
    const size_t hole = each.text.find("{}");
    for (const std::string_view number : kNumberTypes) {
      std::string text(each.text);
      if (hole != std::string_view::npos) text.replace(hole, 2, number);
      // The texts are Tenon's own and always parse.
      auto file = script::parse_file("<" + std::string(name) + ">", std::move(text));
      if (!file.is_ok()) continue;
      const script::File& parsed = *file.value();
      auto header = read_header(
          format("%.*s#%zu", static_cast<int>(name.size()), name.data(), made->headers.size()), {},
          parsed.source(), *parsed.items()[0].function, {});
      if (!header.is_ok()) continue;
      made->schemas.push_back(&header.value()->schema);
      made->headers.push_back(std::move(header).value());
      made->files.push_back(std::move(file).value());
      if (hole == std::string_view::npos) break;
    }
  }
  return made;
}

// The parsed overloads of a name are at the index of the first entry of kSourceOperators with that
// name.
struct KnownSourceOperators {
  std::array<Once<Unit::SourceOperators>, kSourceOperators.size()> of;
  Unit::SourceOperators none;
};

}  // namespace

Result<const Header*> Unit::make_header(std::string name, std::string owner,
                                        const script::Source& source, const Function& function) {
  // A method f of the class A and a function f of the file A have one qualified name.
  std::string key = owner.empty() ? name : name + " of a class";
  const auto known = headers_.find(key);
  if (known != headers_.end()) return known->second.get();
  TENON_ASSIGN(std::unique_ptr<Header> made,
               read_header(std::move(name), std::move(owner), source, function, constants_));
  return headers_.emplace(std::move(key), std::move(made)).first->second.get();
}

Result<const Header*> Unit::header(std::string_view qualified_name) {
  const script::Declarations::ItemInFile* const place =
      classes_.declarations().find_place(qualified_name);
  if (place == nullptr || place->item->function == nullptr)
    return Status(Code::kNotFound, "there is no function " + std::string(qualified_name));
  return make_header(std::string(qualified_name), {}, place->file->source(),
                     *place->item->function);
}

Result<const Header*> Unit::method_header(std::string_view class_name, std::string_view method) {
  TENON_ASSIGN(const ClassInfo* const info, classes_.find(class_name));
  const Function* const function = info != nullptr ? info->find_method(method) : nullptr;
  if (function == nullptr)
    return Status(Code::kNotFound,
                  std::string(class_name) + " has no method " + std::string(method))
        .with("class", std::string(class_name));
  return make_header(std::string(class_name) + "." + std::string(method), std::string(class_name),
                     *info->source, *function);
}

Result<Compiled*> Unit::compile_once(const Header& header) {
  const auto known = compiled_.find(&header);
  if (known != compiled_.end()) return known->second.get();
  if (open_.size() >= kMaxCallDepth) {
    return header.source->error(
        Code::kResourceExhausted, header.function->name_range,
        format("functions call each other more than %zu deep", kMaxCallDepth));
  }
  if (!open_.insert(&header).second) {
    return header.source->error(Code::kUnsupported, header.function->name_range,
                                header.name + " calls itself, which PyTorch refuses");
  }
  auto made = std::make_unique<Compiled>();
  FunctionCompiler compiler(this, header, made.get());
  const Status status = compiler.run();
  open_.erase(&header);
  TENON_TRY(status);
  TENON_TRY(count(header, made->graph));
  clean(classes_, &made->graph);
  Compiled* const compiled = made.get();
  compiled_.emplace(&header, std::move(made));
  return compiled;
}

Status Unit::count(const Header& header, const Graph& graph) {
  node_count_ += graph.node_count();
  if (node_count_ <= 4 * options_.max_nodes) return {};
  return header.source->error(Code::kResourceExhausted, header.function->name_range,
                              "the functions of this module are too large to compile, each with "
                              "all functions that it calls");
}

Status Unit::keep(const Header& header, std::unique_ptr<Compiled> compiled) {
  kept_.push_back(std::move(compiled));
  return count(header, kept_.back()->graph);
}

Result<const Compiled*> Unit::compile(const Header& header) {
  TENON_ASSIGN(const Compiled* const compiled, compile_once(header));
  return compiled;
}

Result<const Graph*> Unit::called_graph(const Header& header) {
  TENON_ASSIGN(Compiled* const compiled, compile_once(header));
  if (!compiled->optimised) {
    auto made = std::make_unique<Graph>();
    std::vector<GraphValue*> inputs;
    for (const GraphValue* input : compiled->graph.body().inputs)
      inputs.push_back(made->add_input(&made->body(), input->type));
    made->body().outputs = made->inline_graph(compiled->graph, inputs, &made->body());
    TENON_TRY(count(header, *made));
    optimise(classes_, made.get());
    compiled->optimised = std::move(made);
  }
  return compiled->optimised.get();
}

const Unit::SourceOperators& Unit::source_operators(std::string_view name) const {
  const auto found = std::find_if(kSourceOperators.begin(), kSourceOperators.end(),
                                  [&](const auto& each) { return each.name == name; });
  const auto& known = immortal<KnownSourceOperators>();
  if (found == kSourceOperators.end()) return known.none;
  if (found->end_version != 0 && options_.archive_version >= found->end_version) return known.none;
  return known.of[static_cast<size_t>(found - kSourceOperators.begin())].get(
      [name] { return read_source_operators(name); });
}

void Unit::note_interface_call(std::string_view method) {
  if (interface_names_.emplace(method).second) interface_methods_.emplace_back(method);
}

}  // namespace tenon::compile

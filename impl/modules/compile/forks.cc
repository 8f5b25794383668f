// The part of FunctionCompiler that compiles `fork`, the nested functions that are written for it,
// and `wait`. PyTorch's lite interpreter has none of these. With the option forks_at_once, a forked
// function runs at the place of the `fork`, and a value of type Future[T] is the T itself.
#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "modules/compile/function_compiler.h"
#include "modules/compile/passes.h"
#include "modules/script/ast_walk.h"
#include "modules/script/signature.h"

namespace tenon::compile {

using script::Expr;
using script::ExprKind;
using script::Stmt;
using script::StmtList;

Status FunctionCompiler::refuse_fork(const std::string& what) const {
  return builder_.unsupported("the lite interpreter of PyTorch has no " + what +
                              ". Export with forks_at_once (TENON_EMIT_FORKS_AT_ONCE in C), which "
                              "runs a forked function where fork "
                              "stands, or choose other methods");
}

Status FunctionCompiler::define_closure(const Stmt& stmt) {
  if (!unit_.forks_at_once()) return refuse_fork("`fork`, for which nested functions are");
  const script::Function& function = *stmt.function;
  if (!function.params.empty())
    return builder_.refuse(function.name_range, "a nested function takes no arguments");
  std::set<std::string_view> names;
  const auto note = [&](const Expr& expr) {
    if (expr.kind == ExprKind::kName) names.insert(expr.text);
  };
  script::walk(function, {note, {}});
  Closure& made = closures_.emplace_back();
  made.function = &function;
  for (const std::string_view name : names) {
    const Local* const variable = environment_.find(name);
    if (variable != nullptr && variable->value != nullptr)
      made.captured.emplace_back(name, variable->value);
  }
  SugaredValue sugar = SugaredValue::of(SugaredValue::Kind::kClosure, std::string(function.name));
  sugar.closure = &made;
  name_sugar(function.name, std::move(sugar));
  return {};
}

Status FunctionCompiler::call_closure(const Closure& closure, SugaredValue* out) {
  const Nesting nesting(&unit_);
  if (nesting.is_too_deep()) return too_deep();
  Header header;
  header.source = header_.source;
  header.function = closure.function;
  header.name = header_.name + "." + std::string(closure.function->name);
  header.schema.name = header.name;
  std::vector<GraphValue*> inputs;
  for (const auto& [name, value] : closure.captured) {
    // If the variable has another value now, the captured value may belong to a block that has
    // ended.
    const Local* const variable = environment_.find(name);
    if (variable == nullptr || variable->value != value) {
      return builder_.unsupported(std::string(closure.function->name) + " uses " +
                                  std::string(name) +
                                  ", which was assigned again after it. Tenon does not compile "
                                  "that: fork right after the nested function");
    }
    script::SchemaArgument argument;
    argument.name = name;
    header.schema.arguments.push_back(std::move(argument));
    header.parameters.push_back(value->type);
    inputs.push_back(value);
  }
  if (closure.function->returns != nullptr) {
    TENON_ASSIGN(header.returns,
                 script::annotation_type(*header.source, *closure.function->returns));
  }
  auto compiled = std::make_unique<Compiled>();
  {
    const auto compiler = std::make_unique<FunctionCompiler>(&unit_, header, compiled.get());
    for (const auto& [name, named] : named_sugars_) {
      const SugaredValue& sugar = named.sugar;
      const bool is_of_this_graph =
          sugar.value != nullptr || sugar.closure != nullptr || sugar.iterable != nullptr;
      if (!is_of_this_graph && sugar_of_name(name) != nullptr) compiler->name_sugar(name, sugar);
    }
    TENON_TRY(compiler->run());
  }
  clean(builder_.classes(), &compiled->graph);
  TENON_TRY(builder_.check_room(compiled->graph.node_count()));
  Graph& graph = builder_.graph();
  const Call* const call =
      graph.add_call({&builder_.source(), builder_.range(), {}, {}, closure.function->name});
  *out = SugaredValue::of(graph.inline_graph(compiled->graph, inputs, builder_.block(), call)[0]);
  TENON_TRY(unit_.keep(header, std::move(compiled)));
  return builder_.check_size();
}

Status FunctionCompiler::fork(const Expr& expr, std::string_view name, SugaredValue* out) {
  if (name != "fork")
    return builder_.unsupported("the lite interpreter of PyTorch has no " + std::string(name));
  if (!unit_.forks_at_once()) return refuse_fork("fork");
  if (expr.arguments().empty()) return builder_.refuse("fork takes a function and its arguments");
  const Expr& function = *expr.arguments()[0];
  SugaredValue callee;
  TENON_TRY(sugar(function, nullptr, &callee));
  GivenArguments given;
  TENON_TRY(arguments(expr, 1, &given));
  SugaredValue made;
  if (callee.kind == SugaredValue::Kind::kClosure) {
    if (!given.positional.empty() || !given.keywords.empty())
      return builder_.refuse(std::string(function.text) +
                             " takes no arguments: it is a nested function");
    TENON_TRY(call_closure(*callee.closure, &made));
  } else {
    TENON_TRY(call_sugar(expr, callee, given, &made));
  }
  TENON_ASSIGN(GraphValue* const result, value_of(std::move(made), expr.range));
  Result<TypeRef> type = Type::future(result->type);
  if (!type.is_ok()) return builder_.refuse(type.status().message());
  TENON_ASSIGN(GraphValue* const future, builder_.unchecked_cast(result, std::move(type).value()));
  *out = SugaredValue::of(future);
  return {};
}

Status FunctionCompiler::wait(GraphValue* future, TypeRef type, SugaredValue* out) {
  if (!unit_.forks_at_once()) return refuse_fork("wait");
  TENON_ASSIGN(GraphValue* const result, builder_.unchecked_cast(future, std::move(type)));
  *out = SugaredValue::of(result);
  return {};
}

}  // namespace tenon::compile

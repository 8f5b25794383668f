#include "modules/compile/compile.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "modules/compile/emit.h"
#include "modules/compile/target.h"
#include "modules/compile/types.h"
#include "modules/compile/unit.h"

namespace tenon::compile {
namespace {

class ProgramCompiler {
 public:
  ProgramCompiler(const script::Declarations& declarations,
                  std::span<const value::ValueRef> constants, const CompileOptions& options,
                  DebugInfo* debug_info)
      : unit_(declarations, options.slots, constants,
              {options.torch, options.max_nodes, options.forks_at_once,
               options.emit.archive_version}),
        options_(options) {
    if (debug_info != nullptr) debug_.emplace(debug_info);
  }

  Result<bytecode::Program> run(std::string_view root, std::span<const std::string> modules) {
    TENON_ASSIGN(const Target* const found, target_of(options_.version));
    target_ = *found;
    if (!options_.named_tuples) target_.has_named_tuples = false;
    program_.version = target_.version;
    emit_ = emit_options_for(options_.emit, target_);
    TENON_ASSIGN(const ClassInfo* const info, unit_.classes().find(root));
    if (info == nullptr) return Status(Code::kNotFound, "there is no class " + std::string(root));
    for (const std::string& method : options_.methods) {
      if (info->find_method(method) == nullptr)
        return Status(Code::kNotFound,
                      format("%.*s has no method %s", static_cast<int>(root.size()), root.data(),
                             method.c_str()));
    }
    const std::set<std::string_view> wanted(options_.methods.begin(), options_.methods.end());
    for (const script::Method& method : info->parts.methods) {
      const std::string_view name = method.function->name;
      if (!wanted.empty() && !wanted.contains(name)) continue;
      // For a class with `__setstate__` and without `__getstate__`, the lite interpreter reads the
      // attributes and would call the method with them.
      if (name == "__setstate__" && info->find_method("__getstate__") == nullptr) continue;
      if (name == "forward") TENON_TRY(check_hooks(*info));
      TENON_TRY(add(root, name));
    }
    TENON_TRY(add_state_methods(modules));
    if (options_.interface_methods) TENON_TRY(add_implementations(modules));
    if (program_.functions.empty()) {
      return info->source->error(
          Code::kUnsupported, info->name_range,
          std::string(root) + " has no method that the lite interpreter of PyTorch can run");
    }
    return std::move(program_);
  }

 private:
  // The hooks of a part of the root are called by the code that calls its forward. The hooks of the
  // root are called by PyTorch's loader of archives, and not by its loader of bytecode.
  Status check_hooks(const ClassInfo& root) {
    for (const auto* const hooks : {&root.parts.forward_pre_hooks, &root.parts.forward_hooks}) {
      if (!hooks->has_value() || (*hooks)->names.empty()) continue;
      return root.source->error(
          Code::kUnsupported, (*hooks)->statement->range,
          "the lite interpreter of PyTorch does not call hooks of the root's forward: call " +
              (*hooks)->names[0] + " in a method, or choose other methods");
    }
    return {};
  }

  // Refuses a method that takes or returns a Future. If forks run at once, the schema has T in
  // place of Future[T], and the callers give and get a T.
  Status check_futures(const Compiled& compiled) const {
    if (options_.forks_at_once) return {};
    const auto is_future = [](const value::TypeRef& type) { return holds_future(*type); };
    const bool takes_future =
        std::any_of(compiled.parameters.begin(), compiled.parameters.end(), is_future);
    if (!takes_future && !is_future(compiled.returns)) return {};
    return compiled.source->error(
        Code::kUnsupported, compiled.name_range,
        "the lite interpreter of PyTorch has no Future, which " + compiled.name +
            (takes_future ? " takes" : " returns") +
            ". Export with forks_at_once (TENON_EMIT_FORKS_AT_ONCE in C), or choose other methods");
  }

  Status add(std::string_view class_name, std::string_view method) {
    TENON_ASSIGN(const Header* const header, unit_.method_header(class_name, method));
    if (!done_.insert(header->name).second) return {};
    TENON_ASSIGN(const Compiled* const compiled, unit_.compile(*header));
    TENON_TRY(check_futures(*compiled));
    // The emitter changes the graph, and the Unit may still copy the graph into a caller. So the
    // emitter gets a copy.
    Graph graph;
    std::vector<GraphValue*> inputs;
    inputs.reserve(compiled->parameters.size());
    for (const value::TypeRef& type : compiled->parameters)
      inputs.push_back(graph.add_input(&graph.body(), type));
    graph.body().outputs = graph.inline_graph(compiled->graph, inputs, &graph.body());
    TENON_ASSIGN(bytecode::Function function,
                 emit(unit_, *compiled, &graph, emit_, target_, debug_ ? &*debug_ : nullptr));
    program_.functions.push_back(std::move(function));
    return {};
  }

  // Adds the methods that the reader of an archive calls to make objects from their states.
  Status add_state_methods(std::span<const std::string> modules) {
    for (const std::string& name : modules) {
      TENON_ASSIGN(const ClassInfo* const info, unit_.classes().find(name));
      if (info == nullptr || info->find_method("__setstate__") == nullptr ||
          info->find_method("__getstate__") == nullptr)
        continue;
      TENON_TRY(add(name, "__setstate__"));
      TENON_TRY(add(name, "__getstate__"));
    }
    return {};
  }

  // Adds the methods that are called through an interface, of every class that has a method of that
  // name. These methods may call further methods through an interface, hence the outer loop.
  Status add_implementations(std::span<const std::string> modules) {
    size_t known = 0;
    while (known != unit_.interface_methods().size()) {
      known = unit_.interface_methods().size();
      for (const std::string& name : modules) {
        TENON_ASSIGN(const ClassInfo* const info, unit_.classes().find(name));
        if (info == nullptr || info->declaration->is_interface()) continue;
        for (const script::Method& method : info->parts.methods) {
          if (unit_.is_called_by_interface(method.function->name))
            TENON_TRY(add(name, method.function->name));
        }
      }
    }
    return {};
  }

  Unit unit_;
  const CompileOptions& options_;
  std::optional<DebugRecorder> debug_;
  Target target_;
  EmitOptions emit_;
  bytecode::Program program_;
  std::set<std::string, std::less<>> done_;
};

}  // namespace

Result<bytecode::Program> compile_program(const script::Declarations& declarations,
                                          std::span<const value::ValueRef> constants,
                                          std::string_view root,
                                          std::span<const std::string> modules,
                                          const CompileOptions& options, DebugInfo* debug_info) {
  return ProgramCompiler(declarations, constants, options, debug_info).run(root, modules);
}

std::vector<std::string> operator_names(const bytecode::Program& program) {
  std::vector<std::string> names;
  for (const bytecode::Function& function : program.functions) {
    for (const bytecode::OperatorUse& use : function.operators)
      names.push_back(use.overload.empty() ? use.name : use.name + "." + use.overload);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace tenon::compile

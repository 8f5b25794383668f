#include "module/compile_code.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "module/code_check.h"
#include "module/kept_bytecode.h"
#include "value/walk.h"

namespace tenon::module {

using value::Value;
using value::ValueKind;

Result<bytecode::Program> compile_resolved(const Resolved& resolved, const script::Declarations& code,
                                           const compile::CompileOptions& options, compile::DebugInfo* debug_info) {
  // In the order of the tree, each once.
  std::vector<std::string> modules;
  std::set<std::string> seen;
  TENON_TRY(value::for_each(*resolved.root, [&](Value& value, size_t) -> Status {
    if (value.is(ValueKind::kObject) && !is_custom_class(value.class_name()) && seen.insert(value.class_name()).second)
      modules.push_back(value.class_name());
    return Status::ok();
  }));
  constexpr int kOldFull = 5;
  TENON_ASSIGN(const SlotOrder slots, SlotOrder::of(resolved.root));
  compile::CompileOptions with_slots = options;
  with_slots.slots = &slots.names();
  TENON_ASSIGN(bytecode::Program program,
               compile::compile_program(code, resolved.constants, resolved.root->class_name(), modules, with_slots, debug_info));
  // The lite interpreter gives operators the meaning that they had in the archive's version, but for this one.
  if (resolved.version < kOldFull) {
    const std::vector<std::string> names = compile::operator_names(program);
    if (std::find(names.begin(), names.end(), "aten::full") != names.end()) {
      return Status(Code::kUnsupported, format("torch.full means something else in an archive of version %d, which the lite interpreter "
                                               "does not know. Save the module by a newer PyTorch first",
                                               resolved.version));
    }
  }
  return program;
}

Result<std::vector<std::string>> Module::operator_names(const std::vector<std::string>& methods) const {
  TENON_ASSIGN(const Resolved resolved, resolve(*this, 0));
  compile::CompileOptions options;
  options.methods = methods;
  TENON_ASSIGN(const script::Declarations code, declarations_of(resolved));
  TENON_ASSIGN(const bytecode::Program program, compile_resolved(resolved, code, options));
  return compile::operator_names(program);
}

}  // namespace tenon::module

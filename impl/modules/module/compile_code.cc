#include "modules/module/compile_code.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "modules/module/code_check.h"
#include "modules/module/kept_bytecode.h"
#include "modules/value/walk.h"

namespace tenon::module {

using value::Value;
using value::ValueKind;

namespace {

// Before version 4 of archives, the quotient of two integer tensors was rounded. The lite
// interpreters before bytecode of version 8 do not look at the archive's version, and never round
// it.
Status check_division(int archive_version, int bytecode_version, const bytecode::Program& program) {
  constexpr int kTrueDivision = 4;
  if (archive_version >= kTrueDivision || bytecode_version >= bytecode::Program::kVersion)
    return {};
  for (const std::string& name : compile::operator_names(program)) {
    const bool divides_tensors = name == "aten::div.Tensor" || name == "aten::div.Scalar" ||
                                 name == "aten::div.out" || name == "aten::div_.Tensor" ||
                                 name == "aten::div_.Scalar";
    if (!divides_tensors) continue;
    return Status(
        Code::kUnsupported,
        format("torch.div means something else in an archive of version %d, which the lite "
               "interpreters for "
               "bytecode of version %d do not know. Save the module by a newer PyTorch first",
               archive_version, bytecode_version));
  }
  return {};
}

}  // namespace

Result<bytecode::Program> compile_resolved(const Resolved& resolved,
                                           const script::Declarations& code,
                                           const compile::CompileOptions& options,
                                           compile::DebugInfo* debug_info) {
  // The classes of all objects in the order of the tree, each once.
  std::vector<std::string> modules;
  std::set<std::string> seen;
  TENON_TRY(value::for_each(*resolved.root, [&](Value& value, size_t) -> Status {
    if (value.is(ValueKind::kObject) && !is_custom_class(value.class_name()) &&
        seen.insert(value.class_name()).second)
      modules.push_back(value.class_name());
    return Status::ok();
  }));
  constexpr int kOldFull = 5;
  TENON_ASSIGN(const SlotOrder slots, SlotOrder::of(resolved.root));
  compile::CompileOptions with_slots = options;
  with_slots.slots = &slots.names();
  with_slots.emit.archive_version = resolved.version;
  TENON_ASSIGN(bytecode::Program program,
               compile::compile_program(code, resolved.constants, resolved.root->class_name(),
                                        modules, with_slots, debug_info));
  // The lite interpreter gives every operator the meaning that it had in the archive's version,
  // except this one.
  if (resolved.version < kOldFull) {
    const std::vector<std::string> names = compile::operator_names(program);
    if (std::find(names.begin(), names.end(), "aten::full") != names.end()) {
      return Status(Code::kUnsupported,
                    format("torch.full means something else in an archive of version %d, which the "
                           "lite interpreter "
                           "does not know. Save the module by a newer PyTorch first",
                           resolved.version));
    }
  }
  TENON_TRY(check_division(resolved.version, options.version, program));
  return program;
}

Result<std::vector<std::string>> Module::operator_names(
    const std::vector<std::string>& methods) const {
  TENON_ASSIGN(const Resolved resolved, resolve(*this, 0));
  compile::CompileOptions options;
  options.methods = methods;
  options.forks_at_once = true;  // the functions that a fork runs use the same operators either way
  TENON_ASSIGN(const script::Declarations code, declarations_of(resolved));
  TENON_ASSIGN(const bytecode::Program program, compile_resolved(resolved, code, options));
  return compile::operator_names(program);
}

}  // namespace tenon::module

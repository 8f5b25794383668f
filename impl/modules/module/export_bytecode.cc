#include "modules/module/export_bytecode.h"

#include <span>
#include <utility>

#include "modules/module/compile_code.h"
#include "modules/module/debug_tables.h"

namespace tenon::module {

Result<MadeBytecode> make_bytecode(const Package& package, const Resolved& resolved,
                                   Result<script::Declarations>& code, const ExportOptions& options,
                                   ExportReport* report) {
  TENON_TRY(code.status());
  compile::CompileOptions compiling;
  compiling.methods = options.methods;
  if (options.bytecode_version != 0) compiling.version = options.bytecode_version;
  compiling.emit = options.emit;
  compiling.interface_methods = options.interface_methods;
  compiling.forks_at_once = options.forks_at_once;
  compiling.named_tuples = options.form != Form::kFlatbuffer;
  const bool is_lowered = compiling.version < bytecode::Program::kVersion;
  const bool has_tables = options.debug_tables && !is_lowered;
  if (options.debug_tables && is_lowered)
    report->why_no_debug_tables = "bytecode of a version below 8 has none";
  compile::DebugInfo debug_info;
  MadeBytecode made;
  TENON_ASSIGN(made.program, compile_resolved(resolved, code.value(), compiling,
                                              has_tables ? &debug_info : nullptr));
  report->bytecode_functions = made.program.functions.size();
  if (!has_tables) return made;
  std::span<const ExtraFile> of_archive;
  if (resolved.is_as_read) of_archive = package.debug_tables;
  TENON_ASSIGN(made.debug_tables,
               make_debug_tables(made.program, debug_info, resolved.files, of_archive));
  return made;
}

}  // namespace tenon::module

// Compiles the code that an export writes to bytecode. The exporters and Module::operator_names()
// call this.
#pragma once

#include "base/status.h"
#include "modules/bytecode/program.h"
#include "modules/compile/compile.h"
#include "modules/module/resolve.h"

namespace tenon::module {

// Gives the program of the root's methods. `code` is the result of declarations_of(resolved).
// Errors name file, line and column in the code that the export writes, and are those of
// compile::compile_program(). `debug_info` may be null. It refers to the sources in `code`.
Result<bytecode::Program> compile_resolved(const Resolved& resolved,
                                           const script::Declarations& code,
                                           const compile::CompileOptions& options,
                                           compile::DebugInfo* debug_info = nullptr);

}  // namespace tenon::module

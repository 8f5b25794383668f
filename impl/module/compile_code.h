// The compiler, asked for the bytecode of what an export writes.
#pragma once

#include "base/status.h"
#include "bytecode/program.h"
#include "compile/compile.h"
#include "module/resolve.h"

namespace tenon::module {

// `code`: declarations_of(resolved). The program of the root's methods. Errors name file, line and
// column of the code that the export writes. `debug_info` may be null.
Result<bytecode::Program> compile_resolved(const Resolved& resolved,
                                           const script::Declarations& code,
                                           const compile::CompileOptions& options,
                                           compile::DebugInfo* debug_info = nullptr);

}  // namespace tenon::module

// Emits bytecode from a graph. compile.cc calls this for each function of a program. The rules are
// those of PyTorch's emitter: which values stay on the stack, which get a register, and where each
// register is released.
#pragma once

#include <limits>

#include "base/status.h"
#include "modules/bytecode/program.h"
#include "modules/compile/debug_info.h"
#include "modules/compile/target.h"
#include "modules/compile/unit.h"

namespace tenon::compile {

struct EmitOptions {
  // These are switches of PyTorch's exporter too (docs/format/bytecode.md has their names there).
  bool default_inputs = false;  // every argument is loaded, even one that has its default
  // Arguments that have their default are not loaded if only `out` arguments follow them.
  bool defaults_before_out = true;
  // Operators such as aten::dim become instructions, as from version 8 on.
  bool promoted_operators = true;
  // The version of the archive. The lite interpreter gives operators the meaning that they had in
  // that version.
  int archive_version = std::numeric_limits<int>::max();
};

// Returns `options` with the changes that the target needs. For a version below 8 the result is
// what PyTorch's exporter did when it wrote that version.
EmitOptions emit_options_for(EmitOptions options, const Target& target);

// Emits one function. `graph` is changed: its operators become those of the target, and drop nodes
// are added. `options` come from emit_options_for(). `debug` may be null. UNSUPPORTED, with file
// and line, for a node that the target cannot run. The result does not refer to the graph.
Result<bytecode::Function> emit(const Unit& unit, const Compiled& compiled, Graph* graph,
                                const EmitOptions& options, const Target& target,
                                DebugRecorder* debug);

}  // namespace tenon::compile

// From a graph to bytecode, by the rules of PyTorch's emitter: which values stay on the stack,
// which get a register, and where each register is given up.
#pragma once

#include <limits>

#include "base/status.h"
#include "bytecode/program.h"
#include "compile/debug_info.h"
#include "compile/target.h"
#include "compile/unit.h"

namespace tenon::compile {

struct EmitOptions {
  // What PyTorch calls by the same names (docs/format/bytecode.md).
  bool default_inputs = false;      // every argument is loaded, those that have their default too
  bool defaults_before_out = true;  // defaults that stand before `out` arguments need not be loaded
  // Operators such as aten::dim that are instructions from version 8 on.
  bool promoted_operators = true;
  // Of the archive: the lite interpreter gives operators the meaning that they had in it.
  int archive_version = std::numeric_limits<int>::max();
};

// Those of a version below 8 are what PyTorch's exporter did when it wrote that version.
EmitOptions emit_options_for(EmitOptions options, const Target& target);

// `graph` is changed: its operators become those of the target, and it gets nodes that drop values.
// `options`: emit_options_for(). `debug` may be null.
Result<bytecode::Function> emit(const Unit& unit, const Compiled& compiled, Graph* graph,
                                const EmitOptions& options, const Target& target,
                                DebugRecorder* debug);

}  // namespace tenon::compile

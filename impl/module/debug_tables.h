// The debug tables of bytecode that an export has compiled: PyTorch's lite interpreter shows from
// them in which line of which module a call failed.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "bytecode/program.h"
#include "compile/debug_info.h"
#include "module/module.h"
#include "module/resolve.h"

namespace tenon::module {

// The records: for each code file a SourceTable, mobile_debug_handles.pkl, callstack_debug_map.pkl.
// `info` is of `program`, whose functions come from `files`. `carried` has the tables that the
// archive had beside these files; each is written as it is if it is sound. For the other files that
// the program has functions of, ranges point to the file itself.
Result<std::vector<ExtraFile>> make_debug_tables(const bytecode::Program& program,
                                                 const compile::DebugInfo& info,
                                                 std::span<const ResolvedFile> files,
                                                 std::span<const ExtraFile> carried);

}  // namespace tenon::module

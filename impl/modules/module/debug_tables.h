// Makes the debug tables of the bytecode that an export has compiled. From these tables PyTorch's
// lite interpreter shows in which line of which module a call failed.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "modules/bytecode/program.h"
#include "modules/compile/debug_info.h"
#include "modules/module/module.h"
#include "modules/module/resolve.h"

namespace tenon::module {

// Gives the records: a SourceTable for each code file, mobile_debug_handles.pkl and
// callstack_debug_map.pkl. `info` belongs to `program`, whose functions come from `files`.
// `carried` has the tables that the archive had beside these files, and a sound one is written
// unchanged. For any other file with functions in the program, the ranges point to the file itself.
// The sources to which `info` refers must still exist.
Result<std::vector<ExtraFile>> make_debug_tables(const bytecode::Program& program,
                                                 const compile::DebugInfo& info,
                                                 std::span<const ResolvedFile> files,
                                                 std::span<const ExtraFile> carried);

}  // namespace tenon::module

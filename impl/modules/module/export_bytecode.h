// Makes the bytecode of an export from its code. Both forms of export, archive and flatbuffer, call
// this.
#pragma once

#include <vector>

#include "base/status.h"
#include "modules/bytecode/program.h"
#include "modules/module/export.h"
#include "modules/module/module.h"
#include "modules/module/resolve.h"
#include "modules/script/declarations.h"

namespace tenon::module {

struct MadeBytecode {
  bytecode::Program program;
  std::vector<ExtraFile> debug_tables;  // empty unless the options ask for them
};

// Compiles the methods that the options name. `code` is the result of declarations_of(resolved),
// and its failure is returned. `*report` gets the number of functions, and the reason why debug
// tables that were asked for are not made.
Result<MadeBytecode> make_bytecode(const Package& package, const Resolved& resolved,
                                   Result<script::Declarations>& code, const ExportOptions& options,
                                   ExportReport* report);

}  // namespace tenon::module

// Reads a program from the value of the record bytecode.pkl, as archive::pickle_to_values gives it.
// The tables are checked for their shape here; verify.h checks what the instructions do.
//
// Source of the format: docs/format/bytecode.md.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "bytecode/program.h"
#include "value/value.h"

namespace tenon::bytecode {

struct ReadLimits {
  // Memory of the program. A pickle can name one table many times, and a program has a copy of it
  // for each: without a limit a small record could fill the memory.
  uint64_t max_nbytes = uint64_t{256} << 20;
};

// CORRUPT for a table that PyTorch never writes, or an opcode that it does not have. INCOMPATIBLE
// for a version outside 4 to 9. RESOURCE_EXHAUSTED beyond the limit. All have the detail `record`,
// and name the function.
Result<Program> read_program(const value::ValueRef& pickled, const ReadLimits& limits = {});

}  // namespace tenon::bytecode

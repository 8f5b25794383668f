// Reads a program from the value of the record bytecode.pkl, as archive::pickle_to_values gives it.
// impl/module calls this on import. The reader checks the shape of the tables, and verify.h checks
// what the instructions do.
//
// Source of the format: docs/format/bytecode.md.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "modules/bytecode/program.h"
#include "modules/value/value.h"

namespace tenon::bytecode {

struct ReadLimits {
  // The most memory of the program, in bytes. A pickle can refer to one table many times, and the
  // program gets a copy each time. Without a limit a small record could fill the memory.
  uint64_t max_nbytes = uint64_t{256} << 20;
};

// CORRUPT for a table that PyTorch never writes, or an opcode that it does not have. INCOMPATIBLE
// for a version outside 4 to 9. RESOURCE_EXHAUSTED beyond the limit. The errors have the detail
// `record`, and an error in a function names the function.
Result<Program> read_program(const value::ValueRef& pickled, const ReadLimits& limits = {});

}  // namespace tenon::bytecode

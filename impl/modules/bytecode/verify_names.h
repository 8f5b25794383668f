// Checks the names and the schema of a function of bytecode, which PyTorch's loader parses.
// verify.cc calls this before it checks the instructions.
#pragma once

#include "base/status.h"
#include "modules/bytecode/program.h"

namespace tenon::bytecode {

// CORRUPT: the function's name has an empty part, an operator's name is not two names around "::",
// or a type of the schema is no type. UNSUPPORTED: PyTorch's loader does not read such a type, or
// dies of it. A Union that is the whole type of a result is taken, because PyTorch's loader does
// not look at it.
Status check_names(const Function& function);

}  // namespace tenon::bytecode

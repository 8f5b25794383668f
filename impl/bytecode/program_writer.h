// Makes the value that the record bytecode.pkl holds from a program. archive::values_to_pickle then
// gives the bytes that PyTorch writes for the same program.
//
// Source of the format: docs/format/bytecode.md.
#pragma once

#include "base/status.h"
#include "bytecode/program.h"
#include "value/value.h"

namespace tenon::bytecode {

// INVALID_ARGUMENT, naming the function, for a program that has no form in the record: no function,
// a version outside 4 to 9, a function without schema from version 5 on, a constant that is null,
// a number that does not fit its field. The program is not verified here (verify.h).
Result<value::ValueRef> program_value(const Program& program);

}  // namespace tenon::bytecode

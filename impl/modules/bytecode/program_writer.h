// Converts a program to the value of the record bytecode.pkl. archive::values_to_pickle makes from
// that value the bytes that PyTorch writes for the same program. The exports of impl/module call
// this.
//
// Source of the format: docs/format/bytecode.md.
#pragma once

#include "base/status.h"
#include "modules/bytecode/program.h"
#include "modules/value/value.h"

namespace tenon::bytecode {

// INVALID_ARGUMENT for a program that the record cannot hold: it has no function, a version outside
// 4 to 9, a function without a schema from version 5 on, a constant that is null, or a number that
// does not fit its field. An error in a function names the function. The program is not verified
// here (verify.h does that).
Result<value::ValueRef> program_value(const Program& program);

}  // namespace tenon::bytecode

// What one instruction needs and does, apart from the instructions around it. verify.cc follows the
// paths.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "bytecode/program.h"

namespace tenon::bytecode {

// How many values an instruction takes from the stack and puts there.
struct StackEffect {
  int64_t pops = 0;
  int64_t pushes = 0;
};

// Of every opcode but OP and OPN, whose effect the operator says, and RET and LOOP.
StackEffect stack_effect(const Instruction& instruction) noexcept;

// Whether the operands name what the function has: registers, operators, constants, types, and
// instructions to jump to. The message begins with the instruction's place.
Status check_operands(const Function& function, size_t index);

// "bytecode.pkl: function __torch__.M.forward, instruction 5 (LOAD 7 0): " and what is wrong.
Status instruction_fault(Code code, const Function& function, size_t index, const std::string& what);

}  // namespace tenon::bytecode

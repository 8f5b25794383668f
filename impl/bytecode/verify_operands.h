// What one instruction needs and does, apart from the instructions around it. verify.cc follows the
// paths.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "bytecode/program.h"
#include "bytecode/type_text.h"
#include "bytecode/verify.h"

namespace tenon::bytecode {

// How many values an instruction takes from the stack and puts there.
struct StackEffect {
  int64_t pops = 0;
  int64_t pushes = 0;
};

// Of every opcode but OP and OPN, whose effect the operator says, and RET and LOOP.
StackEffect stack_effect(const Instruction& instruction) noexcept;

// Of OP and OPN. A number that nobody knows is OperatorArity::kAny.
StackEffect operator_effect(const Function& function, size_t index,
                            const std::optional<OperatorArity>& arity) noexcept;

// The types of the function's table. The message of a fault names the type.
Result<std::vector<TypeShape>> parse_types(const Function& function);

// Whether the operands name what the function has: registers, operators, constants, types that fit
// the opcode, and instructions to jump to. The message begins with the instruction's place.
Status check_operands(const Function& function, std::span<const TypeShape> types, size_t index);

// "bytecode.pkl: function __torch__.M.forward: " and what is wrong.
Status function_fault(Code code, const Function& function, const std::string& what);
// "bytecode.pkl: function __torch__.M.forward, instruction 5 (LOAD 7 0): " and what is wrong.
Status instruction_fault(Code code, const Function& function, size_t index,
                         const std::string& what);

}  // namespace tenon::bytecode

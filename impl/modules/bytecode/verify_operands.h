// Checks one instruction by itself: whether its operands are good, and how many values it takes
// from the stack and puts there. verify.cc calls this while it follows the paths through a
// function.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "modules/bytecode/program.h"
#include "modules/bytecode/type_text.h"
#include "modules/bytecode/verify.h"

namespace tenon::bytecode {

// How many values an instruction takes from the stack and puts there.
struct StackEffect {
  int64_t pops = 0;
  int64_t pushes = 0;
};

// The effect of an instruction. Not for OP and OPN, whose effect depends on the operator, and not
// for RET and LOOP.
StackEffect stack_effect(const Instruction& instruction) noexcept;

// The effect of an OP or OPN. A number that is not known is OperatorArity::kAny.
StackEffect operator_effect(const Function& function, size_t index,
                            const std::optional<OperatorArity>& arity) noexcept;

// Parses the function's table of types. The message of an error names the type. The codes are those
// of parse_type_text().
Result<std::vector<TypeShape>> parse_types(const Function& function);

// Checks that the function has the registers, operators, constants, types and jump targets which
// the operands name, and that the types fit the opcode. CORRUPT if not, and UNSUPPORTED for an
// opcode that the lite interpreter does not run. The message begins with the instruction's place.
Status check_operands(const Function& function, std::span<const TypeShape> types, size_t index);

// Makes the error "bytecode.pkl: function __torch__.M.forward: " followed by `what`.
Status function_fault(Code code, const Function& function, const std::string& what);
// Makes the error "bytecode.pkl: function __torch__.M.forward, instruction 5 (LOAD 7 0): " followed
// by `what`.
Status instruction_fault(Code code, const Function& function, size_t index,
                         const std::string& what);

}  // namespace tenon::bytecode

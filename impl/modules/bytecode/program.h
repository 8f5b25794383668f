// Program: the methods of a module as bytecode for PyTorch's lite interpreter, in the form that
// bytecode.pkl has. The reader, the verifier, the writer and the compiler use it.
//
// Source of the format: docs/format/bytecode.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "modules/bytecode/instruction.h"
#include "modules/value/value.h"

namespace tenon::bytecode {

// An entry of a function's table of operators. Instructions name an operator by its index there.
struct OperatorUse {
  // The record says no number of arguments, so all arguments of the operator's schema are on the
  // stack. Up to version 5 most operators are written in this way.
  static constexpr int32_t kAllArguments = -2;
  // The operator takes any number of arguments, and the instruction OPN says how many are given.
  static constexpr int32_t kVariadic = -1;

  std::string name;      // "aten::add"
  std::string overload;  // "Tensor"; empty if the operator has none
  int32_t arguments = kAllArguments;

  bool operator==(const OperatorUse&) const = default;
};

// One argument or result of a function's schema.
struct Argument {
  std::string name;
  std::string type;               // as the lite interpreter reads types: "Dict[str,Tensor]"
  value::ValueRef default_value;  // null: there is none, for which the record has None
};

struct Function {
  std::string name;  // qualified: "__torch__.M.forward"
  std::vector<Instruction> instructions;
  std::vector<OperatorUse> operators;
  std::vector<value::ValueRef> constants;
  std::vector<std::string> types;
  int64_t register_count = 0;
  bool has_schema = true;  // records of version 4 may have none
  std::vector<Argument> arguments;
  std::vector<Argument> returns;
};

struct Program {
  static constexpr int64_t kVersion = 8;  // what PyTorch writes

  int64_t version = kVersion;
  std::vector<Function> functions;
};

// The memory of the program's tables in bytes, without the constants and the arguments' defaults.
uint64_t memory_nbytes(const Program& program) noexcept;

}  // namespace tenon::bytecode

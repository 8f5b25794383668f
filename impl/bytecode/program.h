// Program: the methods of a module as the lite interpreter of PyTorch runs them, as bytecode.pkl
// holds them. The reader, the verifier, the writer and the compiler use it.
//
// Source of the format: docs/format/bytecode.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bytecode/instruction.h"
#include "value/value.h"

namespace tenon::bytecode {

// An operator that instructions call by its place in the table.
struct OperatorUse {
  // The record says no number: all arguments of the operator's schema stand on the stack. It is how
  // every operator is written up to version 5.
  static constexpr int32_t kAllArguments = -2;
  // The operator takes any number of arguments, and the instruction OPN says how many.
  static constexpr int32_t kVariadic = -1;

  std::string name;      // "aten::add"
  std::string overload;  // "Tensor"; empty where the operator has none
  int32_t arguments = kAllArguments;

  bool operator==(const OperatorUse&) const = default;
};

// One argument or result of a function's schema.
struct Argument {
  std::string name;
  std::string type;               // as the lite interpreter reads types: "Dict[str,Tensor]"
  value::ValueRef default_value;  // null: there is none, which the record says as None
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

// The memory of its tables, less that of the constants and of the arguments' defaults.
uint64_t memory_nbytes(const Program& program) noexcept;

}  // namespace tenon::bytecode

#include "modules/bytecode/program_writer.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "modules/bytecode/record.h"

namespace tenon::bytecode {

using value::Value;
using value::ValueRef;

namespace {

class ProgramWriter {
 public:
  explicit ProgramWriter(const Program& program) : program_(program) {}

  Result<ValueRef> run() {
    if (program_.version < kOldestVersion || program_.version > kNewestVersion) {
      return invalid(format("bytecode has no version %lld: give one from %lld to %lld",
                            static_cast<long long>(program_.version),
                            static_cast<long long>(kOldestVersion),
                            static_cast<long long>(kNewestVersion)));
    }
    if (program_.functions.empty()) return invalid("bytecode without a function is not written");
    std::vector<ValueRef> items;
    items.reserve(program_.functions.size() + 1);
    items.push_back(Value::of_int(program_.version));
    for (const Function& function : program_.functions) {
      TENON_ASSIGN(ValueRef item, function_value(function));
      items.push_back(std::move(item));
    }
    return Value::tuple(std::move(items));
  }

 private:
  Result<ValueRef> function_value(const Function& function) {
    if (function.name.empty()) return invalid("a function of bytecode has no name");
    if (!function.has_schema && program_.version > kLastWithoutSchema) {
      return fault(function, "has no schema, which bytecode has from version 5 on");
    }
    if (function.register_count < 0) return fault(function, "has less than no registers");
    std::vector<ValueRef> items{Value::of_str(function.name)};
    TENON_ASSIGN(ValueRef code, code_value(function));
    items.push_back(std::move(code));
    if (function.has_schema) {
      TENON_ASSIGN(ValueRef schema, schema_value(function));
      items.push_back(std::move(schema));
    }
    return Value::tuple(std::move(items));
  }

  Result<ValueRef> code_value(const Function& function) {
    std::vector<ValueRef> instructions;
    instructions.reserve(function.instructions.size());
    for (const Instruction& instruction : function.instructions) {
      if (static_cast<uint8_t>(instruction.opcode) >= kOpcodeCount) {
        return fault(function, "has an instruction that PyTorch does not know");
      }
      if (instruction.n < 0 || instruction.n > kMaxN) {
        return fault(function, "has an instruction whose N is not from 0 to 65535");
      }
      instructions.push_back(
          Value::tuple({opcode_text(instruction.opcode), Value::of_int(instruction.x),
                        Value::of_int(instruction.n)}));
    }
    std::vector<ValueRef> operators;
    operators.reserve(function.operators.size());
    for (const OperatorUse& use : function.operators) {
      std::vector<ValueRef> item{Value::of_str(use.name), Value::of_str(use.overload)};
      if (use.arguments < OperatorUse::kAllArguments) {
        return fault(function, "uses an operator with less than no arguments");
      }
      if (use.arguments != OperatorUse::kAllArguments) {
        item.push_back(Value::of_int(use.arguments == OperatorUse::kVariadic ? kVariadicInRecord
                                                                             : use.arguments));
      }
      operators.push_back(Value::tuple(std::move(item)));
    }
    if (std::any_of(function.constants.begin(), function.constants.end(),
                    [](const ValueRef& constant) { return !constant; })) {
      return fault(function, "has a constant without a value");
    }
    std::vector<ValueRef> types;
    types.reserve(function.types.size());
    for (const std::string& type : function.types) types.push_back(Value::of_str(type));
    return Value::tuple({
        entry(kCodeKeys[0], Value::tuple(std::move(instructions))),
        entry(kCodeKeys[1], Value::tuple(std::move(operators))),
        entry(kCodeKeys[2], Value::tuple(function.constants)),
        entry(kCodeKeys[3], Value::tuple(std::move(types))),
        entry(kCodeKeys[4], Value::of_int(function.register_count)),
    });
  }

  Result<ValueRef> schema_value(const Function& function) {
    return Value::tuple({entry(kSchemaKeys[0], arguments_value(function.arguments)),
                         entry(kSchemaKeys[1], arguments_value(function.returns))});
  }

  ValueRef arguments_value(const std::vector<Argument>& arguments) {
    std::vector<ValueRef> items;
    items.reserve(arguments.size());
    for (const Argument& argument : arguments) {
      items.push_back(Value::tuple({
          entry(kArgumentKeys[0], Value::of_str(argument.name)),
          entry(kArgumentKeys[1], Value::of_str(argument.type)),
          entry(kArgumentKeys[2], argument.default_value ? argument.default_value : Value::none()),
      }));
    }
    return Value::tuple(std::move(items));
  }

  // Makes a row of a table. Every row is a new tuple, because the pickler writes a shared tuple
  // only once.
  static ValueRef entry(std::string_view key, ValueRef value) {
    return Value::tuple({Value::of_str(std::string(key)), std::move(value)});
  }

  const ValueRef& opcode_text(Opcode opcode) {
    ValueRef& text = opcode_texts_[static_cast<uint8_t>(opcode)];
    if (!text) text = Value::of_str(std::string(opcode_name(opcode)));
    return text;
  }

  static Status fault(const Function& function, const char* what) {
    return invalid(format("the function %.300s of the bytecode %s", function.name.c_str(), what));
  }

  const Program& program_;
  std::array<ValueRef, kOpcodeCount> opcode_texts_;
};

}  // namespace

Result<ValueRef> program_value(const Program& program) { return ProgramWriter(program).run(); }

}  // namespace tenon::bytecode

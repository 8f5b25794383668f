// The tests of the compiler share these helpers, which compile programs from source text and print
// functions as listings.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "modules/bytecode/program_writer.h"
#include "modules/bytecode/verify.h"
#include "modules/compile/compile.h"
#include "modules/compile/operator_arity.h"
#include "modules/script/declarations.h"
#include "modules/script/parser.h"

namespace tenon::compile::test {

using value::Value;
using value::ValueRef;

// Returns "line:column" of an error, or ":" if the error has no place.
inline std::string place(const Status& status) {
  return std::string(status.detail("line")) + ":" + std::string(status.detail("column"));
}

// Compiles the class `root` of code/__torch__.py. The module's tree contains all classes of the
// text.
inline Result<bytecode::Program> compiled(const std::string& code,
                                          const CompileOptions& options = {},
                                          const std::vector<ValueRef>& constants = {},
                                          const std::string& root = "__torch__.M") {
  TENON_ASSIGN(std::shared_ptr<const script::File> file,
               script::parse_file("code/__torch__.py", code));
  script::Declarations declarations;
  declarations.set_constants(constants.size());
  TENON_TRY(declarations.add("__torch__", file));
  std::vector<std::string> classes;
  for (const script::Item& item : file->items()) {
    if (item.class_def != nullptr)
      classes.push_back("__torch__." + std::string(item.class_def->name));
  }
  return compile_program(declarations, constants, root, classes, options);
}

// Returns the source of a module M with the Tensors `weight` and `bias`, the int `count` and this
// method.
inline std::string module_with(const std::string& method) {
  std::string code = "class M(Module):\n  weight : Tensor\n  bias : Tensor\n  count : int\n";
  std::string line;
  for (const char c : method) {
    line.push_back(c);
    if (c != '\n') continue;
    code += "  " + line;
    line.clear();
  }
  return code;
}

// Returns a method for module_with() that consists of these statements and returns a str.
inline std::string method_with(const std::string& statements) {
  std::string method = "def forward(self, x: Tensor, c: bool, o: Optional[int]) -> str:\n  ";
  for (const char c : statements) {
    method.push_back(c);
    if (c == '\n') method += "  ";
  }
  return method + "\n";
}

inline std::string shown(const Value& value) {
  switch (value.kind()) {
    case value::ValueKind::kNone: return "None";
    case value::ValueKind::kBool: return value.as_bool() ? "True" : "False";
    case value::ValueKind::kInt: return std::to_string(value.as_int());
    case value::ValueKind::kFloat: return format("%g", value.as_float());
    case value::ValueKind::kStr: return "'" + value.as_str() + "'";
    case value::ValueKind::kDevice: return "device " + value.as_device();
    default: return value::value_kind_name(value.kind());
  }
}

// Prints one instruction as a line, such as "OP aten::add.Tensor (3)", "LOADC 1" or "STOREN 1 2".
inline std::string shown(const bytecode::Function& function,
                         const bytecode::Instruction& instruction) {
  using bytecode::Opcode;
  const auto x = static_cast<size_t>(instruction.x);
  std::string text(bytecode::opcode_name(instruction.opcode));
  switch (instruction.opcode) {
    case Opcode::kOp:
    case Opcode::kOpN: {
      const bytecode::OperatorUse& use = function.operators.at(x);
      const int32_t count = instruction.opcode == Opcode::kOp ? use.arguments : instruction.n;
      return text + " " + use.name + (use.overload.empty() ? "" : "." + use.overload) + " (" +
             std::to_string(count) + ")";
    }
    case Opcode::kLoadC: return text + " " + shown(*function.constants.at(x));
    case Opcode::kInterfaceCall:
      return text + " " + shown(*function.constants.at(x)) + " " + std::to_string(instruction.n);
    case Opcode::kListConstruct:
    case Opcode::kDictConstruct:
    case Opcode::kNamedTupleConstruct:
    case Opcode::kIsInstance:
      return text + " " + function.types.at(x) + " " + std::to_string(instruction.n);
    case Opcode::kRet:
    case Opcode::kDrop:
    case Opcode::kTupleIndex:
    case Opcode::kDictIndex:
    case Opcode::kIs:
    case Opcode::kIsNot:
    case Opcode::kNot:
    case Opcode::kRaiseException:
    case Opcode::kUninitialized: return text;
    default:
      return text + " " + std::to_string(instruction.x) +
             (instruction.n != 0 ? " " + std::to_string(instruction.n) : "");
  }
}

inline std::string listing(const bytecode::Function& function) {
  std::string text;
  for (const bytecode::Instruction& instruction : function.instructions)
    text += shown(function, instruction) + "\n";
  return text;
}

// Checks what holds for every compiled program: the verifier accepts the program, and the program
// can be written as a record.
inline void expect_sound(const bytecode::Program& program) {
  bytecode::VerifyOptions options;
  options.find_arity = find_operator_arity;
  const Status verified = bytecode::verify(program, options);
  EXPECT_TRUE(verified.is_ok()) << verified.message();
  Result<ValueRef> record = bytecode::program_value(program);
  EXPECT_TRUE(record.is_ok()) << record.status().message();
}

// Compiles a text that must compile, and returns its functions.
inline std::vector<bytecode::Function> functions_of(const std::string& code,
                                                    const CompileOptions& options = {},
                                                    const std::vector<ValueRef>& constants = {}) {
  Result<bytecode::Program> made = compiled(code, options, constants);
  EXPECT_TRUE(made.is_ok()) << code << "\n"
                            << made.status().message() << "\n"
                            << made.status().detail("excerpt");
  if (!made.is_ok()) return {};
  expect_sound(made.value());
  return std::move(made).value().functions;
}

// Returns the listing of the only method that is compiled.
inline std::string listing_of(const std::string& code, const CompileOptions& options = {},
                              const std::vector<ValueRef>& constants = {}) {
  const std::vector<bytecode::Function> functions = functions_of(code, options, constants);
  EXPECT_EQ(functions.size(), 1U);
  return functions.empty() ? "" : listing(functions[0]);
}

// Returns the error of a text that must not compile.
inline Status refusal(const std::string& code, const CompileOptions& options = {}) {
  Result<bytecode::Program> made = compiled(code, options);
  EXPECT_FALSE(made.is_ok()) << code;
  return std::move(made).status();
}

}  // namespace tenon::compile::test

// These tests write programs as records and read them again. A wrong record is refused, and the
// error says what is wrong.
#include <gtest/gtest.h>

#include <limits>

#include "unit/bytecode/bytecode_kit.h"

namespace tenon::bytecode::test {
namespace {

Program program_of(Function function, int64_t version = 8) {
  Program program;
  program.version = version;
  program.functions.push_back(std::move(function));
  return program;
}

ValueRef tuple(std::vector<ValueRef> items) { return Value::tuple(std::move(items)); }
ValueRef str(const char* text) { return Value::of_str(text); }
ValueRef num(int64_t number) { return Value::of_int(number); }

// Returns the record with another value at `place`. The place {1, 1, 0} is the row of instructions
// of the first function.
ValueRef replaced(const ValueRef& value, std::span<const size_t> place, const ValueRef& by) {
  if (place.empty()) return by;
  std::vector<ValueRef> items(value->items().begin(), value->items().end());
  items[place[0]] = replaced(items[place[0]], place.subspan(1), by);
  return tuple(std::move(items));
}

ValueRef record() { return program_value(program_of(function_of({{Opcode::kRet, 0, 0}}))).value(); }

void expect_refused(std::vector<size_t> place, const ValueRef& by, std::string_view part,
                    Code code = Code::kCorrupt) {
  expect_error(read_program(replaced(record(), place, by)).status(), part, code);
}

TEST(BytecodeProgram, comes_back_as_it_was) {
  Function function = relu();
  function.operators = {{"aten::add", "Tensor", OperatorUse::kAllArguments},
                        {"aten::format", "", OperatorUse::kVariadic},
                        {"aten::relu", "", 1}};
  function.constants = {Value::of_int(7), Value::none()};
  function.types = {"List[int]", "Dict[str,Tensor]"};
  function.arguments[1].default_value = Value::of_int(3);
  const ValueRef value = program_value(program_of(function, 6)).value();
  const Program read = read_program(value).value();
  ASSERT_EQ(read.functions.size(), 1U);
  const Function& found = read.functions[0];
  EXPECT_EQ(read.version, 6);
  EXPECT_EQ(found.name, function.name);
  EXPECT_EQ(found.instructions, function.instructions);
  EXPECT_EQ(found.operators, function.operators);
  EXPECT_EQ(found.types, function.types);
  EXPECT_EQ(found.register_count, 2);
  ASSERT_EQ(found.constants.size(), 2U);
  EXPECT_EQ(found.constants[0]->as_int(), 7);
  ASSERT_EQ(found.arguments.size(), 2U);
  EXPECT_FALSE(found.arguments[0].default_value);
  EXPECT_EQ(found.arguments[1].default_value->as_int(), 3);
  EXPECT_EQ(found.returns[0].type, "Tensor");
}

TEST(BytecodeProgram, opcodes) {
  for (uint8_t i = 0; i < kOpcodeCount; ++i) {
    const auto opcode = static_cast<Opcode>(i);
    EXPECT_EQ(find_opcode(opcode_name(opcode)), opcode);
  }
  EXPECT_EQ(find_opcode("LOADD"), std::nullopt);
  EXPECT_EQ(find_opcode(""), std::nullopt);
  EXPECT_EQ(opcode_name(static_cast<Opcode>(kOpcodeCount)), "?");
  EXPECT_EQ(opcode_name(Opcode::kIsNot), "__ISNOT__");
}

TEST(BytecodeProgram, versions) {
  for (const int64_t version : {4, 5, 6, 7, 8, 9}) {
    const Result<ValueRef> value = program_value(program_of(relu(), version));
    ASSERT_TRUE(value.is_ok());
    EXPECT_EQ(
        read_program(replaced(record(), std::vector<size_t>{0}, num(version))).value().version,
        version);
  }
  for (const int64_t version : {3, 10, -1}) {
    expect_refused({0}, num(version), "versions 4 to 9 are known", Code::kIncompatible);
    expect_error(program_value(program_of(relu(), version)).status(), "no version",
                 Code::kInvalidArgument);
  }
  expect_refused({0}, str("8"), "not with a version");
}

TEST(BytecodeProgram, a_schema_is_missing_in_version_4_alone) {
  Function bare = relu();
  bare.has_schema = false;
  const ValueRef value = program_value(program_of(bare, 4)).value();
  EXPECT_FALSE(read_program(value).value().functions[0].has_schema);
  expect_error(read_program(replaced(value, std::vector<size_t>{0}, num(5))).status(),
               "the schema is missing");
  expect_error(program_value(program_of(bare, 5)).status(), "no schema", Code::kInvalidArgument);
}

TEST(BytecodeProgram, records_that_lie) {
  expect_error(read_program(num(8)).status(), "no tuple");
  expect_error(read_program(tuple({})).status(), "empty tuple");
  expect_error(read_program(tuple({num(8)})).status(), "no function");
  expect_refused({1}, num(1), "function 0: the function is 1, and no tuple");
  expect_refused({1}, tuple({str("f")}), "tuple of 2 or 3");
  expect_refused({1, 0}, num(1), "the name is 1");
  expect_refused({1, 0}, str(""), "the name is empty");
  expect_refused({1, 1}, tuple({}), "the code has 0 rows, and not 5");
  expect_refused({1, 1, 0}, num(1), "row 0 of the code is no pair");
  expect_refused({1, 1, 0, 0}, str("operators"),
                 "row 0 of the code is 'operators', and not 'instructions'");
  expect_refused({1, 1, 4, 1}, num(-1), "register_size is -1");
  expect_refused({1, 1, 4, 1}, str("9"), "register_size is '9'");
  expect_refused({1, 1, 3, 1}, tuple({num(1)}), "a type is 1");
  expect_refused({1, 1, 3, 1}, tuple({str("")}), "the type 0 is empty");
  expect_refused({1, 1, 2, 1}, num(1), "constants is 1, and no tuple");
  expect_refused({1, 2}, tuple({}), "the schema has 0 rows");
  expect_refused({1, 2, 0, 0}, str("returns"), "and not 'arguments'");
  expect_refused({1, 2, 0, 1, 0, 1, 1}, num(1), "an argument's type is 1");
  expect_refused({1, 2, 0, 1, 0, 1, 1}, str(""), "argument 0 has an empty type");
}

TEST(BytecodeProgram, instructions_that_lie) {
  const std::vector<size_t> place = {1, 1, 0, 1, 0};
  expect_refused(place, num(1), "instruction 0 is no tuple");
  expect_refused(place, tuple({str("RET"), num(0)}), "instruction 0 is no tuple");
  expect_refused(place, tuple({num(12), num(0), num(0)}), "instruction 0 is no tuple");
  // PyTorch's own reader takes this opcode for OP.
  expect_refused(place, tuple({str("RETURN"), num(0), num(0)}),
                 "'RETURN', and PyTorch has no such opcode");
  expect_refused(place, tuple({str("RET"), num(int64_t{1} << 31), num(0)}), "32 bits");
  expect_refused(place, tuple({str("RET"), num(std::numeric_limits<int64_t>::min()), num(0)}),
                 "32 bits");
  expect_refused(place, tuple({str("RET"), num(0), num(65'536)}), "not from 0 to 65535");
  expect_refused(place, tuple({str("RET"), num(0), num(-1)}), "not from 0 to 65535");
}

TEST(BytecodeProgram, operators_that_lie) {
  const std::vector<size_t> place = {1, 1, 1, 1, 0};
  expect_refused(place, tuple({str("aten::relu")}), "operator 0 is no tuple of 2 or 3");
  expect_refused(place, tuple({str(""), str("")}), "an empty name");
  expect_refused(place, tuple({str("aten::relu"), num(1)}), "overload is 1");
  expect_refused(place, tuple({str("aten::relu"), str(""), num(-2)}),
                 "-2 is no number of arguments");
  expect_refused(place, tuple({str("aten::relu"), str(""), str("1")}),
                 "'1' is no number of arguments");
}

TEST(BytecodeProgram, a_shared_table_does_not_fill_the_memory) {
  // A thousand functions share one list of instructions.
  const ValueRef one =
      program_value(program_of(function_of(std::vector<Instruction>(10'000)))).value();
  std::vector<ValueRef> items = {num(8)};
  for (int i = 0; i < 1000; ++i) items.push_back(one->items()[1]);
  ReadLimits limits;
  limits.max_nbytes = uint64_t{1} << 20;
  expect_error(read_program(tuple(std::move(items)), limits).status(), "memory",
               Code::kResourceExhausted);
}

TEST(BytecodeProgram, what_has_no_record) {
  expect_error(program_value({}).status(), "without a function", Code::kInvalidArgument);
  Function function = relu();
  function.name.clear();
  expect_error(program_value(program_of(function)).status(), "no name", Code::kInvalidArgument);
  function = relu();
  function.constants = {nullptr};
  expect_error(program_value(program_of(function)).status(), "constant without a value",
               Code::kInvalidArgument);
  function = relu();
  function.instructions[0].n = 65'536;
  expect_error(program_value(program_of(function)).status(), "0 to 65535", Code::kInvalidArgument);
  function = relu();
  function.register_count = -1;
  expect_error(program_value(program_of(function)).status(), "registers", Code::kInvalidArgument);
}

}  // namespace
}  // namespace tenon::bytecode::test

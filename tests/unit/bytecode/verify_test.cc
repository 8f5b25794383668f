// These tests check the verifier. It accepts functions that can run, and refuses each wrong
// instruction with its place.
#include <gtest/gtest.h>

#include "unit/bytecode/bytecode_kit.h"
#include "unit/cpu_time.h"

namespace tenon::bytecode::test {
namespace {

using enum Opcode;

Status verified(const Function& function) { return verify(function, with_arities()); }
Status verified(std::vector<Instruction> instructions) {
  return verified(function_of(std::move(instructions)));
}

void expect_good(std::vector<Instruction> instructions) {
  const Status status = verified(std::move(instructions));
  EXPECT_TRUE(status.is_ok()) << status.message();
}

void expect_bad(std::vector<Instruction> instructions, std::string_view place,
                std::string_view part) {
  const Status status = verified(std::move(instructions));
  expect_error(status, part);
  expect_error(status, "function __torch__.M.forward, instruction " + std::string(place));
}

Function with_operator(const std::string& name, int32_t arguments, std::vector<Instruction> rest) {
  std::vector<Instruction> all = {{kStoreN, 1, 2}, {kLoad, 2}, {kOp, 0}};
  all.insert(all.end(), rest.begin(), rest.end());
  Function function = function_of(std::move(all));
  function.operators = {{name, "", arguments}};
  return function;
}

TEST(BytecodeVerify, good_functions) {
  EXPECT_TRUE(verified(relu()).is_ok());
  expect_good({{kStoreN, 1, 2}, {kLoad, 2}, {kRet}});
  // This is an `if` with both branches, as PyTorch writes it.
  expect_good({{kStoreN, 1, 2}, {kLoad, 2}, {kJf, 3}, {kLoad, 1}, {kJmp, 2}, {kLoadC, 0}, {kRet}});
  // This is a loop that carries one value.
  expect_good({{kStoreN, 1, 2},
               {kLoadC, 0},
               {kLoad, 2},
               {kLoadC, 0},
               {kMove, 2},
               {kLoop, 6, 3},
               {kStoreN, 3, 2},
               {kDropR, 3},
               {kLoadC, 0},
               {kMove, 4},
               {kJmp, -5},
               {kRet}});
  // A branch that raises may leave anything on the stack.
  expect_good({{kStoreN, 1, 2},
               {kLoad, 2},
               {kJf, 5},
               {kLoadC, 0},
               {kLoadC, 0},
               {kRaiseException},
               {kJmp, 1},
               {kLoad, 1},
               {kRet}});
  expect_good({{kStoreN, 1, 2},
               {kLoadC, 0},
               {kListConstruct, 0, 1},
               {kListUnpack, 3},
               {kTupleConstruct, 3},
               {kRet}});
  expect_good({{kStoreN, 1, 2}, {kMove, 1}, {kMove, 2}, {kInterfaceCall, 1, 2}, {kRet}});
}

TEST(BytecodeVerify, every_function_ends_with_one_value) {
  expect_bad({{kStoreN, 1, 2}, {kRet}}, "1 (RET 0 0)", "the stack has 0 values");
  expect_bad({{kStore, 1}, {kLoad, 1}, {kRet}}, "2 (RET 0 0)", "the stack has 2 values");
  expect_bad({{kStoreN, 1, 2}, {kLoad, 1}}, "1 (LOAD 1 0)", "without RET");
  expect_error(verified(std::vector<Instruction>{}), "no instruction");
  Function function = relu();
  function.returns.push_back(argument("", "int"));
  expect_error(verified(function), "returns 2 values");
}

TEST(BytecodeVerify, names) {
  Function function = relu();
  for (const char* name : {".forward", "__torch__.M.", "__torch__..forward", "."}) {
    function.name = name;
    expect_error(verified(function), "a part of its name is empty");
  }
  function.name = "forward";
  EXPECT_TRUE(verified(function).is_ok());
  for (const char* name :
       {"aten", "aten:relu", "aten::", "::relu", "::", "aten::re lu", "aten::relu\n"}) {
    function.operators[0].name = name;
    expect_error(verified(function), "operator 0 is '");
  }
  function.operators[0] = {"aten::relu", "a b", 1};
  expect_error(verified(function), "operator 0 is 'aten::relu.a b'");
  // An operator of another library may have any name.
  function.operators[0] = {"other_library::do.it", "overload.x", 1};
  EXPECT_TRUE(verified(function).is_ok());
}

TEST(BytecodeVerify, types_of_the_schema) {
  const auto with_types = [](const std::string& taken, const std::string& given) {
    Function function = relu();
    function.arguments[1].type = taken;
    function.returns[0].type = given;
    return verified(function);
  };
  for (const char* type :
       {"int", "Any", "Dict[str, Tensor]", "__torch__.P", "Optional[List[int]]", "Tuple[]"})
    EXPECT_TRUE(with_types(type, type).is_ok()) << type;
  EXPECT_TRUE(with_types("int", "Union[int, str]").is_ok());
  expect_error(with_types("Union[int, str]", "int"),
               "the type 'Union[int, str]' of argument 1 cannot be read", Code::kUnsupported);
  expect_error(with_types("int", "List[Union[int, str]]"), "of result 0", Code::kUnsupported);
  expect_error(with_types("List[Union[int, str]]", "int"), "of argument 1", Code::kUnsupported);
  expect_error(with_types("Foo", "int"), "the type 'Foo' of argument 1");
  expect_error(with_types("List[", "int"), "byte 5 is its end");
  std::string deep;
  for (size_t i = 0; i < 100'000; ++i) deep += "List[";
  expect_error(with_types(deep, "int"), "nested deeper", Code::kResourceExhausted);
}

TEST(BytecodeVerify, registers) {
  expect_bad({{kStoreN, 1, 2}, {kLoad, 0}, {kRet}}, "1 (LOAD 0 0)", "registers from number 0 on");
  expect_bad({{kStoreN, 1, 2}, {kLoad, 5}, {kRet}}, "1 (LOAD 5 0)", "the function has 4");
  expect_bad({{kStoreN, 4, 2}, {kRet}}, "0 (STOREN 4 2)", "names 2 registers from number 4 on");
  expect_bad({{kStoreN, 1, 2}, {kLoad, 3}, {kRet}}, "1 (LOAD 3 0)", "register 3 is read");
  expect_bad({{kStoreN, 1, 2}, {kMove, 2}, {kDrop}, {kLoad, 2}, {kRet}}, "3 (LOAD 2 0)",
             "register 2 is read");
  expect_bad({{kStoreN, 1, 2}, {kDropR, 2}, {kMove, 2}, {kRet}}, "2 (MOVE 2 0)",
             "register 2 is read");
  // The register is written on one of two paths only.
  expect_bad({{kStoreN, 1, 2}, {kMove, 2}, {kJf, 3}, {kLoadC, 0}, {kStore, 3}, {kLoad, 3}, {kRet}},
             "5 (LOAD 3 0)", "on every path");
  // The function has more registers than a word of the verifier's bit set has bits.
  Function words = with_operator("test::any", 1, {{kStoreN, 60, 140}, {kLoad, 199}, {kRet}});
  words.register_count = 260;
  EXPECT_TRUE(verified(words).is_ok());
  for (const int32_t number : {59, 200, 256}) {
    words.instructions[4] = {kLoad, number};
    expect_error(verified(words), "is read");
  }
  Function many = function_of({{kStoreN, 1, 2}, {kLoad, 2}, {kRet}});
  many.register_count = int64_t{1} << 60;
  expect_error(verified(many), "more registers", Code::kResourceExhausted);
  many.register_count = -1;
  expect_error(verified(many), "registers");
}

TEST(BytecodeVerify, jumps) {
  expect_bad({{kStoreN, 1, 2}, {kJmp, 9}, {kRet}}, "1 (JMP 9 0)",
             "jumps to instruction 10, and the function has 3");
  expect_bad({{kStoreN, 1, 2}, {kJmp, -2}, {kRet}}, "1 (JMP -2 0)", "jumps to instruction -1");
  expect_bad({{kStoreN, 1, 2}, {kJmp, -1}, {kRet}}, "1 (JMP -1 0)",
             "only a JMP to a LOOP goes back");
  expect_bad({{kStoreN, 1, 2}, {kJmp, 0}, {kRet}}, "1 (JMP 0 0)", "only a JMP to a LOOP goes back");
  expect_bad({{kStoreN, 1, 2}, {kJf, -1}, {kRet}}, "1 (JF -1 0)", "only a JMP to a LOOP goes back");
  expect_bad({{kStoreN, 1, 2}, {kLoad, 2}, {kJf, 2}, {kLoad, 1}, {kLoad, 1}, {kRet}},
             "3 (LOAD 1 0)", "the paths to instruction 4");
}

// Returns the code of `for i in range(7):` for a function in which register 2 holds the argument.
std::vector<Instruction> loop_around(std::vector<Instruction> body) {
  std::vector<Instruction> all = {{kStoreN, 1, 2}, {kLoadC, 0}, {kLoadC, 0}, {kLoadC, 0}};
  const auto size = static_cast<int32_t>(body.size());
  all.push_back({kLoop, size + 2, 2});
  all.insert(all.end(), body.begin(), body.end());
  all.push_back({kJmp, -size - 1});
  all.push_back({kLoad, 2});
  all.push_back({kRet});
  return all;
}

TEST(BytecodeVerify, loops) {
  expect_good(loop_around({{kStore, 3}, {kLoadC, 0}}));
  expect_bad(loop_around({{kStore, 3}}), "6 (JMP -2 0)",
             "the paths to instruction 4 leave 2 values on the stack, and 3");
  expect_bad(loop_around({{kStore, 3}, {kMove, 2}}), "7 (JMP -3 0)",
             "register 2 has no value any more");
  expect_bad({{kStoreN, 1, 2}, {kLoadC, 0}, {kLoadC, 0}, {kLoop, 2, 2}, {kJmp, -1}, {kRet}},
             "3 (LOOP 2 2)", "takes 3 values from a stack of 2");
  expect_bad({{kStoreN, 1, 2}, {kLoadC, 0}, {kLoadC, 0}, {kLoop, 2, 1}, {kJmp, -1}, {kRet}},
             "3 (LOOP 2 1)", "2 or more");
  expect_bad({{kStoreN, 1, 2}, {kLoop, -1, 2}, {kRet}}, "1 (LOOP -1 2)", "goes back");
  // The last JMP leads from behind the loop back into it.
  expect_bad({{kStoreN, 1, 2},
              {kLoadC, 0},
              {kLoadC, 0},
              {kLoadC, 0},
              {kLoop, 2, 2},
              {kJmp, -1},
              {kJmp, -2}},
             "6 (JMP -2 0)", "from outside of it");
  // The inner loop ends behind the outer one.
  expect_bad({{kStoreN, 1, 2},
              {kLoadC, 0},
              {kLoadC, 0},
              {kLoadC, 0},
              {kLoop, 7, 2},
              {kLoadC, 0},
              {kLoadC, 0},
              {kLoadC, 0},
              {kLoop, 4, 2},
              {kJmp, -1},
              {kJmp, -6},
              {kLoadC, 0},
              {kRet}},
             "8 (LOOP 4 2)", "it leaves the loop of instruction 4");
}

TEST(BytecodeVerify, stack) {
  expect_bad({{kStoreN, 1, 2}, {kDrop}, {kRet}}, "1 (DROP 0 0)",
             "takes 1 values from a stack of 0");
  expect_bad({{kStoreN, 1, 3}, {kRet}}, "0 (STOREN 1 3)", "takes 3 values from a stack of 2");
  expect_bad({{kStoreN, 1, 2}, {kOp, 0}, {kRet}}, "1 (OP 0 0)", "takes 1 values");
  expect_bad({{kStoreN, 1, 2}, {kLoad, 1}, {kInterfaceCall, 1, 2}, {kRet}},
             "2 (INTERFACE_CALL 1 2)", "takes 2 values");
  expect_bad({{kStoreN, 1, 2}, {kTupleConstruct, 2147483647}, {kRet}}, "1 (TUPLE_CONSTRUCT",
             "takes 2147483647 values");
}

TEST(BytecodeVerify, operands) {
  expect_bad({{kOp, 1}}, "0 (OP 1 0)", "there is no operator 1, for the function has 1");
  expect_bad({{kOpN, -1, 2}}, "0 (OPN -1 2)", "there is no operator -1");
  expect_bad({{kLoadC, 2}}, "0 (LOADC 2 0)", "there is no constant 2");
  expect_bad({{kListConstruct, 1, 0}}, "0 (LIST_CONSTRUCT 1 0)", "the function has 1");
  expect_bad({{kIsInstance, 0, 2}}, "0 (ISINSTANCE 0 2)", "names 2 types from number 0 on");
  expect_bad({{kIsInstance, 0, 0}}, "0 (ISINSTANCE 0 0)", "names 0 types");
  expect_bad({{kDictConstruct, 0, 3}}, "0 (DICT_CONSTRUCT 0 3)", "odd");
  expect_bad({{kInterfaceCall, 0, 1}}, "0 (INTERFACE_CALL 0 1)", "no text");
  expect_bad({{kInterfaceCall, 1, 0}}, "0 (INTERFACE_CALL 1 0)", "first input");
  expect_bad({{kGetAttr, -1}}, "0 (GET_ATTR -1 0)", "not 0 or more");
  expect_bad({{kFormat, 0}}, "0 (FORMAT 0 0)", "less than 1");
  expect_bad({{kCall, 0}}, "0 (CALL 0 0)", "no functions");
}

TEST(BytecodeVerify, opcodes_that_lite_does_not_run) {
  for (const Opcode opcode : {kWait, kGuard, kTypeCheck, kFailGuard, kProfileOp, kTailCall,
                              kUncheckedCast, kFork, kEnter, kExit, kAwaitable}) {
    const Status status = verified({{kStoreN, 1, 2}, {opcode, 0}, {kRet}});
    expect_error(status, "instruction 1 (" + std::string(opcode_name(opcode)), Code::kUnsupported);
  }
}

TEST(BytecodeVerify, operators) {
  EXPECT_TRUE(verified(with_operator("test::two", 1, {{kDrop}, {kRet}})).is_ok());
  EXPECT_TRUE(verified(with_operator("test::none", 1, {{kLoad, 1}, {kRet}})).is_ok());
  expect_error(verified(with_operator("test::two", 1, {{kRet}})), "2 values at the end");
  expect_error(verified(with_operator("test::two", 3, {{kDrop}, {kRet}})),
               "takes 3 values from a stack of 1");
  // The record does not give the number of arguments, so the schema decides.
  EXPECT_TRUE(
      verified(with_operator("test::two", OperatorUse::kAllArguments, {{kDrop}, {kRet}})).is_ok());
  // An unknown operator is no fault. Only the depth of the stack is not checked behind it.
  EXPECT_TRUE(verified(with_operator("test::unknown", 1, {{kRet}})).is_ok());
  EXPECT_TRUE(verified(with_operator("test::unknown", 1, {{kDrop}, {kDrop}, {kRet}})).is_ok());
  expect_error(verified(with_operator("test::unknown", 1, {{kLoad, 3}, {kRet}})),
               "register 3 is read");
  expect_error(verified(with_operator("test::unknown", 2, {{kRet}})),
               "takes 2 values from a stack of 1");
  EXPECT_TRUE(verified(with_operator("test::unknown", 1, {{kStoreN, 3, 2}, {kRet}})).is_ok());
  // If an operator can have any number of results, the STOREN behind it says how many it has.
  EXPECT_TRUE(
      verified(with_operator("test::any", 1, {{kStoreN, 3, 2}, {kLoad, 4}, {kRet}})).is_ok());
  expect_error(verified(with_operator("test::any", 1, {{kStoreN, 3, 2}, {kRet}})),
               "0 values at the end");
  EXPECT_TRUE(verified(with_operator("test::any", 1, {{kDrop}, {kDrop}, {kRet}})).is_ok());
}

TEST(BytecodeVerify, without_a_schema_the_first_instruction_tells_the_inputs) {
  Function function = relu();
  function.has_schema = false;
  function.arguments.clear();
  function.returns.clear();
  EXPECT_TRUE(verified(function).is_ok());
  function.instructions.insert(function.instructions.begin() + 1, {kDrop});
  expect_error(verified(function), "takes 1 values from a stack of 0");
}

double seconds_for(const Function& function, Status* status) {
  const double begin = cpu_seconds();
  *status = verified(function);
  return cpu_seconds() - begin;
}

TEST(BytecodeVerify, hostile_functions_take_bounded_time_and_memory) {
  // Each JF has its own target, and each waiting path needs a set of all registers.
  Function wide = function_of({{kStoreN, 1, 2}});
  wide.register_count = 1'000'000;
  constexpr int32_t kJumps = 100'000;
  for (int32_t i = 0; i < kJumps; ++i) {
    wide.instructions.push_back({kLoad, 1});
    wide.instructions.push_back({kJf, 2 * kJumps});
  }
  for (int32_t i = 0; i < 2 * kJumps; ++i) wide.instructions.push_back({kLoad, 1});
  wide.instructions.push_back({kRet});
  Status status;
  EXPECT_LT(seconds_for(wide, &status), 20);
  expect_error(status, "memory", Code::kResourceExhausted);

  // The loops are nested, and all their JMPs go back to the first loop.
  Function deep = function_of({{kStoreN, 1, 2}});
  constexpr int32_t kLoops = 50'000;
  for (int32_t i = 0; i < kLoops; ++i) {
    for (int k = 0; k < 3; ++k) deep.instructions.push_back({kLoadC, 0});
    deep.instructions.push_back({kLoop, 8 * kLoops - 6 * i, 2});
  }
  while (deep.instructions.size() < 8'000 + 8U * kLoops) deep.instructions.push_back({kDropR, 3});
  deep.instructions.push_back({kRet});
  EXPECT_LT(seconds_for(deep, &status), 20);
  EXPECT_FALSE(status.is_ok());

  // Every STOREN writes as many registers as possible.
  Function stores = function_of({{kStoreN, 1, 2}});
  stores.register_count = 65'535;
  stores.operators = {{"test::any", "", 0}};
  for (int32_t i = 0; i < 100'000; ++i) {
    stores.instructions.push_back({kOp, 0});
    stores.instructions.push_back({kStoreN, 1, 65'535});
  }
  EXPECT_LT(seconds_for(stores, &status), 20);
  expect_error(status, "steps", Code::kResourceExhausted);
}

}  // namespace
}  // namespace tenon::bytecode::test

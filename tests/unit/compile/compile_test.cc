// These tests compare the code of small methods, instruction by instruction. PyTorch 1.13 makes the
// same code of the methods that it prints itself, which tests/peers/compile checks for complete
// models.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "support/must.h"
#include "unit/compile/compile_kit.h"

namespace tenon::compile::test {
namespace {

TEST(CompileListing, TheLastUseMovesARegisterAndAnUnusedArgumentIsDropped) {
  EXPECT_EQ(listing_of(module_with("def forward(self, x: Tensor) -> Tensor:\n"
                                   "  y = torch.relu(x)\n"
                                   "  return torch.add(y, y)\n")),
            "STOREN 1 2\nDROPR 1\nMOVE 2\nOP aten::relu (1)\nSTORE 3\nLOAD 3\nMOVE 3\nOP "
            "aten::add.Tensor (2)\nRET\n");
}

TEST(CompileListing, AValueThatIsUsedOnceStaysOnTheStack) {
  EXPECT_EQ(
      listing_of(module_with("def forward(self, x: Tensor) -> Tensor:\n"
                             "  return torch.linear(torch.relu(x), self.weight, self.bias)\n")),
      "STOREN 1 2\nMOVE 2\nOP aten::relu (1)\nLOAD 1\nGET_ATTR 0\nMOVE 1\nGET_ATTR 1\nOP "
      "aten::linear (3)\nRET\n");
}

TEST(CompileListing, IfDropsWhatItsWaysUsedLast) {
  EXPECT_EQ(listing_of(module_with("def forward(self, x: Tensor, b: bool) -> Tensor:\n"
                                   "  if b:\n    y = torch.relu(x)\n  else:\n    y = torch.neg(x)\n"
                                   "  return y\n")),
            "STOREN 1 3\nDROPR 1\nMOVE 3\nJF 4\nLOAD 2\nOP aten::relu (1)\nJMP 3\nLOAD 2\nOP "
            "aten::neg (1)\nSTORE 4\nDROPR 2\nMOVE 4\n"
            "RET\n");
}

TEST(CompileListing, ForCarriesWhatItsBodyChanges) {
  EXPECT_EQ(listing_of(module_with("def forward(self, x: Tensor, n: int) -> Tensor:\n"
                                   "  y = x\n  for i in range(n):\n    y = torch.add(y, i)\n"
                                   "  return y\n")),
            "STOREN 1 3\nDROPR 1\nLOADC 0\nMOVE 3\nLOADC True\nMOVE 2\nLOOP 7 3\nSTOREN 4 2\nLOADC "
            "True\nMOVE 5\nMOVE 4\n"
            "OP aten::add.Scalar (2)\nJMP -6\nSTORE 6\nMOVE 6\nRET\n");
}

TEST(CompileListing, WhileAsksItsConditionBeforeAndInEachRound) {
  EXPECT_EQ(listing_of(module_with("def forward(self, n: int) -> int:\n"
                                   "  i = 0\n  while torch.lt(i, n):\n    i = torch.add(i, 1)\n"
                                   "  return i\n")),
            "STOREN 1 2\nDROPR 1\nLOADC 0\nLOADC 9223372036854775807\nLOADC 0\nLOAD 2\nOP "
            "aten::lt.int (2)\nLOADC 0\nLOOP 12 3\n"
            "STOREN 3 2\nDROPR 3\nMOVE 4\nLOADC 1\nOP aten::add.int (2)\nSTORE 5\nLOAD 5\nLOAD "
            "2\nOP aten::lt.int (2)\nMOVE 5\n"
            "JMP -11\nSTORE 6\nDROPR 2\nMOVE 6\nRET\n");
}

TEST(CompileListing, AnEarlyReturnTakesTheRestIntoTheOtherWay) {
  EXPECT_EQ(
      listing_of(module_with("def forward(self, x: Tensor, n: int) -> Tensor:\n"
                             "  if torch.gt(n, 1):\n    return torch.relu(x)\n  else:\n    pass\n"
                             "  return torch.neg(x)\n")),
      "STOREN 1 3\nDROPR 1\nMOVE 3\nLOADC 1\nOP aten::gt.int (2)\nJF 4\nLOAD 2\nOP aten::relu "
      "(1)\nJMP 3\nLOAD 2\nOP aten::neg (1)\n"
      "STORE 4\nDROPR 2\nMOVE 4\nRET\n");
}

// PyTorch prints no `break`, because it rewrites the loop first. So this listing is Tenon's own.
TEST(CompileListing, BreakSetsAFlagThatTheLoopAsks) {
  EXPECT_EQ(listing_of(module_with("def forward(self, x: Tensor, n: int) -> Tensor:\n"
                                   "  y = x\n  for i in range(n):\n"
                                   "    if torch.eq(i, 5):\n      break\n    else:\n      pass\n"
                                   "    y = torch.neg(y)\n"
                                   "  return y\n")),
            "STOREN 1 3\nDROPR 1\nLOADC 0\nMOVE 3\nLOADC True\nMOVE 2\nLOOP 21 3\nSTOREN 4 2\nMOVE "
            "4\nLOADC 5\nOP aten::eq.int (2)\nJF 4\n"
            "LOADC True\nLOAD 5\nJMP 4\nLOADC False\nLOAD 5\nOP aten::neg (1)\nSTOREN 6 2\nDROPR "
            "5\nMOVE 6\nJF 3\nLOADC False\nJMP 2\n"
            "LOADC True\nMOVE 7\nJMP -20\nSTORE 8\nMOVE 8\nRET\n");
}

TEST(CompileListing, SeveralResultsAndItemsOfATupleGetOneStore) {
  EXPECT_EQ(listing_of(module_with("def forward(self, x: Tensor) -> Tensor:\n"
                                   "  a, b, = torch.max(x, 1)\n"
                                   "  return torch.sub(b, a)\n")),
            "STOREN 1 2\nDROPR 1\nMOVE 2\nLOADC 1\nOP aten::max.dim (2)\nSTOREN 3 2\nMOVE 4\nMOVE "
            "3\nOP aten::sub.Tensor (2)\nRET\n");
  EXPECT_EQ(listing_of(module_with("def forward(self, t: Tuple[Tensor, int]) -> Tensor:\n"
                                   "  a, n, = t\n"
                                   "  return torch.add(a, n)\n")),
            "STOREN 1 2\nDROPR 1\nMOVE 2\nOP prim::TupleUnpack (1)\nSTOREN 3 2\nMOVE 3\nMOVE 4\nOP "
            "aten::add.Scalar (2)\nRET\n");
}

TEST(CompileListing, AnInterfaceCallNeedsTheMethodOfEveryClassThatHasIt) {
  const std::vector<bytecode::Function> functions = functions_of(
      "class I(ModuleInterface):\n  def forward(self, x: Tensor) -> Tensor:\n    pass\n"
      "class A(Module):\n  k : int\n  def forward(self, x: Tensor) -> Tensor:\n    return "
      "torch.add(x, self.k)\n"
      "class M(Module):\n  one : __torch__.I\n  def forward(self, x: Tensor) -> Tensor:\n"
      "    return (self.one).forward(torch.neg(x))\n");
  ASSERT_EQ(functions.size(), 2U);
  EXPECT_EQ(functions[0].name, "__torch__.M.forward");
  EXPECT_EQ(listing(functions[0]),
            "STOREN 1 2\nMOVE 1\nGET_ATTR 0\nMOVE 2\nOP aten::neg (1)\nINTERFACE_CALL 'forward' "
            "2\nRET\n");
  EXPECT_EQ(functions[1].name, "__torch__.A.forward");
  EXPECT_EQ(listing(functions[1]),
            "STOREN 1 2\nMOVE 2\nMOVE 1\nGET_ATTR 0\nOP aten::add.Scalar (2)\nRET\n");
}

TEST(CompileListing, ArgumentsThatHaveTheirDefaultAreLeftOutUnlessACallOfTheOperatorNeedsThem) {
  const std::string code = module_with(
      "def forward(self, x: Tensor) -> Tensor:\n"
      "  y = torch.add(x, x, alpha=1)\n"
      "  z = torch.softmax(y, 1, dtype=None)\n"
      "  return torch.add(z, z, alpha=2)\n");
  EXPECT_EQ(listing_of(code),
            "STOREN 1 2\nDROPR 1\nLOAD 2\nMOVE 2\nLOADC 1\nOP aten::add.Tensor (3)\nLOADC 1\nOP "
            "aten::softmax.int (2)\nSTORE 3\nLOAD 3\n"
            "MOVE 3\nLOADC 2\nOP aten::add.Tensor (3)\nRET\n");
  CompileOptions options;
  options.emit.default_inputs = true;
  // -2 means that the record gives no number of arguments, so all of them are on the stack.
  EXPECT_EQ(listing_of(code, options),
            "STOREN 1 2\nDROPR 1\nLOAD 2\nMOVE 2\nLOADC 1\nOP aten::add.Tensor (-2)\nLOADC "
            "1\nLOADC None\nOP aten::softmax.int (-2)\n"
            "STORE 3\nLOAD 3\nMOVE 3\nLOADC 2\nOP aten::add.Tensor (-2)\nRET\n");
}

TEST(CompileListing, EqualConstantsAndOperatorsStandInTheirTablesOnce) {
  const std::vector<bytecode::Function> functions =
      functions_of(module_with("def forward(self, x: Tensor) -> Tensor:\n"
                               "  a = torch.select(x, 0, 1)\n  b = torch.select(x, 1, 0)\n"
                               "  return torch.add(a, b, alpha=1)\n"));
  ASSERT_EQ(functions.size(), 1U);
  EXPECT_EQ(listing(functions[0]),
            "STOREN 1 2\nDROPR 1\nLOAD 2\nLOADC 0\nLOADC 1\nOP aten::select.int (3)\nMOVE 2\nLOADC "
            "1\nLOADC 0\nOP aten::select.int (3)\n"
            "OP aten::add.Tensor (2)\nRET\n");
  EXPECT_EQ(functions[0].constants.size(), 2U);
  EXPECT_EQ(functions[0].operators.size(), 2U);
  EXPECT_EQ(functions[0].register_count, 2);
}

TEST(CompileListing, AttributesHaveThePlacesThatTheCallerNames) {
  const std::string code = module_with(
      "def forward(self, n: int) -> int:\n"
      "  self.count = torch.add(self.count, n)\n  return self.count\n");
  EXPECT_EQ(listing_of(code),
            "STOREN 1 2\nLOAD 1\nLOAD 1\nGET_ATTR 2\nMOVE 2\nOP aten::add.int (2)\nSET_ATTR "
            "2\nMOVE 1\nGET_ATTR 2\nRET\n");
  const std::map<std::string, std::vector<std::string>, std::less<>> slots = {
      {"__torch__.M", {"count", "bias", "weight"}}};
  CompileOptions options;
  options.slots = &slots;
  EXPECT_EQ(listing_of(code, options),
            "STOREN 1 2\nLOAD 1\nLOAD 1\nGET_ATTR 0\nMOVE 2\nOP aten::add.int (2)\nSET_ATTR "
            "0\nMOVE 1\nGET_ATTR 0\nRET\n");
}

TEST(CompileListing, ACalledFunctionStandsInItsCaller) {
  EXPECT_EQ(
      listing_of(
          "def g(x: Tensor, s: float=2.) -> Tensor:\n  return torch.mul(x, s)\n" +
          module_with(
              "def forward(self, x: Tensor) -> Tensor:\n  return __torch__.g(torch.relu(x))\n")),
      "STOREN 1 2\nDROPR 1\nMOVE 2\nOP aten::relu (1)\nLOADC 2\nOP aten::mul.Scalar (2)\nRET\n");
}

TEST(CompileListing, ContainersNameTheirTypes) {
  EXPECT_EQ(listing_of("class P(NamedTuple):\n  left : Tensor\n  n : int\n" +
                       module_with("def forward(self, x: Tensor) -> __torch__.P:\n  p = "
                                   "__torch__.P(x, 1)\n  return p\n")),
            "STOREN 1 2\nDROPR 1\nMOVE 2\nLOADC 1\nNAMED_TUPLE_CONSTRUCT __torch__.P[NamedTuple, "
            "[[left, Tensor],[n, int]]] 2\nRET\n");
  EXPECT_EQ(listing_of(module_with("def forward(self, d: Dict[str, int]) -> List[int]:\n  return "
                                   "[d[\"a\"], torch.len(d)]\n")),
            "STOREN 1 2\nDROPR 1\nLOAD 2\nLOADC 'a'\nDICT_INDEX\nMOVE 2\nOP aten::len.Dict_str "
            "(1)\nLIST_CONSTRUCT List[int] 2\nRET\n");
}

TEST(CompileListing, WhatIsKnownIsComputed) {
  EXPECT_EQ(listing_of(module_with(
                "def forward(self, x: Tensor) -> Tensor:\n"
                "  n = torch.add(1, 2)\n"
                "  if torch.eq(n, 3):\n    y = torch.add(x, n)\n  else:\n    y = torch.neg(x)\n"
                "  return y\n")),
            "STOREN 1 2\nDROPR 1\nMOVE 2\nLOADC 3\nOP aten::add.Scalar (2)\nRET\n");
}

TEST(CompileListing, SomeOperatorsAreInstructionsUnlessTheCallerForbidsIt) {
  const std::string code = module_with(
      "def forward(self, x: Optional[Tensor]) -> bool:\n  return torch.__isnot__(x, None)\n");
  EXPECT_EQ(listing_of(code), "STOREN 1 2\nDROPR 1\nMOVE 2\nLOADC None\n__ISNOT__\nRET\n");
  CompileOptions options;
  options.emit.promoted_operators = false;
  EXPECT_EQ(listing_of(code, options),
            "STOREN 1 2\nDROPR 1\nMOVE 2\nLOADC None\nOP aten::__isnot__ (2)\nRET\n");
}

TEST(CompileListing, AForkedFunctionRunsWhereForkStandsIfAsked) {
  CompileOptions options;
  options.forks_at_once = true;
  EXPECT_EQ(listing_of(module_with("def forward(self, x: Tensor) -> Tensor:\n"
                                   "  def f():\n    return torch.neg(x)\n"
                                   "  l = [fork(f)]\n"
                                   "  return torch.wait(l[0])\n"),
                       options),
            "STOREN 1 2\nDROPR 1\nMOVE 2\nOP aten::neg (1)\nOP prim::unchecked_cast "
            "(1)\nLIST_CONSTRUCT List[Tensor] 1\nLOADC 0\n"
            "OP aten::__getitem__.t (2)\nOP prim::unchecked_cast (1)\nRET\n");
}

TEST(CompileListing, APartThatIsChosenAtRunTimeHasTheTypeThatStandsThere) {
  const std::string interface =
      "class Layer(ModuleInterface):\n  def forward(self, x: Tensor) -> Tensor:\n    pass\n";
  const std::string parts = "class Parts(Module):\n  __annotations__[\"0\"] = __torch__.One\n";
  const std::string one =
      "class One(Module):\n  def forward(self, x: Tensor) -> Tensor:\n    return torch.neg(x)\n";
  const auto with = [&](const std::string& line) {
    return interface + one + parts + "class M(Module):\n  parts : __torch__.Parts\n" +
           "  def forward(self, x: Tensor, i: int) -> Tensor:\n    parts = self.parts\n" + line;
  };
  const std::vector<bytecode::Function> functions =
      functions_of(with("    l : __torch__.Layer = parts[i]\n    return (l).forward(x)\n"));
  ASSERT_EQ(functions.size(), 2U);  // the other one is One.forward
  EXPECT_EQ(listing(functions[0]),
            "STOREN 1 3\nMOVE 1\nGET_ATTR 0\nMOVE 3\nOP prim::ModuleContainerIndex.list (2)\nMOVE "
            "2\nINTERFACE_CALL 'forward' 2\nRET\n");
  const Status refused = compiled(with("    return (parts[i]).forward(x)\n")).status();
  EXPECT_NE(refused.message().find("Say of what type it is"), std::string_view::npos)
      << refused.message();
}

TEST(CompileProgram, AFutureInASchemaIsItsResult) {
  const std::string code = module_with(
      "def start(self, f: Future[Tensor]) -> List[Future[int]]:\n  return [fork(torch.dim, "
      "torch.wait(f))]\n");
  EXPECT_EQ(compiled(code).status().code(), Code::kUnsupported);
  CompileOptions options;
  options.forks_at_once = true;
  bytecode::Program program = must(compiled(code, options));
  EXPECT_EQ(program.functions[0].arguments[1].type, "Tensor");
  EXPECT_EQ(program.functions[0].returns[0].type, "List[int]");
}

TEST(CompileProgram, HasTheSchemaOfEachMethod) {
  const std::vector<bytecode::Function> functions = functions_of(
      module_with("def forward(self, x: Tensor, n: int=3) -> Optional[Tensor]:\n  return x\n"));
  ASSERT_EQ(functions.size(), 1U);
  const bytecode::Function& function = functions[0];
  EXPECT_EQ(function.name, "__torch__.M.forward");
  ASSERT_EQ(function.arguments.size(), 3U);
  EXPECT_EQ(function.arguments[0].type, "__torch__.M");
  EXPECT_EQ(function.arguments[1].name, "x");
  EXPECT_EQ(function.arguments[1].type, "Tensor");
  EXPECT_EQ(shown(*function.arguments[2].default_value), "3");
  ASSERT_EQ(function.returns.size(), 1U);
  EXPECT_EQ(function.returns[0].type, "Optional[Tensor]");
}

TEST(CompileProgram, NamesTheOperatorsThatItCalls) {
  bytecode::Program program =
      must(compiled(module_with("def forward(self, x: Tensor) -> Tensor:\n  return "
                                "torch.add(torch.relu(x), torch.relu(x))\n")));
  EXPECT_EQ(operator_names(program), (std::vector<std::string>{"aten::add.Tensor", "aten::relu"}));
}

// These assignments call the operators that PyTorch calls. Some operators change the tensor, others
// make a new one, and `%=` is not `%`.
TEST(CompileProgram, AugmentedAssignmentsCallTheOperatorsThatPyTorchCalls) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"x += x", "aten::add_.Tensor"},
      {"x %= x", "aten::fmod_.Tensor"},
      {"x **= x", "aten::pow.Tensor_Tensor"},
      {"x |= x", "aten::__or__.Tensor"},
      {"x >>= x", "aten::__irshift__.Tensor"},
      {"f %= 2.5", "aten::fmod.float"},
      {"x[0] %= 3", "aten::fmod_.Scalar"},
      {"[x][0] -= x", "aten::sub_.Tensor"},
      {"{'a': x}['a'] -= x", "aten::sub.Tensor"},
      {"[[1]][0] *= 2", "aten::mul_.t"},
      {"x[x > 1] += 2", "aten::add_.Scalar"},
      {"[x][0] <<= x", "aten::__ilshift__.Tensor"},
  };
  for (const auto& [line, name] : cases) {
    Result<bytecode::Program> program = compiled(
        module_with("def forward(self, x: Tensor, f: float):\n  " + line + "\n  return x, f\n"));
    ASSERT_TRUE(program.is_ok()) << line << ": " << program.status().message();
    const std::vector<std::string> names = operator_names(program.value());
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end())
        << line << " calls " << ::testing::PrintToString(names);
  }
}

// PyTorch 2.15 also accepts each of these. The printed code of an archive never contains them.
TEST(CompileProgram, AVariableBecomesAnotherTypeInTheBlockThatMadeIt) {
  const std::vector<std::string> bodies = {
      "x = 'a'\nreturn x",
      "y = 3\ny = 'a'\nreturn y",
      "y : int = 3\ny = 'a'\nreturn y",
      "y : int = 3\ny : str = 'a'\nreturn y",
      "z = 'q'\nif c:\n  y = 3\n  y = 'a'\n  z = y\nreturn z",
      "z = 'q'\nfor i in range(3):\n  y = 3\n  y = 'a'\n  z = z + y\nreturn z",
      "if c:\n  y = 3\nelse:\n  y = 4\ny = 'a'\nreturn y",
      "y = 3\nfor i in range(3):\n  y = y + 1\ny = 'a'\nreturn y",
      "if c:\n  return 'e'\nelse:\n  y = 3\ny = 'a'\nreturn y",
      "y = 3\nif c:\n  return 'e'\ny = 'a'\nreturn y",
      "y = 3\nfor i in range(3):\n  if c:\n    return 'e'\ny = 'a'\nreturn y",
      "if o is None:\n  o = 3\no = 'a'\nreturn o",
      "a, b = 1, 2\na, b = 'a', 3.0\nreturn a",
  };
  for (const std::string& body : bodies) {
    const Result<bytecode::Program> program = compiled(module_with(method_with(body)));
    EXPECT_TRUE(program.is_ok()) << body << ": " << program.status().message();
  }
}

TEST(CompileProgram, HasTheMethodsThatAreAskedFor) {
  const std::string code = module_with(
      "def forward(self, x: Tensor) -> Tensor:\n  return x\n"
      "def other(self, x: Tensor) -> Tensor:\n  return torch.neg(x)\n");
  CompileOptions options;
  options.methods = {"other"};
  const std::vector<bytecode::Function> functions = functions_of(code, options);
  ASSERT_EQ(functions.size(), 1U);
  EXPECT_EQ(functions[0].name, "__torch__.M.other");
  EXPECT_EQ(functions_of(code).size(), 2U);
}

TEST(CompileProgram, LoadsConstantsOfTheArchive) {
  EXPECT_EQ(
      listing_of(
          module_with(
              "def forward(self, x: Tensor) -> Tensor:\n  return torch.add(x, CONSTANTS.c1)\n"),
          {}, {Value::of_int(7), Value::of_float(0.5)}),
      "STOREN 1 2\nDROPR 1\nMOVE 2\nLOADC 0.5\nOP aten::add.Scalar (2)\nRET\n");
}

}  // namespace
}  // namespace tenon::compile::test

// These tests compile to bytecode of versions below 8. They check which operators of the target's
// PyTorch replace the operators of the code, and what is refused.
#include "support/must.h"
#include "unit/compile/compile_kit.h"

namespace tenon::compile::test {
namespace {

CompileOptions version(int wanted) {
  CompileOptions options;
  options.version = wanted;
  return options;
}

// Returns a method with the single line `return <expression>`, for a Tensor x, a float f and a list
// p.
std::string method_of(const std::string& expression, const std::string& type = "Tensor") {
  return module_with("def forward(self, x: Tensor, f: float, p: List[int]) -> " + type +
                     ":\n  return " + expression + "\n");
}

std::string lowered(const std::string& code, int wanted) {
  Result<bytecode::Program> program = compiled(code, version(wanted));
  return program.is_ok() ? listing(program.value().functions.at(0)) : program.status().message();
}

void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(CompileLower, TheProgramSaysTheVersion) {
  for (const int wanted : {4, 5, 6, 7, 8}) {
    bytecode::Program program = must(compiled(method_of("torch.relu(x)"), version(wanted)));
    EXPECT_EQ(program.version, wanted);
  }
  for (const int wanted : {3, 9}) {
    const Status refused = compiled(method_of("torch.relu(x)"), version(wanted)).status();
    EXPECT_EQ(refused.code(), Code::kInvalidArgument);
    expect_has(refused.message(), "give a version from 4 to 8");
  }
}

TEST(CompileLower, AnArgumentThatDidNotExistGoesIfItHasItsDefault) {
  expect_has(lowered(method_of("torch.gelu(x)"), 4), "MOVE 2\nOP aten::gelu (-2)\n");
  // PyTorch 1.9 ignores the number of arguments. Newer versions need it, because their gelu has two
  // arguments.
  expect_has(lowered(method_of("torch.gelu(x)"), 5), "MOVE 2\nOP aten::gelu (1)\n");
  expect_has(lowered(method_of("torch.gelu(x)"), 7), "MOVE 2\nOP aten::gelu (1)\n");
  const Status refused =
      compiled(method_of("torch.gelu(x, approximate=\"tanh\")"), version(7)).status();
  EXPECT_EQ(refused.code(), Code::kUnsupported);
  EXPECT_NE(place(refused), ":");
  expect_has(refused.message(), "it has no argument `approximate` there");
}

TEST(CompileLower, OperatorsAreThoseOfTheTarget) {
  const Status refused = compiled(method_of("torch.mT(x)"), version(7)).status();
  EXPECT_EQ(refused.code(), Code::kUnsupported) << refused.message();
  expect_has(refused.message(), "for PyTorch 1.10 and later, which has no operator aten::mT yet");
  expect_has(lowered(method_of("torch.resolve_conj(x)"), 7), "OP aten::resolve_conj (1)");
  expect_has(lowered(method_of("torch.resolve_conj(x)"), 5),
             "for PyTorch 1.9 and later, which has no operator");
}

TEST(CompileLower, CallsBecomeThoseThatDidTheSame) {
  expect_has(lowered(method_of("torch.pad(x, p)"), 5), "LOADC 0\nOP aten::constant_pad_nd (-2)\n");
  expect_has(lowered(method_of("torch.pad(x, p, \"constant\", f)"), 7),
             "OP aten::constant_pad_nd (3)\n");
  expect_has(lowered(method_of("torch.pad(x, [1, 1], \"reflect\")"), 7),
             "OP aten::reflection_pad1d (2)\n");
  expect_has(lowered(method_of("torch.pad(x, [1, 1, 2, 2], \"replicate\")"), 7),
             "OP aten::replication_pad2d (2)\n");
  expect_has(lowered(method_of("torch.pad(x, p, \"reflect\")"), 7),
             "has no operator aten::pad yet");
  expect_has(lowered(method_of("torch.pad(x, p, \"reflect\")"), 8), "OP aten::pad (3)\n");
  expect_has(lowered(method_of("torch.floor_divide(x, 2)"), 7),
             "LOADC 'floor'\nOP aten::div.Scalar_mode (3)\n");
  expect_has(lowered(method_of("torch.meshgrid([x], indexing=\"ij\")", "List[Tensor]"), 5),
             "OP aten::meshgrid (-2)\n");
  expect_has(lowered(method_of("torch.meshgrid([x], indexing=\"xy\")", "List[Tensor]"), 5),
             "does not fit");
}

TEST(CompileLower, OldArchivesKeepAllArgumentsOfLinspace) {
  expect_has(lowered(method_of("torch.linspace(0, f, 3)"), 7), "OP aten::linspace (7)\n");
  expect_has(lowered(method_of("torch.linspace(0, f, 3)"), 8), "OP aten::linspace (3)\n");
}

// The lite interpreter runs its own function for these operators. That function fills in no
// defaults.
TEST(CompileLower, BytecodeOfOldArchivesLoadsAllArgumentsOfLinspace) {
  CompileOptions old;
  old.emit.archive_version = 7;
  expect_has(listing_of(method_of("torch.linspace(0, f, 3)"), old), "OP aten::linspace (7)\n");
  expect_has(listing_of(method_of("torch.logspace(0, f, 3)"), old), "OP aten::logspace (8)\n");
  old.emit.archive_version = 8;
  expect_has(listing_of(method_of("torch.linspace(0, f, 3)"), old), "OP aten::linspace (3)\n");
  expect_has(listing_of(method_of("torch.logspace(0, f, 3)"), old), "OP aten::logspace (8)\n");
  old.emit.archive_version = 9;
  expect_has(listing_of(method_of("torch.logspace(0, f, 3)"), old), "OP aten::logspace (3)\n");
}

TEST(CompileLower, NamedTuplesAreTuples) {
  const std::string code =
      "class P(NamedTuple):\n  left : Tensor\n  n : int\n" +
      module_with("def forward(self, x: Tensor) -> __torch__.P:\n  return __torch__.P(x, 1)\n");
  expect_has(lowered(code, 7), "TUPLE_CONSTRUCT 2\n");
  bytecode::Program program = must(compiled(code, version(7)));
  EXPECT_EQ(program.functions[0].returns[0].type, "Tuple[Tensor, int]");
}

TEST(CompileLower, TheTypeOfNoneHasTheNameThatTheTargetReads) {
  const std::string code = module_with("def forward(self, n: int) -> NoneType:\n  return None\n");
  for (const int wanted : {4, 5}) {
    bytecode::Program program = must(compiled(code, version(wanted)));
    EXPECT_EQ(program.functions[0].returns[0].type, wanted == 4 ? "None" : "NoneType");
  }
}

TEST(CompileLower, WhatTheOldInterpretersDoNotRunIsRefused) {
  const std::string asks =
      module_with("def forward(self, x: Any) -> bool:\n  return isinstance(x, int)\n");
  expect_has(lowered(asks, 4),
             "PyTorch 1.8, for which bytecode of version 4 is, has no isinstance");
  expect_has(lowered(asks, 5), "ISINSTANCE int 1\n");
  const std::string calls =
      "class I(ModuleInterface):\n  def go(self, x: Tensor) -> Tensor:\n    pass\n"
      "class M(Module):\n  i : __torch__.I\n  def forward(self, x: Tensor) -> Tensor:\n    return "
      "(self.i).go(x)\n";
  expect_has(lowered(calls, 7), "has no calls through an interface");
}

}  // namespace
}  // namespace tenon::compile::test

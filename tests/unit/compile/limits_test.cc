// These tests compile hostile and large code. The compiler accepts it in bounded time, memory and
// stack, or refuses it.
#include <sys/resource.h>

#include <algorithm>

#include "support/small_stack.h"
#include "unit/compile/compile_kit.h"
#include "unit/cpu_time.h"

namespace tenon::compile::test {
namespace {

// Returns the most memory that this process has ever had, in bytes.
size_t peak_nbytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss) * 1024;
}

std::string repeated(const std::string& text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

std::string forward(const std::string& body) {
  return module_with("def forward(self, x: Tensor) -> Tensor:\n" + body);
}

std::string nested(const std::string& before, const std::string& inner, const std::string& after,
                   size_t depth) {
  return repeated(before, depth) + inner + repeated(after, depth);
}

// Returns the functions f0 to f<count>. Each returns `before`, a call of the next function and
// `after`.
std::string chain(size_t count, const std::string& before, const std::string& after) {
  std::string code;
  for (size_t i = 0; i < count; ++i) {
    code += "def f" + std::to_string(i) + "(x: Tensor) -> Tensor:\n  return " + before +
            "__torch__.f" + std::to_string(i + 1) + "(x)" + after + "\n";
  }
  return code + "def f" + std::to_string(count) +
         "(x: Tensor) -> Tensor:\n  return torch.relu(x)\n" + forward("  return __torch__.f0(x)\n");
}

// Checks that the code is compiled to a sound program, or that it is refused with a place.
void expect_taken_or_refused(const std::string& code) {
  on_small_stack([&] {
    Result<bytecode::Program> program = compiled(code);
    if (program.is_ok()) return expect_sound(program.value());
    const Code why = program.status().code();
    EXPECT_TRUE(why == Code::kResourceExhausted || why == Code::kUnsupported ||
                why == Code::kInvalidArgument)
        << program.status().message();
    EXPECT_NE(place(program.status()), ":") << program.status().message();
  });
}

TEST(CompileLimits, AChainOfCallsIsRefused) {
  on_small_stack([] {
    const Status status = refusal(chain(1000, "", ""));
    EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.message();
    EXPECT_NE(place(status), ":") << status.message();
  });
}

TEST(CompileLimits, CallsWithinDeepExpressionsStayWithinTheStack) {
  expect_taken_or_refused(chain(60, repeated("torch.relu(", 200), repeated(")", 200)));
}

TEST(CompileLimits, NestedExpressions) {
  expect_taken_or_refused(forward("  return " + nested("torch.relu(", "x", ")", 400) + "\n"));
  expect_taken_or_refused(forward("  return " + nested("torch.relu(", "x", ")", 240) + "\n"));
  expect_taken_or_refused(forward("  return x" + repeated(" + x", 240) + "\n"));
  expect_taken_or_refused(forward("  y = " + nested("[", "x", "]", 240) + "\n  return x\n"));
  expect_taken_or_refused(forward("  y = " + nested("(", "x", ",)", 240) + "\n  return x\n"));
  expect_taken_or_refused(
      forward("  return " + nested("(x if bool(x) else ", "x", ")", 120) + "\n"));
  expect_taken_or_refused(
      forward("  y = " + nested("not ", "bool(x)", "", 240) + "\n  return x\n"));
}

TEST(CompileLimits, NestedBlocks) {
  std::string ifs;
  std::string loops;
  for (size_t depth = 0; depth < 240; ++depth) {
    ifs += std::string(2 + depth, ' ') + "if bool(x):\n";
    loops += std::string(2 + depth, ' ') + "for i" + std::to_string(depth) + " in range(2):\n";
  }
  const std::string body = std::string(242, ' ') + "x = torch.relu(x)\n";
  expect_taken_or_refused(forward(ifs + body + "  return x\n"));
  expect_taken_or_refused(forward(loops + body + "  return x\n"));
}

// Everything behind an `if` with a return goes into the branch that does not return. So these
// branches are nested.
TEST(CompileLimits, ManyEarlyReturns) {
  expect_taken_or_refused(
      forward(repeated("  if bool(x):\n    return x\n  else:\n    pass\n", 10'000) +
              "  return torch.neg(x)\n"));
  expect_taken_or_refused(forward("  n = 0\n" +
                                  repeated("  while torch.lt(n, 3):\n    return x\n", 5000) +
                                  "  return torch.neg(x)\n"));
}

// Each line uses the value of the line before. So all values stay on the stack, and the method is
// one expression.
TEST(CompileLimits, ALongMethodNeedsNoStack) {
  on_small_stack([] {
    const std::vector<bytecode::Function> functions =
        functions_of(forward(repeated("  x = torch.relu(x)\n", 10'000) + "  return x\n"));
    ASSERT_EQ(functions.size(), 1U);
    EXPECT_EQ(functions[0].instructions.size(), 10'004U);
  });
}

double seconds_of(const std::string& code) {
  const double begin = cpu_seconds();
  Result<bytecode::Program> program = compiled(code);
  EXPECT_TRUE(program.is_ok()) << program.status().message();
  return cpu_seconds() - begin;
}

// Checks that four times as much code takes at most eight times as long. Other work on the machine
// disturbs a measurement. So up to three pairs are measured, and the first good pair is enough.
void expect_linear(const std::string& small_code, const std::string& large_code) {
  double small = 0;
  double large = 0;
  for (int tries = 0; tries < 3 && (tries == 0 || large > 8 * small); ++tries) {
    small = seconds_of(small_code);
    large = seconds_of(large_code);
  }
  EXPECT_LE(large, 8 * small) << small << " s, and " << large << " s for four times as much code";
}

// The values of half of the lines stay on the stack, and the other half have registers.
std::string lines(size_t count) {
  return forward(repeated("  x = torch.relu(x)\n  x = torch.add(x, x)\n", count / 2) +
                 "  return x\n");
}

TEST(CompileLimits, TimeGrowsWithTheLinesOfAMethod) {
  expect_linear(lines(2000), lines(8000));
  functions_of(lines(10'000));
}

TEST(CompileLimits, TimeGrowsWithTheBranchesOfAMethod) {
  const std::string branch =
      "  if bool(x):\n    x = torch.relu(x)\n  else:\n    x = torch.neg(x)\n";
  expect_linear(forward(repeated(branch, 500) + "  return x\n"),
                forward(repeated(branch, 2000) + "  return x\n"));
}

std::string reads_of_a_dict(size_t count) {
  std::string keys;
  std::string reads;
  for (size_t i = 0; i < count; ++i) {
    const std::string key = "\"k" + std::to_string(i) + "\"";
    keys += (i > 0 ? ", " : "") + key + ": x";
    reads += "  x = torch.add(x, d[" + key + "])\n";
  }
  return "def g(x: Tensor) -> Tensor:\n  d = {" + keys + "}\n" + reads + "  return x\n" +
         forward("  return __torch__.g(x)\n");
}

TEST(CompileLimits, TimeGrowsWithTheReadsOfADict) {
  expect_linear(reads_of_a_dict(60), reads_of_a_dict(240));
}

std::string methods(size_t count) {
  std::string code;
  std::string calls = "def forward(self, x: Tensor) -> Tensor:\n";
  for (size_t i = 0; i < count; ++i) {
    const std::string name = "m" + std::to_string(i);
    code += "def " + name + "(self, x: Tensor) -> Tensor:\n  return torch.relu(x)\n";
    calls += "  x = self." + name + "(x)\n";
  }
  return module_with(code + calls + "  return x\n");
}

TEST(CompileLimits, TimeGrowsWithTheMethodsOfAClass) {
  expect_linear(methods(1000), methods(4000));
}

// Returns a method with a list of numbers or texts, each of which is a constant of its own.
std::string list_of(const std::string& element, const std::string& quote, size_t count) {
  std::string items;
  for (size_t i = 0; i < count; ++i) items += quote + std::to_string(i) + quote + ", ";
  return module_with("def forward(self) -> List[" + element + "]:\n  return [" + items + "]\n");
}

TEST(CompileLimits, TimeGrowsWithTheDistinctConstantsOfAMethod) {
  expect_linear(list_of("int", "", 12'000), list_of("int", "", 48'000));
  expect_linear(list_of("str", "\"", 12'000), list_of("str", "\"", 48'000));
}

std::string reads_of_a_tuple(size_t count) {
  std::string reads;
  for (size_t i = 0; i < count; ++i) reads += "  x = torch.add(x, t[" + std::to_string(i) + "])\n";
  return forward("  t = (" + repeated("x, ", count) + ")\n" + reads + "  return x\n");
}

TEST(CompileLimits, TimeGrowsWithTheReadsOfATuple) {
  expect_linear(reads_of_a_tuple(1000), reads_of_a_tuple(4000));
}

TEST(CompileLimits, ForksInOneAnother) {
  CompileOptions options;
  options.forks_at_once = true;
  for (const size_t depth : {40, 120}) {
    std::string code = "def forward(self, x: Tensor) -> Tensor:\n";
    for (size_t i = 0; i < depth; ++i)
      code += std::string(2 + 2 * i, ' ') + "def f" + std::to_string(i) + "():\n";
    code += std::string(2 + 2 * depth, ' ') + "return torch.relu(x)\n";
    for (size_t i = depth; i > 0; --i)
      code += std::string(2 * i, ' ') + "return torch.wait(fork(f" + std::to_string(i - 1) + "))\n";
    on_small_stack([&] {
      Result<bytecode::Program> program = compiled(module_with(code), options);
      if (program.is_ok()) return expect_sound(program.value());
      EXPECT_EQ(program.status().code(), Code::kResourceExhausted) << program.status().message();
    });
  }
}

// With the limit of a release the test would take seconds.
CompileOptions few_nodes() {
  CompileOptions options;
  options.max_nodes = size_t{1} << 14;
  return options;
}

TEST(CompileLimits, CallsThatDoubleAreRefused) {
  std::string code;
  for (size_t i = 0; i < 30; ++i) {
    const std::string next = "__torch__.f" + std::to_string(i + 1) + "(x)";
    code += "def f" + std::to_string(i) + "(x: Tensor) -> Tensor:\n  return torch.add(" + next +
            ", " + next + ")\n";
  }
  code += "def f30(x: Tensor) -> Tensor:\n  return torch.relu(x)\n" +
          forward("  return __torch__.f0(x)\n");
  const Status status = refusal(code, few_nodes());
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.message();
  EXPECT_NE(place(status), ":") << status.message();
  EXPECT_LE(peak_nbytes(), size_t{1} << 30);
}

TEST(CompileLimits, TypesThatContainThemselvesAreRefused) {
  expect_taken_or_refused(
      "class P(NamedTuple):\n  a : __torch__.P\n" +
      module_with("def forward(self, x: __torch__.P) -> __torch__.P:\n  return __torch__.P(x)\n"));
  std::string pairs = "class P0(NamedTuple):\n  a : int\n";
  for (size_t i = 1; i <= 30; ++i) {
    const std::string before = "__torch__.P" + std::to_string(i - 1);
    pairs += "class P" + std::to_string(i) + "(NamedTuple):\n  a : " + before +
             "\n  b : " + before + "\n";
  }
  expect_taken_or_refused(
      pairs +
      module_with(
          "def forward(self, x: __torch__.P29) -> __torch__.P30:\n  return __torch__.P30(x, x)\n"));
}

TEST(CompileLimits, AnObjectThatIsItsOwnMethodIsRefused) {
  const Status status = refusal(
      "class M(Module):\n  forward : __torch__.M\n  def run(self, x: Tensor) -> Tensor:\n    "
      "return (self)(x)\n");
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.message();
}

TEST(CompileLimits, WhatIsComputedBeforehandStaysSmall) {
  expect_taken_or_refused(module_with("def forward(self) -> str:\n  s = \"aaaaaaaa\"\n" +
                                      repeated("  s = torch.add(s, s)\n", 40) + "  return s\n"));
  EXPECT_LE(peak_nbytes(), size_t{1} << 30);
}

TEST(CompileLimits, UnrolledLoopsAreRefused) {
  std::string comprehension = "a";
  std::string loops;
  for (size_t depth = 0; depth < 8; ++depth) {
    comprehension = "[" + comprehension + " for a in t]";
    loops += std::string(2 + depth, ' ') + "for a in t:\n";
  }
  const std::string tuple = "  t = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)\n";
  for (const std::string& line :
       {"  y = " + comprehension + "\n", loops + std::string(10, ' ') + "x = torch.relu(x)\n"}) {
    const Status status = refusal(forward(tuple + line + "  return x\n"), few_nodes());
    EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.message();
  }
  EXPECT_LE(peak_nbytes(), size_t{1} << 30);
}

TEST(CompileLimits, ALongTupleIsNotCutByAComprehension) {
  const Result<bytecode::Program> program =
      compiled(forward("  t = (" + repeated("1, ", 5000) +
                       ")\n  y = [torch.add(x, a) for a in t]\n  return y[0]\n"));
  EXPECT_FALSE(program.is_ok());
}

TEST(CompileLimits, OnlyATupleIsUnpackedByAStar) {
  EXPECT_EQ(refusal(forward("  t = (*x, 1)\n  return x\n")).code(), Code::kInvalidArgument);
}

TEST(CompileLimits, AnEmptyComprehensionHasAType) {
  EXPECT_FALSE(
      compiled(forward("  z : int = [a for a in ()]\n  return torch.add(x, z)\n")).is_ok());
}

}  // namespace
}  // namespace tenon::compile::test

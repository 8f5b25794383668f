// These tests check what the compiler refuses. Each error has a code, says what is wrong, and names
// its place.
#include "unit/compile/compile_kit.h"

namespace tenon::compile::test {
namespace {

// Checks the error of a method. In the code that is compiled, the method begins at line 5 and is
// two columns further right than in `code`.
void expect_refused(const std::string& code, std::string_view where, std::string_view part,
                    Code wanted = Code::kInvalidArgument) {
  const Status status = refusal(code);
  EXPECT_EQ(status.code(), wanted) << status.message();
  EXPECT_EQ(place(status), where) << status.message() << "\n" << status.detail("excerpt");
  EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  EXPECT_TRUE(status.message().starts_with("code/__torch__.py:" + std::string(where) + ": "))
      << status.message();
}

void expect_refused_line(const std::string& line, std::string_view where, std::string_view part,
                         Code wanted = Code::kInvalidArgument) {
  expect_refused(
      module_with("def forward(self, x: Tensor) -> Tensor:\n  " + line + "\n  return x\n"), where,
      part, wanted);
}

TEST(CompileErrors, UnknownNames) {
  expect_refused_line("y = torch.neg(z)", "6:19", "there is no variable z");
  expect_refused_line("y = torch.no_such(x)", "6:9", "PyTorch has no operator torch.no_such");
  expect_refused_line("y = (x).no_such()", "6:9", "a Tensor has no method no_such");
  expect_refused_line("y = self.no_such", "6:9", "__torch__.M has no attribute or method no_such");
  expect_refused_line("y = CONSTANTS.c9", "6:9", "the archive has no constant c9");
}

TEST(CompileErrors, WrongTypes) {
  expect_refused_line("y = torch.relu(\"text\")", "6:9", "is Tensor and gets a str");
  expect_refused_line("y : int = \"text\"", "6:5", "y is declared as an int");
  expect_refused_line("return 3", "6:5", "forward returns a Tensor, and this is an int");
  expect_refused_line("self.count = x", "6:5", "count is an int, and it gets a Tensor");
  expect_refused_line("y = [1, \"text\"]", "6:9", "the items of a list have one type");
}

TEST(CompileErrors, AVariableOfAnOuterBlockKeepsItsType) {
  const auto refused = [](const std::string& body, std::string_view where, std::string_view part) {
    expect_refused(module_with(method_with(body)), where, part);
  };
  refused("z = 'q'\nif c:\n  z = 3\n  z = 'a'\nreturn z", "8:7",
          "z is a str outside this block, and here it would become an int");
  refused("z = ''\nif o is not None:\n  o = 'a'\n  z = 'b'\nreturn z", "8:7",
          "o is an Optional[int] outside this block");
  refused("a = 1\nif c:\n  a = 0.5\nreturn ''", "8:7", "a is an int outside this block");
  refused("y : int = 3\nif c:\n  y : int = 4\nreturn ''", "8:7",
          "y was set outside this block, where its type is declared");
}

TEST(CompileErrors, WhatTheLiteInterpreterHasNot) {
  expect_refused_line("with torch.no_grad():\n    y = x", "6:5", "has no `with`",
                      Code::kUnsupported);
  expect_refused_line("def f(y: Tensor) -> Tensor:\n    return y", "6:5", "has no `fork`",
                      Code::kUnsupported);
  expect_refused_line("y = fork(x)", "6:9",
                      "has no fork. Export with forks_at_once (TENON_EMIT_FORKS_AT_ONCE in C)",
                      Code::kUnsupported);
}

TEST(CompileErrors, WhatIsRaised) {
  constexpr const char* kWhy = "PyTorch compiles no `raise` but that of AssertionError";
  for (const char* line :
       {"raise ValueError(\"a\")", "raise \"a\"", "raise torch.relu(x)", "raise x"})
    expect_refused_line(line, "6:11", kWhy);
}

TEST(CompileErrors, WhatIsNoValue) {
  expect_refused_line("y = torch.len(range(3))", "6:19", "range() is no value here");
  expect_refused_line("y = zip([1], [2])\n  z = y[0]", "7:9", "zip() is no value here");
  expect_refused_line("y = tuple([1])", "6:9", "how many items a List[int] has is not known here");
  expect_refused_line("y = dict([1])", "6:9", "dict() takes pairs");
  expect_refused_line("if bool(x):\n    r = range(3)\n  y = list(r)", "8:14",
                      "r is not set on every way");
}

TEST(CompileErrors, TheIndexOfATuple) {
  expect_refused_line("y = (1, \"a\")[torch.dim(x)]", "6:18",
                      "the items of this tuple have several types");
  expect_refused_line("y = (1, 2)[x]", "6:16", "the index of a tuple is an int");
}

TEST(CompileErrors, AFuture) {
  expect_refused(module_with("def forward(self, f: Future[int]) -> int:\n  return 3\n"), "5:7",
                 "has no Future, which __torch__.M.forward takes. Export with forks_at_once",
                 Code::kUnsupported);
  expect_refused(module_with("def forward(self, f: Future[int]) -> int:\n  return torch.wait(f)\n"),
                 "6:12", "has no wait. Export with forks_at_once", Code::kUnsupported);
}

TEST(CompileErrors, WhatAForkedFunctionCannotBe) {
  CompileOptions options;
  options.forks_at_once = true;
  const auto refused = [&](const std::string& body, std::string_view where, std::string_view part) {
    const Status status =
        compiled(module_with("def forward(self, x: Tensor) -> Tensor:\n" + body), options).status();
    EXPECT_EQ(place(status), where) << status.message();
    EXPECT_NE(status.message().find(part), std::string_view::npos) << status.message();
  };
  refused("  def f(y: Tensor):\n    return y\n  return x\n", "6:9",
          "a nested function takes no arguments");
  refused("  def f():\n    return x\n  return torch.wait(fork(f, x))\n", "8:23",
          "f takes no arguments");
  refused("  def f():\n    return x\n  x = torch.neg(x)\n  return torch.wait(fork(f))\n", "9:23",
          "f uses x, which was assigned again after it");
  refused("  if bool(x):\n    y = x\n    def f():\n      return y\n  return torch.wait(fork(f))\n",
          "10:28", "f is not set on every way that leads here");
  refused("  def f():\n    return zzz\n  return torch.wait(fork(f))\n", "7:14",
          "there is no variable zzz");
  refused("  def f():\n    return x\n  return f()\n", "8:12",
          "f is a nested function, which only fork calls");
  refused("  y = fork(3)\n  return x\n", "6:9", "this cannot be called");
  refused("  y = awaitable(torch.neg, x)\n  return x\n", "6:9", "has no awaitable");
}

TEST(CompileErrors, ObjectsOfClassesAndEnums) {
  expect_refused(
      "class C:\n  n : int\n  def __init__(self, n: int) -> NoneType:\n    self.n = n\n"
      "class M(Module):\n  def forward(self) -> int:\n    c = __torch__.C(3)\n    return c.n\n",
      "7:9", "makes no objects of classes", Code::kUnsupported);
  // PyTorch prints `with C():` in this way.
  expect_refused(
      "class C:\n  n : int\n  def __init__(self) -> NoneType:\n    self.n = 3\n"
      "class M(Module):\n  def forward(self) -> int:\n    _0 = __torch__.C.__new__(__torch__.C)\n  "
      "  with _0:\n      n = 3\n    return n\n",
      "7:10", "has no `with`", Code::kUnsupported);
  expect_refused(
      "class E(Enum):\n  A = 1\n"
      "class M(Module):\n  def forward(self) -> int:\n    return (__torch__.E.A).value\n",
      "5:13", "has no values of enums", Code::kUnsupported);
}

TEST(CompileErrors, AMethodThatCallsItself) {
  expect_refused(module_with("def forward(self, x: Tensor) -> Tensor:\n  return (self).other(x)\n"
                             "def other(self, x: Tensor) -> Tensor:\n  return (self).forward(x)\n"),
                 "5:7", "__torch__.M.forward calls itself", Code::kUnsupported);
}

TEST(CompileErrors, AWayWithoutAReturn) {
  expect_refused(module_with("def forward(self, n: int) -> int:\n  if torch.gt(n, 1):\n    return "
                             "n\n  else:\n    pass\n"),
                 "5:7", "does not return on every way");
}

TEST(CompileErrors, HooksOfTheRoot) {
  const std::string code =
      "class M(Module):\n"
      "  __forward_hooks__ = [\"after\", ]\n"
      "  def forward(self, x: Tensor) -> Tensor:\n"
      "    return torch.relu(x)\n"
      "  def after(self, input: Tuple[Tensor], output: Tensor) -> Tensor:\n"
      "    return output\n";
  expect_refused(code, "2:3", "call after in a method, or choose other methods",
                 Code::kUnsupported);
  CompileOptions options;
  options.methods = {"after"};
  EXPECT_TRUE(compiled(code, options).is_ok());
}

TEST(CompileErrors, AMethodOrARootThatIsNotThere) {
  const std::string code = module_with("def forward(self, x: Tensor) -> Tensor:\n  return x\n");
  CompileOptions options;
  options.methods = {"forward", "no_such"};
  Result<bytecode::Program> program = compiled(code, options);
  EXPECT_EQ(program.status().code(), Code::kNotFound);
  EXPECT_EQ(program.status().message(), "__torch__.M has no method no_such");
  program = compiled(code, {}, {}, "__torch__.N");
  EXPECT_EQ(program.status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace tenon::compile::test

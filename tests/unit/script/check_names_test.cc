// These tests check which names, attributes, methods and types the checker knows, and its errors
// for unknown ones.
#include <gtest/gtest.h>

#include "unit/script/check_kit.h"
#include "unit/script/script_support.h"

namespace tenon::script {
namespace {

void expect_body_taken(const std::string& body) {
  const Status status = check_code(method(body));
  EXPECT_TRUE(status.is_ok()) << body << "\n" << status.message();
}

void expect_body_refused(const std::string& body, const std::string& says) {
  const Status status = check_code(method(body));
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << body;
  EXPECT_NE(message(status).find(says), std::string::npos) << message(status);
}

TEST(CheckNames, AnErrorNamesLineColumnAndExcerpt) {
  const Status status = check_code(
      "class M(Module):\n  def forward(self, x: Tensor) -> Tensor:\n    return torch.reluu(x)\n");
  ASSERT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.detail("line"), "3");
  EXPECT_EQ(status.detail("column"), "18");
  EXPECT_NE(status.detail("excerpt").find("^^^^^"), std::string::npos) << status.detail("excerpt");
  EXPECT_NE(message(status).find("did you mean relu?"), std::string::npos) << message(status);
}

TEST(CheckNames, LocalNames) {
  expect_body_taken("y = x\nreturn y");
  expect_body_refused("value = x\nreturn valeu", "valeu is not defined; did you mean value?");
  expect_body_refused("return math", "math is not defined");
  expect_body_refused("del x\nreturn x", "x was deleted in line");
  expect_body_refused("return lenn(x)", "did you mean len?");
}

TEST(CheckNames, AttributesOfSelf) {
  expect_body_taken("return self.weight");
  expect_body_taken("self.count = 3\nreturn self.width");
  expect_body_taken("return getattr(self, \"weight\")");
  expect_body_refused("return self.wieght", "__torch__.M has no wieght; did you mean weight?");
  expect_body_refused("return getattr(self, \"wieght\")", "has no wieght");
  expect_body_refused("self.cuont = 3\nreturn x", "has no cuont");
  expect_body_refused("return self.count.foo", "an int has no attribute or method foo");
}

TEST(CheckNames, WhatInitSetsIsDeclared) {
  const std::string code =
      "class A:\n  def __init__(self, n: int) -> NoneType:\n    self.n = n\n    return None\n"
      "  def get(self) -> int:\n    return self.n\n  def miss(self) -> int:\n    return self.m\n";
  EXPECT_NE(message(check_code(code)).find("__torch__.A has no m"), std::string::npos);
}

TEST(CheckNames, AttributesOfValuesWhoseClassIsKnown) {
  expect_body_taken("return self.items[0].n");
  expect_body_taken("for item in self.items:\n  n = item.add(1)\nreturn x");
  expect_body_refused("return self.items[0].m", "__torch__.Item has no m");
  expect_body_refused("for item in self.items:\n  n = item.added(1)\nreturn x",
                      "__torch__.Item has no added");
  expect_body_taken("item = __torch__.Item(3)\nreturn item.add(1)");
  expect_body_taken(
      "item = __torch__.Item.__new__(__torch__.Item)\n_0 = (item).__init__(3, )\nreturn item.n");
  expect_body_refused("item = __torch__.Item(3)\nreturn item.relu()", "__torch__.Item has no relu");
  expect_body_refused("x.grad = x\nreturn x", "a Tensor has no attributes that can be set");
}

TEST(CheckNames, NamedTuplesAndEnums) {
  expect_body_taken("return __torch__.Pair(x, 3).left");
  expect_body_refused("return __torch__.Pair(x, 3).middle", "__torch__.Pair has no middle");
  expect_body_taken("return __torch__.Mode.ON.value");
  expect_body_refused("return __torch__.Mode.UP", "__torch__.Mode has no UP");
  expect_body_refused("return __torch__.Mode(1)", "does not call an enum's class");
}

TEST(CheckNames, Interfaces) {
  expect_body_taken("r = unchecked_cast(__torch__.Runs, x)\nreturn r.run(x)");
  expect_body_refused("r = unchecked_cast(__torch__.Runs, x)\nreturn r.walk(x)",
                      "__torch__.Runs has no walk");
  expect_body_refused("return __torch__.Runs(x)", "there is no function or class __torch__.Runs");
}

TEST(CheckNames, WhatIsNoValue) {
  expect_body_taken("f = torch.relu\nreturn f(x)");
  expect_body_refused("return torch.relu", "an operator is used as a value");
  expect_body_refused("return x.relu", "an operator is used as a value");
  expect_body_refused("return torch.add(x, __torch__.twice)", "a function is used as a value");
  expect_body_refused("return __torch__.Item", "a class is used as a value");
  expect_body_refused("return self.forward", "a method is used as a value");
  expect_body_refused("return torch", "a part of a name is used as a value");
  expect_body_refused("return torch.nn.functional.relu(x)", "torch.nn has no attributes");
}

TEST(CheckNames, RealAndImagAreAttributesOfATensor) {
  expect_body_taken("return x.real");
  expect_body_taken("return x.real.sum()");
  expect_body_taken("return torch.relu(x).imag.T");
  expect_body_taken("return torch.real(x)");
  expect_body_refused("return x.real()", "a Tensor cannot be called");
  expect_body_refused("return self.count.real", "an operator is used as a value");
  expect_body_refused("return self.count.T", "an int has no attribute or method T");
  expect_body_refused("return x.real.foo", "a Tensor has no attribute or method foo");
}

TEST(CheckNames, ResultsOfOperatorsHaveNames) {
  expect_body_taken("return torch.max(x, 1).values");
  expect_body_taken("return torch.max(x, 1).indices.sum()");
  expect_body_taken("r = x.sort()\nreturn torch.add(r.values, r.indices)");
  expect_body_taken("return torch.svd(x).U");
  expect_body_taken("return torch.aminmax(x).min");
  expect_body_taken("t = (x, 1)\nreturn torch.max(*t).values");
  expect_body_taken("return [torch.max(x, 1)][0].values");
  expect_body_taken(
      "if bool(x):\n  r = torch.max(x, 1)\nelse:\n  r = torch.min(x, 1)\nreturn r.values");
  expect_body_taken("return annotate(Tuple[Tensor, Tensor], torch.max(x, 1)).values");
  expect_body_refused("return torch.max(x, 1).U",
                      "a Tuple[Tensor, Tensor] has no attribute or method U");
  expect_body_refused("t = (x, x)\nreturn t.values", "an operator is used as a value");
  expect_body_refused("return torch.max(x, 1).valeus", "has no attribute or method valeus");
  expect_body_refused("return torch.max(x, 1).values.foo",
                      "a Tensor has no attribute or method foo");
  expect_body_refused("return torch.max(x, 1).values()", "a Tensor cannot be called");
  // The result is one Tensor, and `values` is an operator.
  expect_body_refused("return torch.max(x).values", "an operator is used as a value");
  // A value of unknown type may be such a result, or an object that has a method of this name.
  const std::string unknown = "a = torch.relu(*(x, ))\n";
  expect_body_taken(unknown + "return a.values");
  expect_body_taken(unknown + "v = a.values\nreturn v.sum()");
  expect_body_taken(unknown + "return a.max(1)");
  expect_body_refused(unknown + "return a.max(1, 2, 3)", "torch.max takes");
  expect_body_refused(unknown + "return a.relu", "an operator is used as a value");
}

TEST(CheckNames, WhatIsRaised) {
  expect_body_taken("raise AssertionError(\"a\")");
  expect_body_taken("raise AssertionError");
  expect_body_taken("raise AssertionError(\"a\", 3)");
  expect_body_taken("e = AssertionError(\"a\")\nraise e");
  expect_body_taken("e = AssertionError\nraise e(\"a\")");
  expect_body_refused("raise ValueError(\"a\")", "ValueError is not defined");
  for (const char* other :
       {"\"a\"", "3", "x", "(x, x)", "torch.relu(x)", "torch.relu", "__torch__.Item(3)", "print"})
    expect_body_refused(std::string("raise ") + other, "PyTorch raises AssertionError alone");
}

TEST(CheckNames, Types) {
  expect_body_taken("y = annotate(List[__torch__.Item], [])\nreturn y");
  expect_body_refused("y = annotate(List[__torch__.Itme], [])\nreturn y",
                      "there is no class __torch__.Itme");
  expect_body_refused("return isinstance(x, __torch__.Itme)", "there is no class __torch__.Itme");
  EXPECT_TRUE(
      check_code(method("return y",
                        "x: Tensor, y: __torch__.torch.classes.quantized.LinearPackedParamsBase"))
          .is_ok());
  EXPECT_FALSE(check_code(method("return y.unpak()",
                                 "y: __torch__.torch.classes.quantized.LinearPackedParamsBase"))
                   .is_ok());
  // The checker does not know the methods of a class that belongs to another library.
  EXPECT_TRUE(
      check_code(method("return y.unpak()", "y: __torch__.torch.classes.mine.Params")).is_ok());
}

TEST(CheckNames, Constants) {
  EXPECT_TRUE(check_code(method("return CONSTANTS.c1"), 2).is_ok());
  EXPECT_NE(message(check_code(method("return CONSTANTS.c2"), 2))
                .find("there is no constant c2: the archive has 2"),
            std::string::npos);
  EXPECT_FALSE(check_code(method("return CONSTANTS.d"), 2).is_ok());
}

TEST(CheckNames, ADefaultSeesNoParameter) {
  EXPECT_TRUE(check_code(method("return x", "x: Tensor, y: int=3")).is_ok());
  EXPECT_FALSE(check_code(method("return x", "x: Tensor, y: int=x")).is_ok());
}

TEST(CheckNames, NestedFunctions) {
  expect_body_taken("def f():\n  return torch.relu(x)\nreturn torch.wait(fork(f))");
  expect_body_refused("def f():\n  return torch.relu(z)\nreturn x", "z is not defined");
  expect_body_refused("def f():\n  y = x\n  return y\nreturn y",
                      "y is not set on every path: only in what has names of its own");
  expect_body_refused("def f():\n  return x\nreturn f()", "by fork only");
}

TEST(CheckNames, ReachableCodeAlone) {
  const Declarations declarations = declared(
      "class A(Module):\n  def forward(self, x: Tensor) -> Tensor:\n    return __torch__.f(x)\n"
      "def f(x: Tensor) -> Tensor:\n  return x\ndef broken(x: Tensor) -> Tensor:\n  return y\n");
  const std::string root = "__torch__.A";
  Uses uses;
  EXPECT_TRUE(check_reachable(declarations, {&root, 1}, {}, &uses).is_ok());
  EXPECT_TRUE(uses.functions.contains("__torch__.f"));
  const std::string both[] = {"__torch__.A", "__torch__.broken"};
  EXPECT_EQ(check_reachable(declarations, both, {}, nullptr).code(), Code::kInvalidArgument);
  const std::string none = "__torch__.B";
  EXPECT_EQ(check_reachable(declarations, {&none, 1}, {}, nullptr).code(), Code::kNotFound);
}

}  // namespace
}  // namespace tenon::script

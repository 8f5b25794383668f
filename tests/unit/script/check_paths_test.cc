// A name must be set on every path that reaches its use. These tests check how branches, loops,
// returns, and conditions that PyTorch decides affect that.
#include <gtest/gtest.h>

#include "unit/cpu_time.h"
#include "unit/script/check_kit.h"

namespace tenon::script {
namespace {

constexpr const char* kParameters = "x: Tensor, o: Optional[Tensor], n: int, t: Tuple[int, int], u";

bool taken(const std::string& body, const std::string& returns = "") {
  return check_code(method(body, kParameters, returns)).is_ok();
}

std::string says(const std::string& body, const std::string& returns = "") {
  return message(check_code(method(body, kParameters, returns)));
}

TEST(CheckPaths, Branches) {
  EXPECT_TRUE(taken("if n > 3:\n  y = x\nelse:\n  y = u\nreturn y"));
  EXPECT_NE(says("if n > 3:\n  y = x\nreturn y")
                .find("y is not set on every path: not where the condition is false in line"),
            std::string::npos);
  EXPECT_NE(
      says("if n > 3:\n  pass\nelse:\n  y = x\nreturn y").find("not where the condition is true"),
      std::string::npos);
  EXPECT_TRUE(taken("y = x\nif n > 3:\n  y = u\nreturn y"));
  EXPECT_FALSE(taken("y = x\nif n > 3:\n  del y\nreturn y"));
  EXPECT_TRUE(taken("if n > 3:\n  y = x\nelif n > 2:\n  y = u\nelse:\n  y = x\nreturn y"));
  EXPECT_FALSE(taken("if n > 3:\n  y = x\nelif n > 2:\n  z = u\nelse:\n  y = x\nreturn y"));
}

TEST(CheckPaths, BranchesThatEnd) {
  EXPECT_TRUE(taken("if n > 3:\n  return x\nelse:\n  y = x\nreturn y"));
  EXPECT_TRUE(taken("if n > 3:\n  y = x\nelse:\n  raise AssertionError(\"a\")\nreturn y"));
  EXPECT_TRUE(taken("if n > 3:\n  y = x\nelse:\n  assert False\nreturn y"));
  // PyTorch treats an operator that raises as any other operator, and goes on after it.
  EXPECT_FALSE(taken("if n > 3:\n  y = x\nelse:\n  ops.prim.RaiseException(\"a\")\nreturn y"));
  EXPECT_TRUE(taken("return x\nreturn z"));
  EXPECT_FALSE(taken("ops.prim.RaiseException(\"a\")\nreturn z"));
}

TEST(CheckPaths, Loops) {
  EXPECT_NE(
      says("for i in range(n):\n  y = x\nreturn y").find("only in the loop, which may never run"),
      std::string::npos);
  EXPECT_FALSE(taken("for i in range(n):\n  y = x\nreturn i"));
  EXPECT_FALSE(taken("while n > 3:\n  y = x\nreturn y"));
  EXPECT_FALSE(
      taken("for i in range(n):\n  if n > 3:\n    break\n  else:\n    y = x\n  z = y\nreturn x"));
  EXPECT_FALSE(taken("for i in zip([1], [2]):\n  y = x\nreturn y"));
  // PyTorch unrolls a loop over a tuple, so its body is no block of its own.
  EXPECT_TRUE(taken("for i in (1, 2):\n  y = x\nreturn y"));
  EXPECT_TRUE(taken("for i in t:\n  y = x\nreturn y"));
  EXPECT_TRUE(taken("for i in ():\n  y = z\nreturn x"));
  EXPECT_FALSE(taken("z = [i for i in range(n)]\nreturn i"));
}

TEST(CheckPaths, ConditionsThatPyTorchDecides) {
  EXPECT_TRUE(taken("if True:\n  y = x\nreturn y"));
  EXPECT_TRUE(taken("if False:\n  y = z\nreturn x"));
  EXPECT_TRUE(taken("if x is None:\n  y = z\nreturn x"));
  EXPECT_TRUE(taken("if x is not None:\n  y = x\nreturn y"));
  EXPECT_TRUE(taken("if self.bias is not None:\n  y = z\nreturn x"));
  EXPECT_FALSE(taken("if o is None:\n  y = z\nreturn x"));
  EXPECT_FALSE(taken("if o is not None:\n  y = x\nreturn y"));
  // After the first test PyTorch knows more about o than was declared.
  EXPECT_TRUE(taken("if o is not None:\n  if o is None:\n    y = z\nreturn x"));
  EXPECT_TRUE(taken("if n > 3 and x is None:\n  y = z\nreturn x"));
  EXPECT_FALSE(taken("if n > 3 and z:\n  y = x\nreturn x"));
  EXPECT_TRUE(taken("if isinstance(x, int):\n  y = z\nreturn x"));
  EXPECT_FALSE(taken("if isinstance(x, Tensor):\n  y = z\nreturn x"));
  EXPECT_TRUE(taken("y = torch.relu(x)\nif y is None:\n  return z\nreturn x"));
  EXPECT_TRUE(taken("y = z if False else x\nreturn y"));
  EXPECT_TRUE(taken("assert x is None\nreturn z"));
  EXPECT_FALSE(taken("assert n > 3\nreturn z"));
}

TEST(CheckPaths, WithAndItsObject) {
  EXPECT_NE(says("with x:\n  y = x\nreturn y").find("`with` needs an object"), std::string::npos);
  EXPECT_NE(
      says("with __torch__.Item(3):\n  y = x\nreturn y").find("has no __enter__ and __exit__"),
      std::string::npos);
}

TEST(CheckPaths, WhatIsReturned) {
  EXPECT_TRUE(taken("if n > 3:\n  return x\nelse:\n  return u", "Tensor"));
  EXPECT_NE(says("if n > 3:\n  return x", "Tensor").find("does not return on every path"),
            std::string::npos);
  EXPECT_FALSE(taken("while n > 3:\n  return x", "Tensor"));
  EXPECT_TRUE(taken("raise AssertionError(\"a\")", "Tensor"));
  EXPECT_FALSE(taken("return", "Tensor"));
  EXPECT_FALSE(taken("return None", "Tensor"));
  EXPECT_TRUE(taken("return None", "Optional[Tensor]"));
  EXPECT_FALSE(taken("return x, x", "Tuple[Tensor, Tensor, Tensor]"));
  EXPECT_FALSE(taken("return x, x", "Tensor"));
  EXPECT_FALSE(taken("return 1", "Tensor"));
  EXPECT_FALSE(taken("return x", "Tuple[Tensor]"));
  EXPECT_TRUE(taken("return u", "Tensor"));
}

TEST(CheckPaths, Unpacking) {
  EXPECT_TRUE(taken("a, b = t\nreturn a"));
  EXPECT_NE(says("a, b, c = t\nreturn a").find("2 values are unpacked into 3 names"),
            std::string::npos);
  EXPECT_FALSE(taken("a, b = (x, x, x)\nreturn a"));
  EXPECT_TRUE(taken("a, *b = (x, x, x)\nreturn a"));
}

// Twice the code takes about twice the time, with many names and with nested branches.
TEST(CheckPaths, TimeIsLinear) {
  const auto seconds = [](int count) {
    std::string body;
    for (int i = 0; i < count; ++i) {
      const std::string name = "v" + std::to_string(i);
      body += name + " = torch.relu(x)\nif n > " + std::to_string(i) + ":\n  " + name +
              " = torch.neg(" + name + ")\nelse:\n  w = " + name + "\n";
    }
    const std::string code = method(body + "return x", kParameters);
    const double begin = cpu_seconds();
    EXPECT_EQ(message(check_code(code)), "taken");
    return cpu_seconds() - begin;
  };
  seconds(100);
  const double once = seconds(2000);
  EXPECT_LT(seconds(8000), 16 * once + 0.5);
}

}  // namespace
}  // namespace tenon::script

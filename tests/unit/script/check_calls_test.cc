// These tests check calls of operators, methods, functions and constructors: the number of
// arguments and their keywords.
#include <gtest/gtest.h>

#include "modules/script/requirements.h"
#include "unit/script/check_kit.h"

namespace tenon::script {
namespace {

void expect_value_taken(const std::string& value) {
  const Status status = check_code(method("return " + value));
  EXPECT_TRUE(status.is_ok()) << value << "\n" << status.message();
}

void expect_value_refused(const std::string& value, const std::string& says) {
  const Status status = check_code(method("return " + value));
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << value;
  EXPECT_NE(message(status).find(says), std::string::npos) << message(status);
}

TEST(CheckCalls, Operators) {
  expect_value_taken("torch.relu(x)");
  expect_value_taken("torch.relu(input=x)");
  expect_value_taken("torch.autograd.grad([x], [x])");
  expect_value_taken("ops.aten.relu(x)");
  expect_value_taken("torch.zeros(2, 3, dtype=6)");
  expect_value_taken("x.view(2, 3)");
  expect_value_taken("torch._single(3)");
  expect_value_taken("torch.add(x, 1, out=x)");
  expect_value_refused("torch.relu(x, x, x)",
                       "torch.relu takes (self), (self, *, out), and gets 3 positional arguments");
  expect_value_refused("torch.relu()", "gets 0 positional arguments");
  expect_value_refused("x.relu(1, 2)", "gets self, 2 positional arguments");
  expect_value_refused("torch.zeros(2, dtyp=6)", "and dtyp=");
  expect_value_refused("torch.add(x, 1, alpha=1, alpha=2)", "torch.add takes");
  expect_value_refused("torch.adaptive_avg_pool2d(x, 1, 1, 1)", "torch.adaptive_avg_pool2d takes");
  expect_value_refused("ops.quantized.linnear(x)",
                       "PyTorch has no operator ops.quantized.linnear; did you mean linear?");
  expect_value_refused("x.reluu()",
                       "a Tensor has no attribute or method reluu; did you mean relu?");
  expect_value_refused("x.is_cuda()", "a bool cannot be called");
}

TEST(CheckCalls, StarredArguments) {
  expect_value_taken("torch.add(*(x, 1))");
  expect_value_taken("__torch__.twice(*(x, 1.))");
  expect_value_refused("torch.relu(*(x,), wrong=1)", "at least 0 positional arguments and wrong=");
}

TEST(CheckCalls, FunctionsMethodsConstructors) {
  expect_value_taken("__torch__.twice(x)");
  expect_value_taken("__torch__.twice(by=3., x=x)");
  expect_value_refused("__torch__.twice()",
                       "twice takes (x, by=), and gets 0 positional arguments");
  expect_value_refused("__torch__.twice(x, 1., 2.)", "gets 3 positional arguments");
  expect_value_refused("__torch__.twice(x, wrong=1.)", "wrong=");
  expect_value_refused("__torch__.thrice(x)", "there is no function or class __torch__.thrice");
  expect_value_refused("twice(x)", "twice is not defined");
  expect_value_taken("self.items[0].add(1, times=2)");
  expect_value_refused("self.items[0].add()", "add takes (by, times=)");
  expect_value_taken("__torch__.Item(3).n");
  expect_value_refused("__torch__.Item().n", "__init__ takes (n)");
  expect_value_taken("__torch__.Pair(x, right=3)");
  expect_value_refused("__torch__.Pair(x)", "__torch__.Pair takes (left, right)");
  expect_value_refused("self.forward(x)", "forward calls itself");
  expect_value_refused("self(x)", "__torch__.M has no __call__");
  expect_value_refused("self.count(3)", "an int cannot be called");
}

TEST(CheckCalls, Builtins) {
  expect_value_taken("len([1])");
  expect_value_taken("isinstance(x, (int, Tensor))");
  expect_value_taken("hasattr(self, \"weight\")");
  expect_value_taken("getattr(self, \"none\", 3)");
  expect_value_refused("print(x, end=3)", "print takes no keywords");
  expect_value_refused("annotate(int)", "annotate takes 2 arguments");
  expect_value_refused("uninitialized(int, 3)", "uninitialized takes 1 arguments");
  expect_value_refused("getattr(self, x)", "a string that stands there");
  expect_value_refused("isinstance(x)", "isinstance takes a value and its types");
  expect_value_refused("len(__torch__.Item(3))", "__torch__.Item has no __len__");
  expect_value_refused("divmod(1, 2, 3)", "divmod takes other arguments");
}

TEST(CheckCalls, ALibrarysOperatorsAreTaken) {
  Uses uses;
  EXPECT_TRUE(
      check_code(method("return ops.torchvision.nms(x, x, 0.5).whatever()"), 0, &uses).is_ok());
  EXPECT_EQ(requirements(uses).foreign_namespaces, std::vector<std::string>{"torchvision"});
}

TEST(CheckCalls, OperatorsOfTheFutureOnRequest) {
  CheckOptions options;
  EXPECT_FALSE(check_code(method("return torch.not_yet(x)")).is_ok());
  options.unknown_operators = true;
  EXPECT_TRUE(check_code(method("return torch.not_yet(x)"), 0, nullptr, options).is_ok());
}

TEST(CheckCalls, OldFormsOfOperatorsInOldArchives) {
  CheckOptions options;
  EXPECT_FALSE(check_code(method("return torch.linspace(0., 1.)")).is_ok());
  options.archive_version = 3;
  EXPECT_TRUE(check_code(method("return torch.linspace(0., 1.)"), 0, nullptr, options).is_ok());
}

TEST(CheckCalls, WhatAProgramNeeds) {
  Uses uses;
  ASSERT_TRUE(check_code(method("y = torch.relu(x)\nz = torch.scaled_dot_product_attention(y, y, "
                                "y)\nreturn torch.full([2], 3) / z"),
                         0, &uses)
                  .is_ok());
  const Requirements needs = requirements(uses);
  EXPECT_EQ(needs.oldest_torch, "2.2");
  EXPECT_EQ(needs.because_of, "aten::scaled_dot_product_attention");
  EXPECT_EQ(needs.newest_torch, "");
  EXPECT_EQ(needs.versioned_operators, (std::vector<std::string>{"aten::div", "aten::full"}));
  Uses of_old;
  ASSERT_TRUE(check_code(method("return torch.relu(x)"), 0, &of_old).is_ok());
  EXPECT_EQ(requirements(of_old).oldest_torch, "1.4");
  EXPECT_EQ(requirements(of_old).because_of, "");
  Uses of_gone;
  ASSERT_TRUE(check_code(method("return torch.symeig(x)"), 0, &of_gone).is_ok());
  EXPECT_EQ(requirements(of_gone).newest_torch, "1.13");
}

TEST(CheckCalls, WhatOneVersionRefusesIsListed) {
  const auto lines_of = [](const std::string& body, int64_t version = 10) {
    Uses uses;
    CheckOptions options;
    options.archive_version = version;
    EXPECT_TRUE(check_code(method(body + "\nreturn x"), 0, &uses, options).is_ok()) << body;
    return partly_refused_lines(uses);
  };
  using Lines = std::vector<std::string>;
  const std::string newest(SchemaTable::get().versions().back());
  EXPECT_EQ(lines_of("y = torch.relu(x)"), Lines());
  EXPECT_EQ(lines_of("y = torch.scaled_dot_product_attention(x, x, x)\nz = "
                     "torch.scaled_dot_product_attention(x, x, x)"),
            Lines{"PyTorch 1.13 refuses torch.scaled_dot_product_attention, and PyTorch 2.2 has "
                  "it, in code/__torch__.py:26:9 and 1 more"});
  EXPECT_EQ(lines_of("y = torch.symeig(x)"),
            Lines{"PyTorch " + newest +
                  " refuses torch.symeig, and PyTorch 1.13 has it, in code/__torch__.py:26:9"});
  EXPECT_EQ(lines_of("y = torch.mean(x, dtype=6)"), Lines());
  EXPECT_EQ(lines_of("y = torch.squeeze(x, [0, 1])"),
            Lines{"PyTorch 1.13 refuses torch.squeeze with operands of such types, and PyTorch " +
                  newest + " takes them, in code/__torch__.py:26:9"});
  EXPECT_EQ(lines_of("y = torch._sparse_mm(x, x, \"sum\")"),
            Lines{"PyTorch 1.13 refuses torch._sparse_mm with such arguments, and PyTorch 2.2 "
                  "takes them, in code/__torch__.py:26:9"});
  // An operator of an old archive is upgraded.
  EXPECT_EQ(lines_of("y = torch.linspace(0., 1.)", 3), Lines());
  // PyTorch leaves this branch out.
  EXPECT_EQ(lines_of("if False:\n  y = torch.symeig(x)"), Lines());
}

TEST(CheckCalls, WhatTheNewestRefusesIsRefusedIfItDecides) {
  CheckOptions options;
  options.newest_decides = true;
  const std::string newest(SchemaTable::get().versions().back());
  const auto message_of = [&](const std::string& body) {
    return check_code(method(body + "\nreturn x"), 0, nullptr, options).message();
  };
  EXPECT_EQ(message_of("y = torch.scaled_dot_product_attention(x, x, x)"), "");
  const std::string refused = message_of("y = torch.symeig(x)");
  EXPECT_NE(refused.find("PyTorch " + newest +
                         " refuses torch.symeig, and PyTorch 1.13 has it. If the module is for the "
                         "older PyTorch alone, export it without "
                         "the check"),
            std::string::npos)
      << refused;
  // PyTorch leaves this branch out.
  EXPECT_EQ(message_of("if False:\n  y = torch.symeig(x)"), "");
}

TEST(CheckCalls, OperatorsOfAGraphAloneAreRefusedByName) {
  for (const char* name : {"ConstantMKLDNNTensor()", "FusionGroup(x)", "TensorExprGroup(x)",
                           "MKLDNNHardTanh(x)", "ConstantChunk(x)", "BroadcastMKLDNNTensors(x, x)",
                           "profile(x)", "PythonOp(x)", "DifferentiableGraph(x)"}) {
    const Status status = check_code(method("y = ops.prim." + std::string(name) + "\nreturn x"));
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << name;
    EXPECT_NE(status.message().find("exists in an optimised graph alone"), std::string::npos)
        << status.message();
    EXPECT_NE(status.message().find("before optimize_for_inference"), std::string::npos)
        << status.message();
  }
  // These operators read no attribute.
  EXPECT_EQ(message(check_code(method("return ops.prim.AutogradAllNonZero(x)"))), "taken");
  EXPECT_EQ(message(check_code(method("return ops.prim.MKLDNNScalarMul(x, 2)"))), "taken");
}

// Returns the operators of the method whose meaning depends on the version, such as "div full".
std::string versioned(const std::string& body,
                      const std::string& parameters = "x: Tensor, k: int, f: float") {
  Uses uses;
  CheckOptions options;
  options.archive_version = 3;
  const Status status = check_code(method(body, parameters), 0, &uses, options);
  EXPECT_TRUE(status.is_ok()) << body << ": " << status.message();
  std::string names;
  for (const std::string& name : uses.versioned_operators)
    names += (names.empty() ? "" : " ") + name.substr(6);
  return names;
}

TEST(CheckCalls, DivisionsOfNumbersMeanTheSameInEveryVersion) {
  for (const char* body : {
           "return torch.mul(x, torch.div(1., float(k)))",
           "return torch.add(x, k / 2)",
           "return torch.add(x, self.count / 7 // 2)",
           "n = torch.size(x, 0)\nreturn torch.mul(x, n / k)",
           "a, b = torch.size(x)\nreturn torch.mul(x, torch.div(a, b))",
           "return torch.mul(x, torch.size(x)[-1] / 2)",
           "return torch.mul(x, torch.sqrt(torch.div(torch.mul(k, 2), torch.len(x))))",
           "return torch.mul(x, torch.item(x) / k)",
           "s = 0\nfor i in range(k):\n  s = torch.add(s, int(torch.div(i, 2)))\nreturn "
           "torch.add(x, s)",
           "q = [i / 2 for i in range(k)]\nreturn torch.mul(x, q[0])",
           "f /= k\nreturn torch.mul(x, f)",
           "if bool(k):\n  y = k\nelse:\n  y = 2\nreturn torch.mul(x, y / 2)",
           "return torch.mul(x, max(k, 2) / min(k, 3))",
           "return torch.mul(x, __torch__.Item(k).add(1) / 2)",
           "n = x.shape\nreturn torch.mul(x, n[0] / n[1])",
           "return torch.mul(x, inf / k)",
       }) {
    EXPECT_EQ(versioned(body), "") << body;
  }
}

TEST(CheckCalls, DivisionsThatCanBeOfTensorsDependOnTheVersion) {
  for (const char* body : {
           "return torch.div(x, k)",
           "return torch.div(k, x)",
           "return x / 2",
           "return x.div(2)",
           "return torch.div(input=x, other=k)",
           "return torch.relu(x) / k",
           "y = torch.mul(x, 2)\nreturn torch.div(y, k)",
           "return torch.div(torch.tensor(k), 2)",
           "y = [x, x]\nreturn y[0] / k",
           "return self.weight / k",
           "return __torch__.twice(x) / k",
           "if bool(k):\n  y = x\nelse:\n  y = self.weight\nreturn y / 2",
           "if k is None:\n  y = x\nelse:\n  y = x\nreturn y / 2",
           "y = annotate(Optional[Tensor], x)\nreturn unchecked_cast(Tensor, y) / 2",
           "return getattr(x, \"real\", x).div(k)",
       }) {
    EXPECT_EQ(versioned(body), "div") << body;
  }
  EXPECT_EQ(versioned("x /= k\nreturn x"), "div_");
  EXPECT_EQ(versioned("return x.div_(k)"), "div_");
  EXPECT_EQ(versioned("y = k\ny /= 2\nreturn torch.mul(x, y)"), "");
}

TEST(CheckCalls, DivisionsThatSayHowToRoundMeanTheSameInEveryVersion) {
  EXPECT_EQ(versioned("return torch.div(x, k, rounding_mode=\"trunc\")"), "");
  EXPECT_EQ(versioned("return x.div_(k, rounding_mode=\"floor\")"), "");
  EXPECT_EQ(versioned("return torch.div(x, f)"), "");
  EXPECT_EQ(versioned("return x / 2."), "");
  EXPECT_EQ(versioned("x /= f\nreturn x"), "");
}

TEST(CheckCalls, OtherOperatorsCountByTheirOperandsToo) {
  EXPECT_EQ(versioned("return torch.full([2], 3)"), "full");
  EXPECT_EQ(versioned("return torch.full([2], 3, dtype=None)"), "full");
  EXPECT_EQ(versioned("return torch.full([2], k)"), "full");
  EXPECT_EQ(versioned("return torch.full([2], 3.)"), "");
  EXPECT_EQ(versioned("return torch.full([2], f)"), "");
  EXPECT_EQ(versioned("return torch.full([2], 3, dtype=4)"), "");
  EXPECT_EQ(versioned("return torch.full([2], 3, out=x)"), "");
  EXPECT_EQ(versioned("return torch.linspace(0., 1.)"), "linspace");
  EXPECT_EQ(versioned("return torch.linspace(0., 1., None)"), "linspace");
  EXPECT_EQ(versioned("return torch.linspace(0., 1., 100)"), "");
  EXPECT_EQ(versioned("return torch.linspace(0., 1., steps=k)"), "");
  EXPECT_EQ(versioned("return torch.logspace(0., 1.)"), "logspace");
  EXPECT_EQ(versioned("return torch.logspace(0., 1., k, 2.)"), "");
  EXPECT_EQ(versioned("return torch.gelu(x)"), "");
  EXPECT_EQ(versioned("return torch.gelu(x, approximate=\"tanh\")"), "gelu");
}

}  // namespace
}  // namespace tenon::script

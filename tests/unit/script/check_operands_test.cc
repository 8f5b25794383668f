// These tests check operands of a wrong type: what is refused and where, what PyTorch converts, and
// which types the checker cannot know.
#include <gtest/gtest.h>

#include "modules/script/operand_types.h"
#include "unit/script/check_kit.h"
#include "unit/script/script_support.h"

namespace tenon::script {
namespace {

constexpr const char* kOperandParameters =
    "x: Tensor, n: int, p: float, b: bool, s: str, o: Optional[Tensor], xs: List[Tensor], ns: "
    "List[int], a: Any, e: __torch__.Mode, u: "
    "Union[int, str]";

void expect_operand_taken(const std::string& body) {
  const Status status = check_code(method(body + "\nreturn x", kOperandParameters));
  EXPECT_TRUE(status.is_ok()) << body << "\n" << status.message();
}

void expect_operand_refused(const std::string& body, const std::string& says) {
  const Status status = check_code(method(body + "\nreturn x", kOperandParameters));
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << body;
  EXPECT_NE(message(status).find(says), std::string::npos) << message(status);
}

TEST(CheckOperands, TheErrorStandsAtTheOperand) {
  const Status status = check_code(method("return torch.add(\"a\", x)"));
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  const std::string text = message(status);
  EXPECT_NE(text.find("torch.add takes a Tensor as self, and gets a str"), std::string::npos)
      << text;
  EXPECT_NE(text.find("(Tensor self, Tensor other, *, number alpha=1)"), std::string::npos) << text;
  EXPECT_FALSE(status.detail("line").empty());
  EXPECT_NE(status.detail("excerpt").find("^^^"), std::string::npos);
  expect_operand_refused("y = s.relu()", "torch.relu takes a Tensor as self, and gets a str");
  expect_operand_refused("y = torch.unsqueeze(x, dim=\"a\")", "as dim, and gets a str");
}

TEST(CheckOperands, ARemedyIsNamed) {
  expect_operand_refused("y = torch.dropout(x, 1, False)",
                         "torch.dropout takes a float as p, and gets an int. Write float(...)");
  expect_operand_refused("y = torch.unsqueeze(x, 1.5)", "Write int(...)");
  expect_operand_refused("y = torch.dropout(x, 0.5, x)", "Write bool(...)");
  expect_operand_refused("y = torch.relu(o)", "gets an Optional[Tensor]. Test it first");
  expect_operand_refused("y = torch.zeros([2], dtype=\"float32\")", "6 is float32");
  expect_operand_refused("y = torch.relu(None)", "and gets None");
}

TEST(CheckOperands, WhatPyTorchConverts) {
  // A Tensor of one element can serve as a number.
  expect_operand_taken("y = torch.dropout(x, x, False)");
  // The newest PyTorch makes an int of a bool.
  expect_operand_taken("y = torch.unsqueeze(x, True)");
  expect_operand_taken("y = torch.avg_pool2d(x, 2)");      // one int is an int[2]
  expect_operand_taken("y = torch.reshape(x, (2, 3))");    // a tuple is a list
  expect_operand_taken("y = torch.zeros(2, n, dtype=6)");  // the remaining arguments are a list
  expect_operand_taken("y = torch.zeros([2], device=\"cpu\")");  // a str is a Device
  expect_operand_taken("y = torch.cat([])");
  expect_operand_taken("y = torch.cat((x, x))");
  expect_operand_taken("y = torch.linear(x, x, None)");
  expect_operand_taken("y = torch.linear(x, x, o)");
  expect_operand_taken("y = torch.add(2, x)");  // PyTorch has this operator as source
  expect_operand_taken("y = torch.index(x, [x, None])");
  expect_operand_refused("y = torch.avg_pool2d(x, p)",
                         "torch.avg_pool2d takes a List[int] as kernel_size, and gets a float");
  expect_operand_refused("y = torch.reshape(x, (2, 3.5))", "gets a Tuple[int, float]");
  expect_operand_refused("y = torch.zeros(2, 3.5)", "takes an int as size, and gets a float");
  expect_operand_refused("y = torch.cat(ns)", "and gets a List[int]");
  expect_operand_refused("y = torch.cat({\"a\": x})", "and gets a Dict[str, Tensor]");
}

TEST(CheckOperands, TypeVariables) {
  expect_operand_taken("ns.append(3)");
  expect_operand_taken("xs.append(torch.relu(x))");
  expect_operand_refused("ns.append(x)", "torch.append takes a t as el, and gets a Tensor");
  expect_operand_refused("ns.append(o)", "and gets an Optional[Tensor]");
  expect_operand_taken("y = torch.__is__(x, None)");
  expect_operand_taken("y = torch.len((1, 2.5))");
}

TEST(CheckOperands, TypesComeOutOfCallsToo) {
  expect_operand_refused("y = torch.relu(x)\nz = torch.dropout(x, 0.5, y)", "gets a Tensor");
  expect_operand_refused("z = torch.relu(torch.size(x, 0))", "gets an int");
  expect_operand_refused("z = torch.relu(x.shape)", "gets a List[int]");
  expect_operand_refused("for i in range(3):\n  z = torch.relu(i)", "gets an int");
  expect_operand_refused("z = torch.relu(n + 1)", "gets an int");
  expect_operand_refused("z = torch.relu(-p)", "gets a float");
  expect_operand_refused("z = torch.relu(not b)", "gets a bool");
  expect_operand_refused("z = torch.relu([x, x])", "gets a List[Tensor]");
  expect_operand_refused("z = torch.unsqueeze(x, inf)", "gets a float");
  expect_operand_taken("z = torch.relu(x * 2 + x)");
  expect_operand_taken("y, z = torch.max(x, 1)\nw = torch.relu(y)");
  expect_operand_refused("y = hex(s)", "hex takes an int as i, and gets a str");
  expect_operand_taken("y = len(ns) + len(s) + len([1])");
}

TEST(CheckOperands, WhatNobodyKnowsIsTaken) {
  expect_operand_taken("if o is not None:\n  y = torch.relu(o)");
  expect_operand_taken("assert o is not None\ny = torch.relu(o)");
  expect_operand_taken("if isinstance(a, Tensor):\n  y = torch.relu(a)");
  expect_operand_taken("y = torch.relu(ops.mine.make(x))");
  expect_operand_taken("y = torch.relu(*(x,))");
  expect_operand_taken("y = torch.relu(unchecked_cast(Tensor, o))");
  expect_operand_taken("if isinstance(u, int):\n  y = torch.unsqueeze(x, u)");
  expect_operand_refused("y = torch.relu(a)", "gets an Any");
  expect_operand_refused("y = torch.relu(e)", "gets a __torch__.Mode");
}

TEST(CheckOperands, CodeThatPyTorchLeavesOutIsNotLookedAt) {
  expect_operand_taken("if False:\n  y = torch.relu(s)");
  expect_operand_taken("if x is None:\n  y = torch.relu(s)");
}

TEST(CheckOperands, OlderArchivesMayMeanAnotherOperator) {
  const std::string code = method("return torch.div(x, \"a\")");
  EXPECT_NE(message(check_code(code)).find("torch.div takes"), std::string::npos);
  CheckOptions options;
  options.archive_version = 3;
  EXPECT_EQ(message(check_code(code, 0, nullptr, options)), "taken");
}

TEST(CheckOperands, TypesOfAnySizeTakeBoundedTime) {
  std::string body = "t = (x, x)\n";
  for (int i = 0; i < 40; ++i) body += "t = (t, t)\nl = [t, t]\n";
  for (int i = 0; i < 2000; ++i) body += "y = torch.len(l)\n";
  expect_operand_taken(body + "y = torch.relu(x)");
}

}  // namespace
}  // namespace tenon::script

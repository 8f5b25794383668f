// These tests print parsed code. The result has PyTorch's layout.
#include "modules/script/printer.h"

#include "unit/script/script_support.h"

namespace tenon::script {
namespace {

using namespace test;

std::string reprinted(const std::string& text) {
  const auto file = parsed(text);
  if (!file) return "";
  std::string all;
  for (const Item& item : file->items()) all += print(item);
  const auto again = parsed(all);
  if (!again || again->items().size() != file->items().size()) return "not parsed again: " + all;
  for (size_t i = 0; i < again->items().size(); ++i) {
    const Item& a = file->items()[i];
    const Item& b = again->items()[i];
    if (a.function != nullptr) EXPECT_TRUE(equal(*a.function, *b.function)) << all;
    if (a.class_def != nullptr) EXPECT_TRUE(equal(*a.class_def, *b.class_def)) << all;
  }
  return all;
}

TEST(Printer, PrintsPyTorchsLayoutAsItStands) {
  const std::string text =
      "class N(Module):\n"
      "  __parameters__ = [\"w\"]\n"
      "  __annotations__[\"0\"] = int\n"
      "  w : Tensor\n"
      "  k : Final[int] = 4\n"
      "  def forward(s: __torch__.N,\n"
      "    x: Tensor,\n"
      "    n: int=2) -> Tensor:\n"
      "    a, b, = torch.f(x, alpha=1)\n"
      "    if bool(a):\n"
      "      c = a\n"
      "    elif b:\n"
      "      c = b\n"
      "    else:\n"
      "      pass\n"
      "    for _1 in range(n):\n"
      "      c = [1, -2]\n"
      "    return (c, {\"k\": 1.5})\n"
      "def f(x,\n"
      "    *, y: int) -> Tuple[()]:\n"
      "  # type: (int, int) -> int\n"
      "  return\n";
  EXPECT_EQ(reprinted(text), text);
}

TEST(Printer, OtherLayoutsComeOutTheSame) {
  EXPECT_EQ(reprinted("def f(x): return x\n"), "def f(x):\n  return x\n");
  EXPECT_EQ(reprinted("def f(x):\n     return (  x+1 ,\n y )\n"),
            "def f(x):\n  return (x + 1, y)\n");
  EXPECT_EQ(reprinted("op_version_set = 3\nimport a . b\ndef f(): pass\n"),
            "op_version_set = 3\nimport a . b\ndef f():\n  pass\n");
  EXPECT_EQ(reprinted("import\ndef f(): pass\n"), "import\ndef f():\n  pass\n");
  EXPECT_EQ(reprinted("def f():\n  for in x:\n    with:\n      x : int += 1\n"),
            "def f():\n  for in x:\n    with:\n      x : int += 1\n");
}

TEST(Printer, OperandsHaveParentheses) {
  EXPECT_EQ(printed_expression("a.b(c)[d] + -e"), "a.b(c)[d] + (-e)");
  EXPECT_EQ(printed_expression("(a if b else c).d"), "(a if b else c).d");
  EXPECT_EQ(printed_expression("1 .a"), "(1).a");
  EXPECT_EQ(printed_expression("(-1).a"), "(-1).a");
  EXPECT_EQ(printed_expression("- -1"), "-(-1)");
  EXPECT_EQ(printed_expression("... .a"), "(...).a");
  EXPECT_EQ(printed_expression("Ellipsis"), "...");
  EXPECT_EQ(printed_expression("(a,)"), "(a,)");
  EXPECT_EQ(printed_expression("a[(b, c)]"), "a[(b, c)]");
  EXPECT_EQ(printed_expression("a[b:c:]"), "a[b:c]");
  EXPECT_EQ(printed_expression("f(*(a + b), c=*d)"), "f(*(a + b), c=*d)");
}

// `not in` and `is not` are recognised even where they begin a longer word. The printer adds
// parentheses there.
TEST(Printer, WordsThatWouldJoin) {
  EXPECT_EQ(printed_expression("not  inside"), "not (inside)");
  EXPECT_EQ(printed_expression("not (inside.x)"), "not (inside.x)");
  EXPECT_EQ(printed_expression("a is  nothing"), "a is (nothing)");
  EXPECT_EQ(printed_expression("a is  not b"), "a is (not b)");
  for (const char* text :
       {"not  inside", "a is  nothing", "a is  not b", "not  not a", "a is not  not b"}) {
    const auto first = parsed_expression(text);
    const auto second = parsed_expression(print(first->expr()));
    EXPECT_TRUE(equal(&first->expr(), &second->expr())) << text;
  }
}

TEST(Printer, Strings) {
  EXPECT_EQ(quoted("a'b\"c\\"), "\"a'b\\\"c\\\\\"");
  EXPECT_EQ(quoted("\n\t\a\b\f\v\r"), "\"\\n\\t\\a\\b\\f\\v\\015\"");
  EXPECT_EQ(quoted(std::string_view("\0\xc3\xa9"
                                    "9",
                                    4)),
            "\"\\000\\303\\2519\"");
  std::string every;
  for (int c = 0; c < 256; ++c) every += static_cast<char>(c);
  EXPECT_EQ(parsed_expression(script::quoted(every))->expr().text, every);
}

}  // namespace
}  // namespace tenon::script

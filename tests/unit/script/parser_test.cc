// These tests check the trees that the parser makes, and the errors of texts that it refuses.
#include "modules/script/parser.h"

#include <tuple>

#include "unit/script/script_support.h"

namespace tenon::script {
namespace {

using namespace test;

// Returns the last item's first statement, which is the only one in the function.
const Stmt& only(const File& file) { return *file.items().back().function->body[0]; }

TEST(Parser, OperatorsGroupAsPyTorchHasIt) {
  EXPECT_EQ(printed_expression("a + b * c - d"), "(a + (b * c)) - d");
  EXPECT_EQ(printed_expression("a or b and c"), "(a or b) and c");
  EXPECT_EQ(printed_expression("a < b < c"), "(a < b) < c");
  EXPECT_EQ(printed_expression("~a + b"), "~(a + b)");
  EXPECT_EQ(printed_expression("not a == b"), "not (a == b)");
  EXPECT_EQ(printed_expression("-a ** -b ** c"), "-(a ** (-(b ** c)))");
  EXPECT_EQ(printed_expression("-1 ** 2"), "-(1 ** 2)");
  EXPECT_EQ(printed_expression("(-1) ** 2"), "(-1) ** 2");
  EXPECT_EQ(printed_expression("-1[0]"), "-(1)[0]");
  EXPECT_EQ(printed_expression("a if b else c if d else e"), "a if b else (c if d else e)");
  EXPECT_EQ(printed_expression("a | b ^ c & d << e + f"), "a | (b ^ (c & (d << (e + f))))");
  EXPECT_EQ(printed_expression("a not in b is not c"), "(a not in b) is not c");
  EXPECT_EQ(printed_expression("*a or b"), "(*a) or b");
  EXPECT_EQ(printed_expression("a, *b,"), "(a, *b)");
}

TEST(Parser, ComprehensionsNeedNoBrackets) {
  EXPECT_EQ(printed_expression("sum(a for b in c)"), "sum([a for b in c])");
  EXPECT_EQ(printed_expression("[[a for b in c]]"), "[a for b in c]");
  EXPECT_EQ(printed_expression("{a: [b for c in d]}"), "{a: b for c in d}");
  EXPECT_EQ(printed_expression("{a: b for c in d, e: f}"), "{a: [b for c in d], e: f}");
  EXPECT_EQ(printed_expression("a if b else c for d in e"), "a if b else [c for d in e]");
  EXPECT_EQ(printed_expression("[a for (b, c) in d]"), "[a for (b, c) in d]");
}

TEST(Parser, CallsAndSubscripts) {
  const auto made = parsed_expression("f.g(a, *b, c=d, e)[1:, ::2, None, ..., :]");
  const Expr& subscript = made->expr();
  ASSERT_EQ(subscript.kind, ExprKind::kSubscript);
  ASSERT_EQ(subscript.arguments().size(), 5U);
  EXPECT_EQ(subscript.arguments()[0]->kind, ExprKind::kSlice);
  EXPECT_EQ(subscript.arguments()[0]->children[1], nullptr);
  EXPECT_EQ(subscript.arguments()[2]->kind, ExprKind::kNone);
  EXPECT_EQ(subscript.arguments()[3]->kind, ExprKind::kEllipsis);
  const Expr& call = subscript.child(0);
  ASSERT_EQ(call.kind, ExprKind::kCall);
  EXPECT_EQ(dotted_name(call.child(0)), "f.g");
  ASSERT_EQ(call.arguments().size(), 3U);
  EXPECT_EQ(call.arguments()[1]->kind, ExprKind::kStarred);
  ASSERT_EQ(call.keywords.size(), 1U);
  EXPECT_EQ(call.keywords[0].name, "c");
  EXPECT_EQ(printed_expression("x[]"), "x[]");
}

TEST(Parser, RangesAreTheBytes) {
  const auto made = parsed_expression("(a + b) * c.d");
  const Expr& product = made->expr();
  const Source& source = made->source();
  EXPECT_EQ(source.text(product.range), "(a + b) * c.d");
  EXPECT_EQ(source.text(product.text_range), "*");
  EXPECT_EQ(source.text(product.child(0).range), "a + b");
  EXPECT_EQ(source.text(product.child(1).range), "c.d");
  EXPECT_EQ(source.text(product.child(1).text_range), "d");
  EXPECT_EQ(product.height, 3);
}

TEST(Parser, Assignments) {
  auto file = parsed(in_function("a = b = c, d"));
  EXPECT_EQ(only(*file).targets.size(), 2U);
  EXPECT_EQ(only(*file).value->kind, ExprKind::kTuple);
  file = parsed(in_function("a : List[int] = []"));
  ASSERT_NE(only(*file).annotation, nullptr);
  EXPECT_EQ(print(*only(*file).annotation), "List[int]");
  file = parsed(in_function("a[0].b **= 2"));
  EXPECT_EQ(only(*file).kind, StmtKind::kAugAssign);
  EXPECT_EQ(only(*file).op, Operator::kPow);
  file = parsed(in_function("a, (b, *c), = d"));
  EXPECT_EQ(only(*file).targets[0]->children.size(), 2U);
  EXPECT_EQ(refusal(in_function("a, b += c")).code(), Code::kCorrupt);
  EXPECT_EQ(refusal(in_function("a : int = b = c")).code(), Code::kCorrupt);
}

TEST(Parser, Blocks) {
  const auto file = parsed(
      "def f(x):\n  if a:\n    b\n  elif c:\n    d\n  else:\n    e\n  for i, in xs:\n    pass\n  "
      "while w:\n    break\n"
      "  with a as b, c:\n    continue\n  def g(): return 1\n");
  const StmtList body = file->items()[0].function->body;
  ASSERT_EQ(body.size(), 5U);
  ASSERT_EQ(body[0]->else_body.size(), 1U);
  EXPECT_TRUE(body[0]->else_body[0]->is_elif);
  EXPECT_EQ(body[0]->else_body[0]->else_body.size(), 1U);
  EXPECT_EQ(body[0]->height, 3);
  EXPECT_EQ(body[1]->targets.size(), 1U);
  ASSERT_EQ(body[3]->with_items.size(), 2U);
  EXPECT_EQ(body[3]->with_items[0].name->text, "b");
  EXPECT_EQ(body[3]->with_items[1].name, nullptr);
  EXPECT_EQ(body[4]->function->name, "g");
  EXPECT_EQ(file->source().text(body[4]->range), "def g(): return 1");
}

TEST(Parser, Functions) {
  const auto file = parsed(
      "def f(a, b: int=CONSTANTS.c0, *, c: str = 'x',) -> Tuple[int, int]:\n  '''doc'''\n  return "
      "a\n");
  const Function& function = *file->items()[0].function;
  ASSERT_EQ(function.params.size(), 3U);
  EXPECT_EQ(function.params[0].annotation, nullptr);
  EXPECT_EQ(dotted_name(*function.params[1].default_value), "CONSTANTS.c0");
  EXPECT_FALSE(function.params[1].keyword_only);
  EXPECT_TRUE(function.params[2].keyword_only);
  EXPECT_EQ(function.body[0]->value->text, "doc");
  const auto commented = parsed("def f(a):\n  # type: (int) -> str\n  return a\n");
  ASSERT_NE(commented->items()[0].function->type_comment, nullptr);
  EXPECT_EQ(commented->items()[0].function->type_comment->params.size(), 1U);
  EXPECT_EQ(refusal("def f(a):\n  # type: (int, int) -> str\n  return a\n").code(), Code::kCorrupt);
  // In a method, the receiver is not counted.
  parsed("class A:\n  def f(self, a):\n    # type: (int) -> str\n    return a\n");
  std::ignore = refusal("class A:\n  def f(self, a):\n    # type: (A, int) -> str\n    return a\n");
}

TEST(Parser, ItemsAndTheirExtents) {
  const std::string text =
      "op_version_set = 1\nimport a.b # c\n\n# about A\nclass A(Module):\n  x : int\n  # in "
      "A\n\ndef f(): return 1 # f\n# about g\n"
      "def g(x):\n  return (x,\n    1)\n\n# the end";
  const auto file = parsed(text);
  ASSERT_EQ(file->items().size(), 5U);
  EXPECT_EQ(file->items()[0].version, 1);
  EXPECT_EQ(file->items()[1].import_name, "a.b");
  EXPECT_EQ(file->source().text(file->items()[2].extent),
            "\n# about A\nclass A(Module):\n  x : int\n");
  EXPECT_EQ(file->source().text(file->items()[2].range), "class A(Module):\n  x : int");
  EXPECT_EQ(file->source().text(file->items()[3].extent), "  # in A\n\ndef f(): return 1 # f\n");
  EXPECT_EQ(file->source().text(file->tail()), "\n# the end");
  std::string joined;
  for (const Item& item : file->items()) joined += file->source().text(item.extent);
  EXPECT_EQ(joined + std::string(file->source().text(file->tail())), text);
  ASSERT_NE(file->find("A"), nullptr);
  EXPECT_EQ(file->find("A")->class_def->name, "A");
  EXPECT_EQ(file->find("h"), nullptr);
  EXPECT_EQ(file->indent(), 0U);
  EXPECT_EQ(parsed("  def f(): return 1\n")->indent(), 2U);
  EXPECT_EQ(parsed("def f(): return 1\ndef f(): return 2\n")->find("f")->function->range.begin,
            18U);
  EXPECT_TRUE(parsed("")->items().empty());
  EXPECT_TRUE(parsed("# nothing\n")->items().empty());
}

struct Refusal {
  const char* text;
  Code code;
  const char* line;
  const char* column;
  const char* says;
};

TEST(Parser, RefusalsNameThePlaceAndTheConstruct) {
  const Refusal refusals[] = {
      {"def f():\n  x = f'a'\n", Code::kUnsupported, "2", "7", "f-string"},
      {"def f():\n  x = rb'a'\n", Code::kUnsupported, "2", "7", "prefix rb"},
      {"def f():\n  try:\n    x\n", Code::kUnsupported, "2", "3", "try"},
      {"def f():\n  yield x\n", Code::kUnsupported, "2", "3", "yield"},
      {"def f():\n  x = lambda y: y\n", Code::kUnsupported, "2", "7", "lambda"},
      {"def f():\n  x = await y\n", Code::kUnsupported, "2", "7", "await"},
      {"async def f():\n  x\n", Code::kUnsupported, "1", "1", "async"},
      {"def f():\n  (x := 1)\n", Code::kUnsupported, "2", "6", "':='"},
      {"def f():\n  x; y\n", Code::kUnsupported, "2", "4", "';'"},
      {"@d\ndef f():\n  x\n", Code::kUnsupported, "1", "1", "decorator"},
      {"from a import b\n", Code::kUnsupported, "1", "1", "from"},
      {"def f():\n  import a\n", Code::kUnsupported, "2", "3", "import"},
      {"def f():\n  class A:\n    x\n", Code::kUnsupported, "2", "3", "class"},
      {"def f():\n  x = {1, 2}\n", Code::kUnsupported, "2", "7", "set"},
      {"def f():\n  x = {1: 2,}\n", Code::kUnsupported, "2", "13", "comma"},
      {"def f(*a):\n  x\n", Code::kUnsupported, "1", "7", "any number"},
      {"def f(**a):\n  x\n", Code::kUnsupported, "1", "7", "'**'"},
      {"def f(a, /):\n  x\n", Code::kUnsupported, "1", "10", "'/'"},
      {"def f():\n  if x: y\n", Code::kUnsupported, "2", "9", "lines of its own"},
      {"def f():\n  for x in y:\n    z\n  else:\n    w\n", Code::kCorrupt, "4", "3", "else"},
      {"def f():\n  raise\n", Code::kUnsupported, "2", "8", "raise"},
      {"def f():\n  x = '\\x41'\n", Code::kUnsupported, "2", "8", "escape"},
      {"def f():\n  x = 1 # type: int\n", Code::kUnsupported, "2", "9", "type comment"},
      {"class A():\n  x : int\n", Code::kUnsupported, "1", "9", "parentheses"},
      {"class A(B, C):\n  x : int\n", Code::kUnsupported, "1", "10", "one base"},
      {"def f():\n  return x y\n", Code::kCorrupt, "2", "12", "the end of the line"},
      {"def f():\n  return (x\n", Code::kCorrupt, "3", "1", "')'"},
      {"def f():\n  return x", Code::kCorrupt, "2", "11", "the end of the line"},
      {"def f():\n    x\n  y\n", Code::kCorrupt, "3", "1", "indented by 2"},
      {"def f():\n  x\n    y\n", Code::kCorrupt, "3", "1", "deeper indent"},
      {"x = 1\n", Code::kCorrupt, "1", "1", "a class or a function"},
      {"import a\n", Code::kCorrupt, "2", "1", "a class or a function"},
      {"import", Code::kCorrupt, "1", "7", "the end of the line"},
      {"def f():\n  x = \xc3\xa9\n", Code::kUnsupported, "2", "7", "ASCII"},
      {"def f():\n  print x\n", Code::kUnsupported, "2", "3", "print"},
      {"def f():\n  match x:\n    y\n", Code::kUnsupported, "2", "3", "match"},
      {"def f():\n  g(**x)\n", Code::kUnsupported, "2", "5", "'**'"},
      {"def f():\n  x //= 2\n", Code::kCorrupt, "2", "7", "'='"},
  };
  for (const Refusal& wanted : refusals) {
    const Status status = refusal(wanted.text);
    EXPECT_EQ(status.code(), wanted.code) << wanted.text << status.message();
    EXPECT_EQ(status.detail("line"), wanted.line) << wanted.text << status.message();
    EXPECT_EQ(status.detail("column"), wanted.column) << wanted.text << status.message();
    EXPECT_NE(status.message().find(wanted.says), std::string::npos)
        << wanted.text << status.message();
    EXPECT_EQ(status.detail("file"), "code/t.py");
    EXPECT_NE(status.detail("excerpt").find('^'), std::string::npos) << wanted.text;
  }
}

TEST(Parser, WordsThatAreNamesToPyTorch) {
  parsed(in_function("lambda = try + yield.await"));
  parsed(in_function("async"));
  parsed(in_function("match = type(nonlocal)"));
}

TEST(Parser, AnEarlierMistakeIsReportedFirst) {
  EXPECT_EQ(refusal("def f():\n  x y\n  $\n").detail("line"), "2");
  EXPECT_EQ(refusal("def f():\n  $\n  x y\n").detail("line"), "2");
}

TEST(Parser, ExpressionsAlone) {
  EXPECT_EQ(printed_expression(" List[ int ] "), "List[int]");
  EXPECT_FALSE(parse_expression("e", "a b").is_ok());
  EXPECT_FALSE(parse_expression("e", "").is_ok());
  EXPECT_FALSE(parse_expression("e", "a\nb").is_ok());
}

}  // namespace
}  // namespace tenon::script

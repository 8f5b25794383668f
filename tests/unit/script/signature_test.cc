// These tests read the signatures of functions from annotations and from type comments.
#include "modules/script/signature.h"

#include "unit/script/script_support.h"

namespace tenon::script {
namespace {

using namespace test;

// Prints the name and type of each parameter, and the return type last. "?" stands for no type, "*"
// comes before a parameter that is a keyword only, and "=" after one with a default.
std::string types(const std::string& text, bool is_method = false) {
  const auto file = parsed(text);
  const Item& item = file->items()[0];
  const Function& function =
      item.class_def != nullptr ? *item.class_def->body[0]->function : *item.function;
  Result<Signature> made = signature(file->source(), function, is_method);
  if (!made.is_ok()) return made.status().message();
  std::string all;
  for (const Parameter& parameter : made.value().parameters) {
    all += (parameter.keyword_only ? "*" : "") + parameter.name + " " +
           (parameter.type ? parameter.type->print() : "?");
    all += parameter.default_value != nullptr ? "=, " : ", ";
  }
  return all + (made.value().returns ? made.value().returns->print() : "?");
}

TEST(Signature, FromAnnotations) {
  EXPECT_EQ(types("def f(a, b: List[int], *, c: Optional[Tensor]=None) -> Tuple[int, "
                  "__torch__.A]:\n  pass\n"),
            "a ?, b List[int], *c Optional[Tensor]=, Tuple[int, __torch__.A]");
  EXPECT_EQ(types("def f() -> None:\n  pass\n"), "NoneType");
  EXPECT_EQ(types("def f(a: (int), b: Tuple[()]):\n  pass\n"), "a int, b Tuple[()], ?");
  EXPECT_EQ(types("def f(a: int | None, b: Dict[str, int | str]):\n  pass\n"),
            "a Optional[int], b Dict[str, Union[int, str]], ?");
}

TEST(Signature, FromATypeComment) {
  EXPECT_EQ(types("def f(a: int, b=1):\n  # type: (str, float) -> int\n  pass\n"),
            "a str, b float=, int");
  EXPECT_EQ(types("def f(a) -> int:\n  # type: (str)\n  pass\n"), "a str, ?");
  EXPECT_EQ(types("class A:\n  def f(self, a):\n    # type: (str) -> int\n    pass\n", true),
            "self ?, a str, int");
}

TEST(Signature, ABadTypeIsShown) {
  for (const char* text : {"def f(a: 3):\n  pass\n", "def f(a: List[f(x)]):\n  pass\n",
                           "def f(a: 'int'):\n  pass\n", "def f(a: int + str):\n  pass\n",
                           "def f(a: Dict[int]):\n  pass\n", "def f(a: x[0].y):\n  pass\n"}) {
    const auto file = parsed(text);
    const Result<Signature> made = signature(file->source(), *file->items()[0].function, false);
    ASSERT_FALSE(made.is_ok()) << text;
    EXPECT_EQ(made.status().code(), Code::kCorrupt) << text;
    EXPECT_EQ(made.status().detail("line"), "1");
    EXPECT_GE(std::stoi(std::string(made.status().detail("column"))), 10) << text;
  }
}

}  // namespace
}  // namespace tenon::script

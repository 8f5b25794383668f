// These tests rename classes and functions in source text, and list the names that a text uses.
#include "modules/script/rename.h"

#include "unit/script/script_support.h"

namespace tenon::script {
namespace {

using namespace test;

std::string all_renamed(const std::string& text, const NewNames& names) {
  const auto file = parsed(text);
  return file ? renamed(*file, {0, static_cast<uint32_t>(text.size())}, names) : "";
}

TEST(Rename, EveryUseOfTheNameAndNothingElse) {
  const std::string text =
      "# __torch__.A here\n"
      "class B(Module):\n"
      "  a : __torch__.A\n"
      "  __annotations__[\"__torch__.A\"] = List[__torch__.A]\n"
      "  def f(self: __torch__.B,  x: Optional[ __torch__ . A ]=None) -> Dict[str, __torch__.A]:\n"
      "    y = __torch__.A.__new__(__torch__.A)\n"
      "    _0 = (y).__init__(\"__torch__.A\", ) # __torch__.A\n"
      "    z = annotate(List[__torch__.A], [])\n"
      "    w = self.__torch__.A + __torch__.AB.c + __torch__.A.B\n"
      "    return  __torch__.f(y, )[__torch__.A.RED]\n";
  const std::string wanted =
      "# __torch__.A here\n"
      "class B(Module):\n"
      "  a : __torch__.m.A\n"
      "  __annotations__[\"__torch__.A\"] = List[__torch__.m.A]\n"
      "  def f(self: __torch__.B,  x: Optional[ __torch__.m.A ]=None) -> Dict[str, "
      "__torch__.m.A]:\n"
      "    y = __torch__.m.A.__new__(__torch__.m.A)\n"
      "    _0 = (y).__init__(\"__torch__.A\", ) # __torch__.A\n"
      "    z = annotate(List[__torch__.m.A], [])\n"
      "    w = self.__torch__.A + __torch__.AB.c + __torch__.A.B\n"
      "    return  __torch__.f(y, )[__torch__.m.A.RED]\n";
  EXPECT_EQ(
      all_renamed(text, {{"__torch__.A", "__torch__.m.A"}, {"__torch__.A.B", "__torch__.A.B"}}),
      wanted);
  EXPECT_EQ(all_renamed(text, {}), text);
}

TEST(Rename, TheLongestNameIsMeant) {
  const std::string text = "def f():\n  return (a.b.c.d, a.b.c, a.b, a.b.x)\n";
  EXPECT_EQ(all_renamed(text, {{"a.b", "B"}, {"a.b.c", "C"}}),
            "def f():\n  return (C.d, C, B, B.x)\n");
}

TEST(Rename, VariablesAreNotMeant) {
  const std::string text =
      "def f(foo, x: foo.Net):\n"
      "  y = foo.Net\n"
      "  z = annotate(foo.Net, x)\n"
      "  return isinstance(foo.Net, foo.Net)\n"
      "def g(x):\n"
      "  for i, (foo, j) in x:\n"
      "    foo.Net\n"
      "def h(x):\n"
      "  y = [foo.Net for foo in foo.Net]\n"
      "  def k():\n"
      "    foo = 1\n"
      "    return foo.Net\n"
      "  return foo.Net\n";
  const std::string wanted =
      "def f(foo, x: N):\n"
      "  y = foo.Net\n"
      "  z = annotate(N, x)\n"
      "  return isinstance(foo.Net, N)\n"
      "def g(x):\n"
      "  for i, (foo, j) in x:\n"
      "    foo.Net\n"
      "def h(x):\n"
      "  y = [foo.Net for foo in N]\n"
      "  def k():\n"
      "    foo = 1\n"
      "    return foo.Net\n"
      "  return N\n";
  EXPECT_EQ(all_renamed(text, {{"foo.Net", "N"}}), wanted);
}

TEST(Rename, TypeCommentsAndParentheses) {
  EXPECT_EQ(all_renamed("def f(x):\n  # type: (a.B) -> a.B\n  return (a.B) + (a).B\n",
                        {{"a.B", "a.m.B"}}),
            "def f(x):\n  # type: (a.m.B) -> a.m.B\n  return (a.m.B) + a.m.B\n");
}

TEST(Rename, OnlyTheRangeIsGiven) {
  const auto file = parsed("def f():\n  return a.B\ndef g():\n  return a.B\n");
  EXPECT_EQ(renamed(*file, file->items()[1].extent, {{"a.B", "C"}}), "def g():\n  return C\n");
}

TEST(Rename, UsedNames) {
  const auto file = parsed(
      "class A(Module):\n  w : Tensor\n  def f(self: __torch__.A, x) -> int:\n    y = torch.add(x, "
      "CONSTANTS.c0)\n    return self.w + y.z\n"
      "def g():\n  return ops.my.op()\n");
  EXPECT_EQ(
      used_names(*file, file->items()[0].extent),
      (std::vector<std::string>{"CONSTANTS.c0", "Tensor", "__torch__.A", "int", "torch.add"}));
  EXPECT_EQ(used_names(*file, file->items()[1].extent), (std::vector<std::string>{"ops.my.op"}));
  const std::vector<std::string_view> first_parts = {"CONSTANTS", "__torch__"};
  EXPECT_EQ(used_names(*file, file->items()[0].extent, first_parts),
            (std::vector<std::string>{"CONSTANTS.c0", "__torch__.A"}));
  EXPECT_EQ(used_names(*file, file->items()[1].extent, first_parts), std::vector<std::string>());
}

}  // namespace
}  // namespace tenon::script

// These tests check how the parts of a class are sorted: attributes, constants and methods of
// modules and of other classes.
#include "modules/script/class_parts.h"

#include "unit/script/script_support.h"

namespace tenon::script {
namespace {

using namespace test;

struct Sorted {
  std::shared_ptr<const File> file;
  ClassParts parts;
  Status status;
};

Sorted sorted(const std::string& text) {
  Sorted made;
  made.file = parsed(text);
  Result<ClassParts> parts = class_parts(made.file->source(), *made.file->items()[0].class_def);
  if (parts.is_ok()) {
    made.parts = std::move(parts).value();
  } else {
    made.status = std::move(parts).status();
  }
  return made;
}

TEST(ClassParts, AModule) {
  const Sorted made = sorted(
      "class N(Module):\n  __parameters__ = [\"w\", ]\n  __buffers__ = []\n  __annotations__ = "
      "[]\n  __annotations__[\"0\"] = __torch__.A\n"
      "  w : Tensor\n  training : bool\n  k : Final[int] = 4\n  __forward_hooks__ = [\"h\"]\n  def "
      "forward(self, x):\n    return x\n"
      "  def h(self, i, o):\n    return None\n");
  ASSERT_TRUE(made.status.is_ok()) << made.status.message();
  EXPECT_EQ(made.parts.kind, ClassKind::kModule);
  EXPECT_EQ(made.parts.parameters->names, std::vector<std::string>{"w"});
  ASSERT_TRUE(made.parts.buffers.has_value());
  EXPECT_TRUE(made.parts.buffers->names.empty());
  EXPECT_FALSE(made.parts.forward_pre_hooks.has_value());
  EXPECT_EQ(made.parts.forward_hooks->names, std::vector<std::string>{"h"});
  ASSERT_EQ(made.parts.fields.size(), 3U);
  EXPECT_EQ(made.parts.fields[0].name, "0");
  EXPECT_TRUE(made.parts.fields[0].is_quoted);
  EXPECT_EQ(print(*made.parts.fields[0].annotation), "__torch__.A");
  EXPECT_EQ(made.parts.fields[1].name, "w");
  ASSERT_EQ(made.parts.constants.size(), 1U);
  EXPECT_EQ(print(*made.parts.constants[0].annotation), "int");
  ASSERT_EQ(made.parts.methods.size(), 2U);
  EXPECT_EQ(made.parts.methods[1].function->name, "h");
}

TEST(ClassParts, OtherKinds) {
  EXPECT_EQ(sorted("class A:\n  x : int\n").parts.kind, ClassKind::kPlain);
  const Sorted tuple = sorted("class P(NamedTuple):\n  a : Tensor\n  b : int\n");
  EXPECT_EQ(tuple.parts.kind, ClassKind::kNamedTuple);
  EXPECT_EQ(tuple.parts.fields.size(), 2U);
  const Sorted colours = sorted("class C(Enum):\n  RED = \"r\"\n  BLUE = \"b\"\n");
  EXPECT_EQ(colours.parts.kind, ClassKind::kEnum);
  ASSERT_EQ(colours.parts.members.size(), 2U);
  EXPECT_EQ(colours.parts.members[1].value->text, "b");
  const Sorted interface = sorted("class I(ModuleInterface):\n  def f(self) -> int:\n    pass\n");
  EXPECT_EQ(interface.parts.kind, ClassKind::kModuleInterface);
  EXPECT_EQ(interface.parts.methods.size(), 1U);
}

TEST(ClassParts, RefusalsStandAtTheStatement) {
  const char* const refused[] = {
      "class A:\n  pass\n",
      "class A:\n  'doc'\n",
      "class A:\n  x : int = 3\n",
      "class A:\n  x = 3\n",
      "class A:\n  __parameters__ = []\n",
      "class A(Module):\n  __parameters__ = [3]\n",
      "class A(Module):\n  y[\"0\"] = int\n",
      "class A(NamedTuple):\n  x : int = 3\n",
      "class A(NamedTuple):\n  def f(self): return 1\n",
      "class A(Enum):\n  x : int\n",
      "class A(Enum):\n  x = True\n",
      "class A(Interface):\n  def f(self): pass\n",
      "class A(Interface):\n  def f(self) -> int: return 1\n",
      "class A:\n  def f(): return 1\n",
  };
  for (const char* text : refused) {
    const Status status = sorted(text).status;
    EXPECT_EQ(status.code(), Code::kCorrupt) << text;
    EXPECT_EQ(status.detail("line"), "2") << text;
  }
  EXPECT_EQ(sorted("class A:\n  x : int\n  x : int\n").status.detail("line"), "3");
  EXPECT_EQ(sorted("class A(Enum):\n  x = 1\n  y = 'b'\n").status.detail("line"), "3");
  EXPECT_EQ(sorted("class A(object):\n  x : int\n").status.detail("line"), "1");
  EXPECT_NE(sorted("class A:\n  def f(self): return 1\n  def f(self): return 1\n")
                .status.message()
                .find("'f'"),
            std::string::npos);
}

}  // namespace
}  // namespace tenon::script

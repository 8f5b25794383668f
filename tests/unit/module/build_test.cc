// These tests build modules. They check what is refused when it is added, and what an archive of
// the module contains.
#include "module_kit.h"

namespace tenon::module {
namespace {

TEST(Build, NamesAreTakenOnce) {
  const Ref<Module> module = must(Module::create("Net"));
  EXPECT_EQ(module->class_name(), "__torch__.Net");
  ok(module->add_parameter("w", floats({1, 2})));
  ok(module->add_buffer("b", Value::none()));
  ok(module->add_attribute("a", Type::integer(), Value::of_int(3)));
  ok(module->add_constant("c", Type::integer(), Value::of_int(3)));
  ok(module->define("def m(self):\n  return 1\n"));
  const std::map<std::string, std::string> taken{
      {"w", "a parameter"}, {"b", "a buffer"}, {"a", "an attribute"},
      {"c", "a constant"},  {"m", "a method"}, {"training", "an attribute"}};
  for (const auto& [name, what] : taken) {
    refused(module->add_parameter(name, floats({1})), {"__torch__.Net", what, name});
    refused(module->add_attribute(name, Type::integer(), Value::of_int(1)), {what});
    refused(module->add_submodule(name, must(Module::create("Other"))), {what});
  }
  for (const char* bad : {"", "a.b", "a\nb"})
    refused(module->add_parameter(bad, floats({1})), {"no name of an attribute"});
  refused(module->add_constant("1", Type::integer(), Value::of_int(1)), {"no name of a constant"});
  refused(Module::create("a b"), {"no name of a class"});
  EXPECT_EQ(must(module->members()).size(), 6U);
}

TEST(Build, ValuesFitTheirTypes) {
  const Ref<Module> module = must(Module::create("Net"));
  refused(module->add_parameter("w", Value::of_int(5)), {"w", "Tensor wanted", "int"});
  refused(module->add_attribute("x", type("List[int]"), Value::list(nullptr, {Value::of_float(1)})),
          {"x[0]", "int"});
  refused(module->add_attribute("x", type("Optional[str]"), Value::of_int(1)), {"x"});
  refused(module->add_attribute("x", type("__torch__.Missing"), Value::none()),
          {"__torch__.Missing"});
  refused(module->add_attribute(
              "x", type("Tuple[int, Dict[str, Tensor]]"),
              Value::tuple({Value::of_int(1),
                            must(Value::dict(nullptr, {{Value::of_str("k"), Value::none()}}))})),
          {"Tensor wanted"});
  ok(module->add_attribute(
      "x", type("Dict[str, List[float]]"),
      must(Value::dict(nullptr, {{Value::of_str("k"), Value::list(nullptr, {})}}))));
  const Member member = must(module->find("x"));
  EXPECT_EQ(member.value->declared_type()->print(), "Dict[str, List[float]]");
  EXPECT_EQ(member.value->entries()[0].value->declared_type()->print(), "List[float]");
}

TEST(Build, SubmodulesMakeNoCircle) {
  const Ref<Module> top = must(Module::create("Top"));
  const Ref<Module> middle = must(Module::create("Middle"));
  ok(top->add_submodule("middle", middle));
  refused(middle->add_submodule("top", top), {"would be in itself"});
  refused(top->add_submodule("top", top), {"would be in itself"});
  refused(middle->set("top", Value::none()), {"top"}, Code::kNotFound);
}

TEST(Build, InterfacesWantTheirMethods) {
  const Ref<Module> module = must(Module::create("Net"));
  ok(module->define_types("__torch__",
                          "class Run(ModuleInterface):\n  def run(self, x: Tensor) -> Tensor:\n    "
                          "pass\nclass Plain:\n  n : int\n"));
  const Ref<Module> child = must(Module::create("Child"));
  refused(module->add_submodule("child", child, type("__torch__.Run")),
          {"no method run", "__torch__.Run"});
  refused(module->add_submodule("child", child, type("__torch__.Plain")), {"no interface"});
  refused(module->add_submodule("child", child, type("int")), {"interface"});
  ok(child->define("def run(self, x: Tensor) -> Tensor:\n  return x\n"));
  ok(module->add_submodule("child", child, type("__torch__.Run")));
  refused(module->set_submodule("child", must(Module::create("Other"))), {"no method run"});
}

TEST(Build, DefinitionsAreParsed) {
  const Ref<Module> module = must(Module::create("Net"));
  const Status status = module->define("def forward(self, x):\n  return x +\n");
  EXPECT_FALSE(status.is_ok());
  EXPECT_EQ(status.detail("line"), "2");
  EXPECT_NE(status.detail("excerpt").find('^'), std::string::npos);
  refused(module->define("class A:\n  pass\n"), {"a method is wanted"});
  refused(module->define("def f():\n  pass\n"), {"a method has self"});
  refused(module->define("def f(self):\n  pass\ndef f(self):\n  pass\n"), {"defined twice"});
  refused(module->define("def training(self):\n  pass\n"), {"an attribute"});
  refused(module->define_types("__torch__", "class A:\n  n : int\nclass A:\n  n : int\n"),
          {"defined twice"});
  ok(module->define_types("util", "def f(x: Tensor) -> Tensor:\n  return x\n"));
  refused(module->define_types("__torch__.util", "def f(x: Tensor) -> Tensor:\n  return x\n"),
          {"__torch__.util.f already"});
  refused(module->set_hooks(true, {"missing"}), {"missing"}, Code::kNotFound);
}

TEST(Build, TheCheckerIsAsked) {
  const Ref<Module> module = must(Module::create("Net"));
  ok(module->add_parameter("w", floats({1})));
  ok(module->define("def forward(self, x: Tensor) -> Tensor:\n  return torch.relu(x) + self.v\n"));
  const Status status = module->check();
  refused(status, {"__torch__.Net", "v"});
  EXPECT_EQ(status.detail("file"), "code/__torch__.py");
  EXPECT_NE(status.detail("excerpt").find("self.v"), std::string::npos);
  archive::MemorySink sink;
  refused(export_module(*module, &sink, {}, nullptr), {"v"});
  EXPECT_TRUE(sink.bytes().empty());
  ok(module->define("def forward(self, x: Tensor) -> Tensor:\n  return torch.relu(x) + self.w\n"));
  ok(module->check());
}

TEST(Build, TheClassIsPrintedAsPyTorchPrintsIt) {
  const Ref<Module> module = must(Module::create("a.Net"));
  ok(module->add_attribute("n", Type::integer(), Value::of_int(1)));
  const Ref<Module> child = must(Module::create("a.Child"));
  ok(module->add_submodule("0", child));
  ok(module->add_parameter("w", floats({1})));
  ok(module->add_buffer("b", floats({1})));
  ok(module->add_constant("k", Type::floating(), Value::of_float(2)));
  ok(module->define("def h(self, x: Tensor) -> Tensor:\n    return x*self.k\n"));
  ok(module->set_hooks(false, {"h"}));
  EXPECT_EQ(records_of(exported(*module, unchecked())).at("code/__torch__/a.py"),
            "class Net(Module):\n"
            "  __parameters__ = [\"w\", ]\n"
            "  __buffers__ = [\"b\", ]\n"
            "  __forward_hooks__ = [\"h\", ]\n"
            "  w : Tensor\n"
            "  b : Tensor\n"
            "  training : bool\n"
            "  n : int\n"
            "  __annotations__[\"0\"] = __torch__.a.Child\n"
            "  k : Final[float] = 2.\n"
            "  def h(self,\n"
            "    x: Tensor) -> Tensor:\n"
            "    return x * 2.\n"
            "class Child(Module):\n"
            "  __parameters__ = []\n"
            "  __buffers__ = []\n"
            "  training : bool\n");
}

TEST(Build, ConstantsDoNotRequireGradients) {
  const Ref<Module> module = must(Module::create("Net"));
  const ValueRef plain = floats({1});
  value::StridedSpec spec;
  spec.storage = plain->as_tensor()->storage();
  spec.sizes = {1};
  spec.strides = {1};
  spec.requires_grad = true;
  refused(module->add_constant("c", Type::tensor(),
                               Value::of_tensor(must(value::TensorValue::create(spec)))),
          {"gradient"});
}

TEST(Build, OneChildUnderTwoNamesIsOneObject) {
  const Ref<Module> module = must(Module::create("Net"));
  const Ref<Module> child = must(Module::create("Child"));
  ok(child->add_parameter("w", floats({1, 2})));
  ok(module->add_submodule("a", child));
  ok(module->add_submodule("b", child));
  const std::vector<std::byte> bytes = exported(*module, unchecked());
  const Ref<Module> again = must(imported(bytes));
  EXPECT_EQ(must(again->find("a")).module->object().get(),
            must(again->find("b")).module->object().get());
  EXPECT_EQ(must(again->tensors()).size(), 2U);
}

// This tree of modules shares its children, and so has 2^64 paths.
TEST(Build, PathsAreCounted) {
  Ref<Module> module = must(Module::create("Leaf"));
  ok(module->add_parameter("w", floats({1})));
  for (int level = 0; level < 64; ++level) {
    const Ref<Module> above = must(Module::create("Level"));
    ok(above->add_submodule("a", module));
    ok(above->add_submodule("b", module));
    module = above;
  }
  refused(module->tensors(), {"paths"}, Code::kResourceExhausted);
  EXPECT_FALSE(exported(*module, unchecked()).empty());
}

}  // namespace
}  // namespace tenon::module

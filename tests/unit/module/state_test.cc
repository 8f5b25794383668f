// These tests check states of objects: how a state is built, read and replaced by path, and which
// classes have one.
#include "module_kit.h"

namespace tenon::module {
namespace {

constexpr const char* kMethods = R"(
def __getstate__(self) -> Tuple[Tensor, Optional[Tensor], Dict[str, int]]:
  return (self.w, self.b, {"k": self.k})
def __setstate__(self, state: Tuple[Tensor, Optional[Tensor], Dict[str, int]]) -> None:
  w, b, numbers = state
  self.w = w
  self.b = b
  self.k = numbers["k"]
  self.training = False
def forward(self, x: Tensor) -> Tensor:
  return x * self.w + self.k
)";

ValueRef numbers(int64_t k) {
  return must(Value::dict(nullptr, {{Value::of_str("k"), Value::of_int(k)}}));
}

ValueRef one_double() {
  const double element = 1;
  storage::StorageOptions options;
  options.is_private = true;
  value::StridedSpec spec;
  spec.storage = must(value::StorageValue::whole(
      tensor::ScalarType::kDouble,
      must(storage::Storage::create_from(options, &element, sizeof element))));
  spec.sizes = {1};
  spec.strides = {1};
  return Value::of_tensor(must(value::TensorValue::create(spec)));
}

ValueRef state_of(ValueRef w, int64_t k) {
  return Value::tuple({std::move(w), Value::none(), numbers(k)});
}

Ref<Module> with_fields(const char* methods) {
  const Ref<Module> module = must(Module::create("Kept"));
  ok(module->add_attribute("w", Type::tensor(), floats({1, 2})));
  ok(module->add_attribute("b", type("Optional[Tensor]"), Value::none()));
  ok(module->add_attribute("k", Type::integer(), Value::of_int(3)));
  ok(module->define(methods));
  return module;
}

Ref<Module> with_state(ValueRef w) {
  Ref<Module> module = with_fields(kMethods);
  ok(module->set_state("", state_of(std::move(w), 3)));
  return module;
}

TEST(State, TakesThePlaceOfAttributes) {
  const Ref<Module> module = with_fields(kMethods);
  refused(module->check(), {"__torch__.Kept", "__getstate__", "tenon_module_set_state"},
          Code::kUnsupported);
  refused(module->set_state("", Value::of_int(1)), {"state", "Tuple", "int"});
  refused(module->set_state("", Value::tuple({floats({1}), Value::none()})), {"state"});
  EXPECT_FALSE(module->object()->is_opaque()) << "a refused state changed the module";
  ok(module->set_state("", state_of(floats({1, 2}), 3)));
  ok(module->check());
  EXPECT_TRUE(module->object()->is_opaque());
  EXPECT_EQ(must(module->find("state[2]['k']")).value->as_int(), 3);
  // The class declares the attributes, but only the state has their values.
  EXPECT_EQ(must(module->find("k")).value.get(), nullptr);
  refused(module->set("k", Value::of_int(1)), {"k", "has a state", "state[0]"});
  refused(module->add_parameter("p", floats({1})), {"add attributes before"}, Code::kUnsupported);
  ok(module->define("def twice(self, x: Tensor) -> Tensor:\n  return x * 2\n"));
  ok(module->check());
}

TEST(State, PathsLeadIntoIt) {
  const Ref<Module> root = must(Module::create("Root"));
  const ValueRef shared = floats({1, 2});
  ok(root->add_buffer("same", shared));
  ok(root->add_submodule("kept", with_state(shared)));
  EXPECT_EQ(must(root->states()), std::vector<std::string>{"kept.state"});
  std::vector<std::string> paths;
  for (const NamedTensor& tensor : must(root->tensors())) paths.push_back(tensor.name);
  EXPECT_EQ(paths, (std::vector<std::string>{"same", "kept.state[0]"}));

  const Member whole = must(root->find("kept.state"));
  EXPECT_EQ(whole.kind, MemberKind::kState);
  EXPECT_EQ(whole.type->print(), "Tuple[Tensor, Optional[Tensor], Dict[str, int]]");
  EXPECT_EQ(must(root->find("kept.state[1]")).type->print(), "Optional[Tensor]");
  EXPECT_EQ(must(root->find("kept.state[2]['k']")).name, "state[2]['k']");
  for (const char* bad : {"kept.state[3]", "kept.state[x]", "kept.state[0][0]",
                          "kept.state[2]['q']", "kept.state[2].k", "kept.state.state"})
    refused(root->find(bad), {"kept.state"}, Code::kNotFound);
  for (const char* bad : {"state", "state[0]", "kept.states", "same.state"})
    EXPECT_EQ(root->find(bad).status().code(), Code::kNotFound);

  // Every member that holds the same tensor gets the new one.
  ok(root->set("kept.state[0]", floats({5, 6})));
  EXPECT_EQ(must(root->find("same")).value.get(), must(root->find("kept.state[0]")).value.get());
  ok(root->set("kept.state[1]", floats({7})));
  ok(root->set("kept.state[2]['k']", Value::of_int(9)));
  EXPECT_EQ(must(root->find("kept.state[2]['k']")).value->as_int(), 9);
  EXPECT_EQ(must(root->tensors()).size(), 3U);
  refused(root->set("kept.state[0]", Value::none()), {"kept.state[0]", "Tensor wanted"});
  refused(root->set("kept.state[2]", numbers(1)->entries()[0].value),
          {"kept.state[2]", "Dict[str, int]"});
  refused(root->set("kept.state[1]", root->object()), {"kept.state[1]", "cannot be in a state"});
  refused(root->set_state("same", Value::none()), {"same", "buffer"});
  refused(root->set_state("other", Value::none()), {"other"}, Code::kNotFound);
  refused(root->remove("kept.state[0]"), {"state[0]"}, Code::kNotFound);
}

TEST(State, IsLoadedAndNeverMissing) {
  const Ref<Module> module = with_state(floats({1, 2}));
  LoadReport report;
  ok(module->load({}, {}, &report));
  const NamedTensor good[] = {{"state[0]", floats({3, 4})}};
  ok(module->load(good, {}, &report));
  EXPECT_EQ(must(module->find("state[0]")).value.get(), good[0].value.get());
  const NamedTensor none[] = {{"state[0]", Value::none()}};
  refused(module->load(none, {}, &report), {"state[0]", "Tensor wanted"});
}

TEST(State, OfACppClassKeepsItsElementType) {
  constexpr const char* kClass = "__torch__.torch.classes.quantized.LinearPackedParamsBase";
  const Ref<Module> module = must(Module::create("Net"));
  ok(module->add_attribute(
      "packed", type(kClass),
      Value::object_with_state(kClass, Value::tuple({floats({1}), Value::none()}))));
  EXPECT_EQ(must(module->states()), std::vector<std::string>{"packed.state"});
  ok(module->set("packed.state[1]", floats({2})));
  refused(module->set("packed.state[0]", one_double()), {"packed.state[0]", "float32", "float64"});
  refused(module->set("packed.state[0]", Value::of_int(2)), {"packed.state[0]", "Tensor wanted"});
  refused(module->set_state("packed", Value::of_int(2)), {"packed.state"});
  ok(module->set_state("packed", Value::tuple({floats({4, 5}), floats({6})})));
  EXPECT_EQ(must(module->tensors()).size(), 2U);
}

TEST(State, NeedsBothMethods) {
  for (const char* alone : {"def __getstate__(self) -> int:\n  return self.k\n",
                            "def __setstate__(self, s: int) -> None:\n  self.k = s\n"}) {
    const Ref<Module> module = with_fields(alone);
    ok(module->check());  // PyTorch reads its attributes
    refused(module->set_state("", Value::of_int(1)),
            {"__torch__.Kept has no method", "define __getstate__"});
  }
  const Ref<Module> module = with_state(floats({1}));
  ok(module->remove("__getstate__"));
  refused(module->check(), {"__torch__.Kept has a state", "both"}, Code::kUnsupported);

  const Ref<Module> parent = with_fields(kMethods);
  ok(parent->add_submodule("child", must(Module::create("Child"))));
  refused(parent->set_state("", state_of(floats({1}), 1)), {"child", "no submodules"},
          Code::kUnsupported);
}

// Each case gives a `__setstate__` and the sentence that refuses it. An empty sentence means that
// PyTorch can make an object with this method.
TEST(State, EveryAttributeIsAssigned) {
  struct Case {
    const char* refusal;
    const char* body;
  };
  const Case cases[] = {
      {"", "  self.k = s\n"},
      {"", "  if s > 0:\n    self.k = s\n  else:\n    self.k = 0\n"},
      {"", "  if s > 0:\n    self.k = s\n  else:\n    ops.prim.RaiseException(\"no\")\n"},
      {"", "  self.fill(s)\n"},
      {"", "  a, self.k = 1, s\n"},
      {"", "  if s > 0:\n    self.k = s\n    return\n  self.k = 1\n"},
      {"self.k", "  a = s\n"},
      {"self.k", "  if s > 0:\n    self.k = s\n"},
      {"self.k", "  for i in range(s):\n    self.k = i\n"},
      {"self.k", "  if s > 0:\n    return\n  self.k = s\n"},
      {"self.k", "  a = s > 0 and self.fill(s)\n"},
      {"self.k", "  self.half(s)\n"},
  };
  for (const auto& [refusal, body] : cases) {
    const Ref<Module> module = must(Module::create("Kept"));
    ok(module->add_attribute("k", Type::integer(), Value::of_int(3)));
    ok(
        module->define("def fill(self, s: int) -> bool:\n  self.k = s\n  return True\n"
                       "def half(self, s: int) -> None:\n  if s > 0:\n    self.k = s\n"
                       "def __getstate__(self) -> int:\n  return self.k\n"));
    ok(module->define(
        std::string("def __setstate__(self, s: int) -> None:\n  self.training = False\n") + body));
    ok(module->set_state("", Value::of_int(1)));
    const Status status = module->check();
    if (*refusal == '\0')
      EXPECT_TRUE(status.is_ok()) << body << status.message();
    else
      refused(status, {refusal, "on every way"});
  }
}

TEST(State, TypesOfTheMethodsAgree) {
  const std::pair<const char*, const char*> wrong[] = {
      {"def __getstate__(self) -> float:\n  return 1.0\n", "__getstate__ returns float"},
      {"def __getstate__(self):\n  return 1\n", "say what __getstate__ returns"},
      {"def __getstate__(self, x: int) -> int:\n  return x\n", "nothing else"},
      {"def __setstate__(self, s: int, t: int) -> None:\n  self.k = s\n  self.training = True\n",
       "takes self and the state"},
      {"def __setstate__(self, s: int) -> int:\n  self.k = s\n  self.training = True\n  return s\n",
       "returns None"},
  };
  for (const auto& [method, sentence] : wrong) {
    const Ref<Module> module = must(Module::create("Kept"));
    ok(module->add_attribute("k", Type::integer(), Value::of_int(3)));
    ok(module->define(
        "def __getstate__(self) -> int:\n  return self.k\n"
        "def __setstate__(self, s: int) -> None:\n  self.k = s\n  self.training = True\n"));
    ok(module->set_state("", Value::of_int(1)));
    ok(module->check());
    ok(module->define(method));
    const Status status = module->check();
    refused(status, {sentence});
    EXPECT_NE(status.detail("excerpt").find('^'), std::string::npos);
  }
  const Ref<Module> optional = must(Module::create("Kept"));
  ok(optional->define(
      "def __getstate__(self) -> int:\n  return 1\n"
      "def __setstate__(self, s: Optional[int]) -> None:\n  self.training = True\n"));
  ok(optional->set_state("", Value::none()));
  ok(optional->check());
}

}  // namespace
}  // namespace tenon::module
